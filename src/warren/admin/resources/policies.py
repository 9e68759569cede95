"""Policies, operator policies, parameters and global parameters, to read.

Not here: changing them.
"""

from collections.abc import Iterable
from typing import Any

from warren.admin.http.answers import Answer
from warren.admin.http.call import Call
from warren.admin.http.faults import not_found
from warren.admin.http.levels import any_policymaker, in_vhost, manager, policymaker
from warren.admin.http.router import Resource
from warren.admin.listing.rows import answer_object, answer_rows
from warren.admin.station import Station
from warren.admin.views.policies import global_parameter_row, parameter_rows, policy_row
from warren.policy.policy import Policy


def routes(station: Station) -> dict[str, Resource]:
    policies, operator_policies = PolicyReads(False), PolicyReads(True)
    return {
        "/api/policies": Resource(manager, {"GET": policies.all}),
        "/api/policies/{vhost}": Resource(in_vhost, {"GET": policies.of_vhost}),
        "/api/policies/{vhost}/{name}": Resource(in_vhost, {"GET": policies.one}),
        "/api/operator-policies": Resource(manager, {"GET": operator_policies.all}),
        "/api/operator-policies/{vhost}": Resource(in_vhost, {"GET": operator_policies.of_vhost}),
        "/api/operator-policies/{vhost}/{name}": Resource(in_vhost, {"GET": operator_policies.one}),
        "/api/parameters": Resource(any_policymaker, {"GET": parameters}),
        "/api/parameters/{component}": Resource(any_policymaker, {"GET": parameters}),
        "/api/parameters/{component}/{vhost}": Resource(policymaker, {"GET": parameters}),
        "/api/parameters/{component}/{vhost}/{name}": Resource(policymaker, {"GET": one_parameter}),
        "/api/global-parameters": Resource(any_policymaker, {"GET": global_parameters}),
        "/api/global-parameters/{name}": Resource(any_policymaker, {"GET": one_global_parameter}),
    }


class PolicyReads:
    """Policies, or operator policies."""

    def __init__(self, operator: bool) -> None:
        self._operator = operator

    async def all(self, call: Call) -> Answer:
        vhosts = call.visitor.vhosts
        return await _policies(call, [policy for policy in self._known(call) if policy.vhost in vhosts])

    async def of_vhost(self, call: Call) -> Answer:
        vhost = call.vhost().name
        return await _policies(call, [policy for policy in self._known(call) if policy.vhost == vhost])

    async def one(self, call: Call) -> Answer:
        policies = call.station.broker.policies
        found = policies.policy(call.vhost().name, call.params["name"], self._operator)
        if found is None:
            raise not_found()
        return answer_object(call, policy_row(found))

    def _known(self, call: Call) -> list[Policy]:
        policies = call.station.broker.policies
        return list((policies.operator_policies if self._operator else policies.policies).values())


async def _policies(call: Call, policies: Iterable[Policy]) -> Answer:
    return await answer_rows(call, [policy_row(policy) for policy in policies], ("vhost", "name"))


async def parameters(call: Call) -> Answer:
    """Those of a component, or of all, in the virtual host of the path or in those the visitor may enter."""
    rows = _seen_parameters(call)
    if "vhost" in call.params:
        vhost = call.vhost().name
        rows = [row for row in rows if row["vhost"] == vhost]
    return await answer_rows(call, rows, ("component", "vhost", "name"))


async def one_parameter(call: Call) -> Answer:
    wanted = (call.vhost().name, call.params["name"])
    for row in _seen_parameters(call):
        if (row["vhost"], row["name"]) == wanted:
            return answer_object(call, row)
    raise not_found()


def _seen_parameters(call: Call) -> list[dict[str, Any]]:
    component = call.params.get("component")
    visitor = call.visitor
    return [
        row
        for row in parameter_rows(call.station.broker)
        if (component is None or row["component"] == component)
        and (visitor.is_administrator or row["vhost"] in visitor.vhosts)
    ]


async def global_parameters(call: Call) -> Answer:
    known = call.station.broker.policies.global_parameters
    return await answer_rows(call, [global_parameter_row(name, value) for name, value in known.items()], ("name",))


async def one_global_parameter(call: Call) -> Answer:
    known = call.station.broker.policies.global_parameters
    name = call.params["name"]
    if name not in known:
        raise not_found()
    return answer_object(call, global_parameter_row(name, known[name]))
