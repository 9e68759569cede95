"""Policies, operator policies, parameters and global parameters: paths, rows and changes.

In RabbitMQ, limits of virtual hosts are also parameters (component `vhost-limits`), and so are operator policies
(component `operator_policy`). They are listed as such, and scripts set them as such. Both restrict policymakers, so
only administrators may set them. Shovels and federation upstreams are parameters too and may lead into virtual hosts of
this broker, with the permissions of the user who set them.

RabbitMQ escapes `<` and `&` in some reasons for refusals; scripts expect that.

Not here: what policies do and validation (`broker.policies`).
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from html import escape
from typing import Any

from warren.admin.http.documents import Document, require
from warren.admin.http.request import ApiRequest
from warren.admin.http.responses import ApiResponse, bad_request, created, no_content, not_found
from warren.admin.http.router import (
    AccessLevel,
    Resource,
    Routes,
    administrator,
    any_policymaker,
    in_vhost,
    manager,
    policymaker,
)
from warren.admin.http.schemas import ANY_VALUE, PATTERN, TABLE, WHOLE, an_object, one_of
from warren.admin.listing.responses import object_response, rows_response
from warren.admin.rabbitmq_json import amqp_json
from warren.broker.broker import Broker
from warren.broker.commands.requests import (
    ClearGlobalParameter,
    ClearParameter,
    ClearPolicy,
    ClearVhostLimits,
    SetGlobalParameter,
    SetParameter,
    SetPolicy,
    SetVhostLimits,
)
from warren.broker.model.erlang_terms import json_term
from warren.broker.model.events import Command, CommandBatch
from warren.broker.policies.parameters import Parameter
from warren.broker.policies.policies import Policy
from warren.broker.policies.validation import policy_of
from warren.errors import CommandRefused

OPERATOR_POLICY = "operator_policy"
VHOST_LIMITS = "vhost-limits"
FOR_ADMINISTRATORS = (VHOST_LIMITS, OPERATOR_POLICY)


def policy_row(policy: Policy) -> dict[str, Any]:
    return {
        "vhost": policy.vhost,
        "name": policy.name,
        "pattern": policy.pattern,
        "apply-to": policy.apply_to,
        "definition": amqp_json(policy.definition),
        "priority": policy.priority,
    }


def _listed(policy: Policy) -> dict[str, Any]:
    """The row, and why a recorded policy applies to nothing."""
    fault = policy.compiled.sentence()
    return {**policy_row(policy), "fault": fault} if fault else policy_row(policy)


def parameter_rows(broker: Broker) -> Iterator[dict[str, Any]]:
    """Everything that RabbitMQ calls a parameter of a component."""
    for policy in broker.policies.operator_policies.values():
        row = policy_row(policy)
        value = {name: row[name] for name in ("pattern", "definition", "priority", "apply-to")}
        yield _parameter_row(policy.vhost, OPERATOR_POLICY, policy.name, value)
    for vhost in broker.vhosts.values():
        if vhost.limits:
            yield _parameter_row(vhost.name, VHOST_LIMITS, "limits", dict(vhost.limits))
    for parameter in broker.policies.parameters.values():
        yield _parameter_row(parameter.vhost, parameter.component, parameter.name, parameter.value)


def _parameter_row(vhost: str, component: str, name: str, value: object) -> dict[str, Any]:
    return {"value": value, "vhost": vhost, "component": component, "name": name}


def global_parameter_row(name: str, value: object) -> dict[str, Any]:
    return {"name": name, "value": value}


def routes() -> Routes:
    policies, operator_policies = PolicyResource(False), PolicyResource(True)
    value = an_object({"value": ANY_VALUE})
    return {
        **policies.routes("/api/policies", policymaker),
        **operator_policies.routes("/api/operator-policies", administrator),
        "/api/parameters": Resource(any_policymaker, {"GET": parameters}),
        "/api/parameters/{component}": Resource(any_policymaker, {"GET": parameters}),
        "/api/parameters/{component}/{vhost}": Resource(policymaker, {"GET": parameters}),
        "/api/parameters/{component}/{vhost}/{name}": Resource(policymaker, {"GET": one_parameter}).also(
            parameter_level, {"PUT": put_parameter, "DELETE": delete_parameter}, value
        ),
        "/api/global-parameters": Resource(any_policymaker, {"GET": global_parameters}),
        "/api/global-parameters/{name}": Resource(
            any_policymaker,
            {"GET": one_global_parameter, "PUT": put_global_parameter, "DELETE": delete_global_parameter},
            value,
        ),
    }


class PolicyResource:
    """Policies, or operator policies."""

    def __init__(self, operator: bool) -> None:
        self._operator = operator

    def routes(self, path: str, changing: AccessLevel) -> Routes:
        body = an_object(
            {"pattern": PATTERN, "definition": TABLE},
            priority=WHOLE,
            **{"apply-to": one_of("all", "queues", "exchanges")},
        )
        return {
            path: Resource(manager, {"GET": self.all}),
            f"{path}/{{vhost}}": Resource(in_vhost, {"GET": self.of_vhost}),
            f"{path}/{{vhost}}/{{name}}": Resource(in_vhost, {"GET": self.one}).also(
                changing, {"PUT": self.put, "DELETE": self.delete}, body
            ),
        }

    async def all(self, call: ApiRequest) -> ApiResponse:
        vhosts = call.api_user.vhosts
        return await _policies(call, [policy for policy in self._known(call) if policy.vhost in vhosts])

    async def of_vhost(self, call: ApiRequest) -> ApiResponse:
        vhost = call.vhost().name
        return await _policies(call, [policy for policy in self._known(call) if policy.vhost == vhost])

    async def one(self, call: ApiRequest) -> ApiResponse:
        policies = call.context.broker.policies
        found = policies.policy(call.vhost().name, call.params["name"], self._operator)
        if found is None:
            raise not_found()
        return object_response(call, _listed(found))

    async def put(self, call: ApiRequest) -> ApiResponse:
        vhost, name, document = call.target_vhost(), call.params["name"], await call.document()
        is_new = call.context.broker.policies.policy(vhost, name, self._operator) is None
        with nullcontext() if self._operator else _escaped_reasons():
            await call.carry_out(policy_command(vhost, name, document, self._operator))
        return created() if is_new else no_content()

    async def delete(self, call: ApiRequest) -> ApiResponse:
        return await call.carry_out(ClearPolicy(call.params["vhost"], call.params["name"], self._operator))

    def _known(self, call: ApiRequest) -> list[Policy]:
        policies = call.context.broker.policies
        return list((policies.operator_policies if self._operator else policies.policies).values())


async def _policies(call: ApiRequest, policies: Iterable[Policy]) -> ApiResponse:
    return await rows_response(call, map(_listed, list(policies)), ("vhost", "name"))


async def parameters(call: ApiRequest) -> ApiResponse:
    """Parameters of a component, or of all, in the virtual host of the path or in all that the user may enter."""
    rows = _seen_parameters(call)
    if "vhost" in call.params:
        vhost = call.vhost().name
        rows = [row for row in rows if row["vhost"] == vhost]
    return await rows_response(call, rows, ("component", "vhost", "name"))


async def one_parameter(call: ApiRequest) -> ApiResponse:
    wanted = (call.vhost().name, call.params["name"])
    for row in _seen_parameters(call):
        if (row["vhost"], row["name"]) == wanted:
            return object_response(call, row)
    raise not_found()


def _seen_parameters(call: ApiRequest) -> list[dict[str, Any]]:
    component = call.params.get("component")
    api_user = call.api_user
    return [
        row
        for row in parameter_rows(call.context.broker)
        if (component is None or row["component"] == component)
        and (api_user.is_administrator or row["vhost"] in api_user.vhosts)
    ]


async def global_parameters(call: ApiRequest) -> ApiResponse:
    known = call.context.broker.policies.global_parameters
    return await rows_response(call, [global_parameter_row(name, value) for name, value in known.items()], ("name",))


async def one_global_parameter(call: ApiRequest) -> ApiResponse:
    known = call.context.broker.policies.global_parameters
    name = call.params["name"]
    if name not in known:
        raise not_found()
    return object_response(call, global_parameter_row(name, known[name]))


def parameter_level(call: ApiRequest) -> str:
    """A policymaker, except for components that restrict policymakers."""
    return administrator(call) if call.params["component"] in FOR_ADMINISTRATORS else policymaker(call)


def policy_command(vhost: str, name: str, document: Document, operator: bool) -> Command:
    """The command for a policy's document."""
    require(document, "pattern", "definition")
    apply_to = document.get("apply-to", "all")
    priority = document.get("priority", 0)
    policy = policy_of(vhost, name, document["pattern"], apply_to, document["definition"], priority, operator)
    return SetPolicy(policy, operator)


async def put_parameter(call: ApiRequest) -> ApiResponse:
    document = await call.document()
    require(document, "value")
    vhost, component, name = call.target_vhost(), call.params["component"], call.params["name"]
    if component == "policy":
        raise bad_request("policies may not be set using this method")
    is_new = not _has_parameter(call, vhost, component, name)
    definer = call.api_user.definer
    _check_bridge(call, Parameter(vhost, component, name, document["value"], definer))
    with _escaped_reasons():
        await call.carry_out(parameter_command(vhost, component, name, document["value"], definer))
    return created() if is_new else no_content()


def _check_bridge(call: ApiRequest, parameter: Parameter) -> None:
    """A bridge may enter this broker without a login, so its definer must be allowed to enter there."""
    api_user = call.api_user
    reason = call.context.bridges.definer_refusal(parameter, api_user.vhosts, api_user.is_administrator)
    if reason:
        raise bad_request(f"Validation failed\n\n{reason}\n")


def _has_parameter(call: ApiRequest, vhost: str, component: str, name: str) -> bool:
    broker = call.context.broker
    if component == OPERATOR_POLICY:
        return (vhost, name) in broker.policies.operator_policies
    if component == VHOST_LIMITS:
        return bool(broker.vhosts[vhost].limits)
    return (vhost, component, name) in broker.policies.parameters


def parameter_command(vhost: str, component: str, name: str, value: object, definer: str | None) -> Command:
    """The command that sets a parameter; an empty `definer` is the operator of the node, None an unknown one."""
    if component == OPERATOR_POLICY:
        if not isinstance(value, dict):
            raise bad_request("Validation failed\n\na policy is an object\n")
        for key in ("priority", "pattern", "definition"):
            if key not in value:
                raise bad_request(f'Validation failed\n\nKey "{key}" not found in {name}\n')
        return policy_command(vhost, name, value, True)
    if component != VHOST_LIMITS:
        return SetParameter(vhost, component, name, value, definer)
    # RabbitMQ writes an empty object as an array
    limits = {} if value == [] else value
    if not isinstance(limits, dict):
        raise bad_request(f"Validation failed\n\nlimits not a list {json_term(value)}\n")
    return CommandBatch([ClearVhostLimits(vhost, None), SetVhostLimits(vhost, limits)])


async def delete_parameter(call: ApiRequest) -> ApiResponse:
    vhost, component, name = call.params["vhost"], call.params["component"], call.params["name"]
    if component == OPERATOR_POLICY:
        return await call.carry_out(ClearPolicy(vhost, name, True))
    if component != VHOST_LIMITS:
        return await call.carry_out(ClearParameter(vhost, component, name))
    if not call.vhost().limits:
        raise not_found()
    return await call.carry_out(ClearVhostLimits(vhost, None))


async def put_global_parameter(call: ApiRequest) -> ApiResponse:
    document = await call.document()
    require(document, "value")
    is_new = call.params["name"] not in call.context.broker.policies.global_parameters
    await call.carry_out(SetGlobalParameter(call.params["name"], document["value"]))
    return created() if is_new else no_content()


async def delete_global_parameter(call: ApiRequest) -> ApiResponse:
    return await call.carry_out(ClearGlobalParameter(call.params["name"]))


@contextmanager
def _escaped_reasons() -> Iterator[None]:
    try:
        yield
    except CommandRefused as refusal:
        raise CommandRefused(refusal.kind, escape(refusal.reason, quote=False)) from refusal
