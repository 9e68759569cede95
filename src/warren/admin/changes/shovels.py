"""Shovels are restarted and deleted, in the paths of RabbitMQ's shovel plugin.

Deleting one is clearing its parameter, so it takes a policymaker here; RabbitMQ lets any monitor do it.

Not here: defining them, as parameters (`changes.policies`); how they stand (`resources.shovels`).
"""

from warren.admin.changes.users import carry_out
from warren.admin.cluster.forwarding import elsewhere
from warren.admin.http.answers import Answer, no_content
from warren.admin.http.call import Call
from warren.admin.http.faults import not_found
from warren.admin.http.levels import monitor, policymaker
from warren.admin.http.router import Resource
from warren.admin.resources.shovels import COMPONENT
from warren.admin.station import Station
from warren.policy.commands import ClearParameter


def routes(station: Station) -> dict[str, Resource]:
    return {
        "/api/shovels/vhost/{vhost}/{name}": Resource(_deleter, {"DELETE": delete}),
        "/api/shovels/vhost/{vhost}/{name}/restart": Resource(monitor, {"DELETE": restart}),
    }


def _deleter(call: Call) -> str:
    return monitor(call) or policymaker(call)


async def delete(call: Call) -> Answer:
    return await carry_out(call, ClearParameter(call.vhost().name, COMPONENT, call.params["name"]))


async def restart(call: Call) -> Answer:
    vhost, name = call.vhost().name, call.params["name"]
    parameters = call.station.broker.policies.parameters
    if vhost not in call.visitor.vhosts or (vhost, COMPONENT, name) not in parameters:
        raise not_found()
    if await call.station.bridges.restart_shovel(vhost, name):
        return no_content()
    return await elsewhere(call)
