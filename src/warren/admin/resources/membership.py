"""A running node's part in its cluster, as `warren ctl` asks about it and changes it. RabbitMQ has no paths for these.

Not here: the same paths of a node that is stopped (`node.cluster.control_room`), how it is done (`node.control`).
"""

from warren.admin.http.answers import Answer, json_answer, no_content
from warren.admin.http.call import Call
from warren.admin.http.faults import HttpFault, bad_request
from warren.admin.http.levels import administrator
from warren.admin.http.router import Resource
from warren.admin.node_control import ForgettingRefused
from warren.admin.station import Station

RUNNING = "running"


def routes(station: Station) -> dict[str, Resource]:
    return {
        "/api/warren/membership": Resource(administrator, {"GET": show}),
        "/api/warren/membership/stop_app": Resource(administrator, {"POST": stop_app}),
        "/api/warren/membership/start_app": Resource(administrator, {"POST": start_app}),
        "/api/warren/membership/forget_cluster_node": Resource(administrator, {"POST": forget_node}),
    }


async def show(call: Call) -> Answer:
    return json_answer({"node": call.station.peers.own, "app": RUNNING, "trouble": ""})


async def stop_app(call: Call) -> Answer:
    call.station.control.stop_app(call.visitor.name)
    return no_content()


async def start_app(call: Call) -> Answer:
    """It runs already."""
    return no_content()


async def forget_node(call: Call) -> Answer:
    document = await call.document()
    name = document.get("node")
    if not isinstance(name, str):
        raise bad_request("node must be a string")
    if document.get("offline"):
        raise HttpFault(400, RUNNING, "this command requires the target node to be stopped.")
    try:
        await call.station.control.forget_node(call.visitor.name, name)
    except ForgettingRefused as refusal:
        raise HttpFault(400, refusal.code, str(refusal)) from refusal
    return no_content()
