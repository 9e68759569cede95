"""Connections are closed by operators, or by whose they are.

Not here: reading them (`resources.connections`).
"""

from warren.admin.cluster.forwarding import ALONE, elsewhere
from warren.admin.http.answers import Answer, no_content
from warren.admin.http.call import Call
from warren.admin.http.faults import not_authorised
from warren.admin.http.levels import manager
from warren.admin.http.router import Resource
from warren.admin.resources.connections import connection_named
from warren.admin.station import Station
from warren.admin.views.connections import listed_connections
from warren.broker.commands import DismissConnection
from warren.model.commands import Together
from warren.session.connection import Connection

USUAL_REASON = "Closed via management plugin"


def routes(station: Station) -> dict[str, Resource]:
    return {
        "/api/connections/{name}": Resource(manager, {"DELETE": close_one}),
        "/api/connections/username/{user}": Resource(manager, {"DELETE": close_all_of_user}),
    }


async def close_one(call: Call) -> Answer:
    connection = connection_named(call, call.params["name"])
    return await (elsewhere(call) if connection is None else _close(call, [connection]))


async def close_all_of_user(call: Call) -> Answer:
    user = call.params["user"]
    if not call.visitor.is_monitor and user != call.visitor.name:
        raise not_authorised("User not authorised to access object")
    if call.part is None:
        await call.station.peers.ask_all(call.question(ALONE))
    return await _close(call, [one for one in listed_connections(call.station.broker) if one.user == user])


async def _close(call: Call, connections: list[Connection]) -> Answer:
    visitor = call.visitor
    if any(connection.user != visitor.name for connection in connections) and not visitor.is_administrator:
        raise not_authorised("User not authorised to access object")
    reason = _reason(call)
    await call.station.desk.carry_out(Together([DismissConnection(one.connection_id, reason) for one in connections]))
    return no_content()


def _reason(call: Call) -> str:
    """What the header `X-Reason` says; its bytes are UTF-8, which HTTP knows nothing of."""
    given = call.header("x-reason").encode("latin-1").decode("utf-8", "replace")
    return given or USUAL_REASON
