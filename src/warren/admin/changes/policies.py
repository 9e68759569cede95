"""Policies, operator policies, parameters and global parameters are set and cleared.

Limits of virtual hosts are parameters, too, of the component `vhost-limits`, and operator policies of the component
`operator_policy`; scripts set them as such. Both bind policymakers, so they are for administrators on this path, too.
Shovels and upstreams are parameters, and may lead into virtual hosts of this very broker.

RabbitMQ writes the reasons of some refusals as it would into a page, with `<` and `&` escaped; scripts know them so.

Not here: reading them (`resources.policies`), what is a good policy (`policy.validation`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from html import escape

from warren.access.commands import ClearVhostLimits, SetVhostLimits
from warren.admin.changes.fields import Document, require, text
from warren.admin.changes.users import carry_out
from warren.admin.http.answers import Answer, created, no_content
from warren.admin.http.call import Call
from warren.admin.http.faults import HttpFault, bad_request, not_found
from warren.admin.http.levels import administrator, any_policymaker, policymaker
from warren.admin.http.router import Resource
from warren.admin.station import Station
from warren.errors import Refused
from warren.model.commands import Command, Together
from warren.model.json_terms import json_term
from warren.policy.commands import (
    ClearGlobalParameter,
    ClearParameter,
    ClearPolicy,
    SetGlobalParameter,
    SetParameter,
    SetPolicy,
)
from warren.policy.parameters import Parameter
from warren.policy.validation import policy_of

VHOST_LIMITS = "vhost-limits"
OPERATOR_POLICY = "operator_policy"
FOR_ADMINISTRATORS = (VHOST_LIMITS, OPERATOR_POLICY)


def routes(station: Station) -> dict[str, Resource]:
    return {
        "/api/policies/{vhost}/{name}": Resource(policymaker, {"PUT": put_policy, "DELETE": delete_policy}),
        "/api/operator-policies/{vhost}/{name}": Resource(
            administrator, {"PUT": put_operator_policy, "DELETE": delete_operator_policy}
        ),
        "/api/parameters/{component}/{vhost}/{name}": Resource(
            parameter_level, {"PUT": put_parameter, "DELETE": delete_parameter}
        ),
        "/api/global-parameters/{name}": Resource(
            any_policymaker, {"PUT": put_global_parameter, "DELETE": delete_global_parameter}
        ),
        "/api/cluster-name": Resource(administrator, {"PUT": put_cluster_name}),
    }


def parameter_level(call: Call) -> str:
    """A policymaker, but for what limits policymakers."""
    return administrator(call) if call.params["component"] in FOR_ADMINISTRATORS else policymaker(call)


async def put_policy(call: Call) -> Answer:
    vhost, document = _vhost_of(call), await call.document()
    with _escaped_reasons():
        return await _put(call, policy_command(vhost, call.params["name"], document, False), False)


async def put_operator_policy(call: Call) -> Answer:
    return await _put(call, policy_command(_vhost_of(call), call.params["name"], await call.document(), True), True)


async def _put(call: Call, command: Command, operator: bool) -> Answer:
    is_new = call.station.broker.policies.policy(call.params["vhost"], call.params["name"], operator) is None
    await carry_out(call, command)
    return created() if is_new else no_content()


def policy_command(vhost: str, name: str, document: Document, operator: bool) -> Command:
    """What a policy's document asks for."""
    require(document, "pattern", "definition")
    apply_to = document.get("apply-to", "all")
    priority = document.get("priority", 0)
    policy = policy_of(vhost, name, document["pattern"], apply_to, document["definition"], priority, operator)
    return SetPolicy(policy, operator)


async def delete_policy(call: Call) -> Answer:
    return await carry_out(call, ClearPolicy(call.params["vhost"], call.params["name"], False))


async def delete_operator_policy(call: Call) -> Answer:
    return await carry_out(call, ClearPolicy(call.params["vhost"], call.params["name"], True))


async def put_parameter(call: Call) -> Answer:
    document = await call.document()
    require(document, "value")
    vhost, component, name = _vhost_of(call), call.params["component"], call.params["name"]
    if component == "policy":
        raise bad_request("policies may not be set using this method")
    is_new = not _has_parameter(call, vhost, component, name)
    _check_bridge(call, Parameter(vhost, component, name, document["value"]))
    with _escaped_reasons():
        await carry_out(call, parameter_command(vhost, component, name, document["value"]))
    return created() if is_new else no_content()


def _check_bridge(call: Call, parameter: Parameter) -> None:
    """Who defines a bridge that enters this broker without a login has to be somebody who may enter."""
    for vhost in call.station.bridges.vhosts_entered(parameter):
        if vhost not in call.visitor.vhosts:
            reason = f'user "{call.visitor.name}" may not connect to vhost "{vhost}"'
            raise bad_request(f"Validation failed\n\n{reason}\n")


def _has_parameter(call: Call, vhost: str, component: str, name: str) -> bool:
    broker = call.station.broker
    if component == OPERATOR_POLICY:
        return (vhost, name) in broker.policies.operator_policies
    if component == VHOST_LIMITS:
        return bool(broker.vhosts[vhost].limits)
    return (vhost, component, name) in broker.policies.parameters


def parameter_command(vhost: str, component: str, name: str, value: object) -> Command:
    """What setting a parameter comes to."""
    if component == OPERATOR_POLICY:
        if not isinstance(value, dict):
            raise bad_request("Validation failed\n\na policy is an object\n")
        for key in ("priority", "pattern", "definition"):
            if key not in value:
                raise bad_request(f'Validation failed\n\nKey "{key}" not found in {name}\n')
        return policy_command(vhost, name, value, True)
    if component != VHOST_LIMITS:
        return SetParameter(vhost, component, name, value)
    # RabbitMQ writes an object that is empty as an array
    limits = {} if value == [] else value
    if not isinstance(limits, dict):
        raise bad_request(f"Validation failed\n\nlimits not a list {json_term(value)}\n")
    return Together([ClearVhostLimits(vhost, None), SetVhostLimits(vhost, limits)])


async def delete_parameter(call: Call) -> Answer:
    vhost, component, name = call.params["vhost"], call.params["component"], call.params["name"]
    if component == OPERATOR_POLICY:
        return await carry_out(call, ClearPolicy(vhost, name, True))
    if component != VHOST_LIMITS:
        return await carry_out(call, ClearParameter(vhost, component, name))
    if not call.vhost().limits:
        raise not_found()
    return await carry_out(call, ClearVhostLimits(vhost, None))


async def put_global_parameter(call: Call) -> Answer:
    document = await call.document()
    require(document, "value")
    is_new = call.params["name"] not in call.station.broker.policies.global_parameters
    await carry_out(call, SetGlobalParameter(call.params["name"], document["value"]))
    return created() if is_new else no_content()


async def delete_global_parameter(call: Call) -> Answer:
    return await carry_out(call, ClearGlobalParameter(call.params["name"]))


async def put_cluster_name(call: Call) -> Answer:
    document = await call.document()
    require(document, "name")
    return await carry_out(call, SetGlobalParameter("cluster_name", text(document, "name")))


def _vhost_of(call: Call) -> str:
    """The virtual host to change something in; RabbitMQ words its absence otherwise than when something is read."""
    name = call.params["vhost"]
    if name not in call.station.broker.vhosts:
        raise HttpFault(404, "not_found", "vhost_not_found")
    return name


@contextmanager
def _escaped_reasons() -> Iterator[None]:
    try:
        yield
    except Refused as refusal:
        raise Refused(refusal.kind, escape(refusal.reason, quote=False)) from refusal
