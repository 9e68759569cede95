"""Shovels, in the paths of RabbitMQ's shovel plugin.

Each node reports the shovels that it runs. A defined shovel that no node reports is starting. Deleting a shovel clears
its parameter, so it takes a policymaker here; RabbitMQ lets any monitor do it.

Not here: definitions, which are parameters (`resources.policies`).
"""

from warren.admin.http.request import ApiRequest
from warren.admin.http.responses import ApiResponse, json_response, no_content, not_found
from warren.admin.http.router import Resource, Routes, monitor, policymaker
from warren.admin.listing.responses import object_response, rows_response
from warren.admin.peer_requests import forward_to_owner, peer_documents
from warren.admin.ports import BridgeRow
from warren.broker.commands.requests import ClearParameter

COMPONENT = "shovel"
RUNNING = "running"


def routes() -> Routes:
    return {
        "/api/shovels": Resource(monitor, {"GET": shovels}),
        "/api/shovels/{vhost}": Resource(monitor, {"GET": shovels}),
        "/api/shovels/vhost/{vhost}/{name}": Resource(monitor, {"GET": one_shovel}).also(_deleter, {"DELETE": delete}),
        "/api/shovels/vhost/{vhost}/{name}/restart": Resource(monitor, {"DELETE": restart}),
    }


async def shovels(call: ApiRequest) -> ApiResponse:
    """Shovels in the virtual host of the path, or in all that the user may enter."""
    if call.part is not None:
        return json_response(call.context.bridges.shovel_rows())
    vhosts = [call.vhost().name] if "vhost" in call.params else list(call.context.broker.vhosts)
    seen = set(vhosts).intersection(call.api_user.vhosts)
    return await rows_response(call, [row for row in await _rows(call) if row["vhost"] in seen], ("vhost", "name"))


async def one_shovel(call: ApiRequest) -> ApiResponse:
    """One shovel."""
    if call.part is not None:
        return json_response(call.context.bridges.shovel_rows())
    wanted = (call.vhost().name, call.params["name"])
    for row in await _rows(call):
        if (row["vhost"], row["name"]) == wanted and row["vhost"] in call.api_user.vhosts:
            return object_response(call, row)
    raise not_found()


async def _rows(call: ApiRequest) -> list[BridgeRow]:
    """A row for each defined shovel. If two nodes report it for a moment, the running one counts."""
    rows = call.context.bridges.shovel_rows()
    rows += [row for found in await peer_documents(call) for row in found]
    rows.sort(key=lambda row: row["state"] == RUNNING)
    known = {(row["vhost"], row["name"]): row for row in rows}
    defined = call.context.broker.policies.parameters.values()
    return [
        known.get((one.vhost, one.name)) or _coming(call, one.vhost, one.name)
        for one in defined
        if one.component == COMPONENT
    ]


def _coming(call: ApiRequest, vhost: str, name: str) -> BridgeRow:
    row: BridgeRow = {"node": call.context.facts.name, "timestamp": "", "name": name, "vhost": vhost, "type": "dynamic"}
    return row | {"state": "starting", "forwarded": 0, "uncertain": 0}


def _deleter(call: ApiRequest) -> str:
    return monitor(call) or policymaker(call)


async def delete(call: ApiRequest) -> ApiResponse:
    return await call.carry_out(ClearParameter(call.vhost().name, COMPONENT, call.params["name"]))


async def restart(call: ApiRequest) -> ApiResponse:
    vhost, name = call.vhost().name, call.params["name"]
    parameters = call.context.broker.policies.parameters
    if vhost not in call.api_user.vhosts or (vhost, COMPONENT, name) not in parameters:
        raise not_found()
    if await call.context.bridges.restart_shovel(vhost, name):
        return no_content()
    return await forward_to_owner(call)
