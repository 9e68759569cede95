"""The node's process, to be changed: settings, log levels, its end. RabbitMQ has no paths for these.

Not here: what a change does (`node.admin_ports`).

A running node's part in its cluster, as `warren ctl` asks about it and changes it. RabbitMQ has no paths for these.

Not here: the same paths of a node that is stopped (`node.cluster.control_endpoint`), how it is done
(`node.admin_ports`).

What keeps a node in service: a message sent through it, and orders that a node alone has little to do for.

Not here: health checks that only look (`resources.health`).
"""

from typing import Any

from warren.admin.context import AdminContext
from warren.admin.direct_link import LinkFault
from warren.admin.forwarding import at_node
from warren.admin.http.request import ApiRequest
from warren.admin.http.responses import (
    ApiResponse,
    HttpFault,
    bad_request,
    json_response,
    no_content,
    not_authorised,
    not_found,
)
from warren.admin.http.router import Resource, administrator, in_vhost
from warren.admin.listing.responses import object_response
from warren.admin.ports import LOG_LEVELS, ForgetNodeRefused
from warren.admin.resources.nodes import FEATURE_FLAGS
from warren.broker.commands.requests import RebalanceQueues
from warren.errors import ACCESS_REFUSED, REPLY_NAMES
from warren.wire.methods import BasicGet, BasicGetEmpty, BasicGetOk, QueueDeclare, QueueDeclareOk
from warren.wire.properties import Properties


def routes(context: AdminContext) -> dict[str, Resource]:
    return {
        "/api/nodes/{node}/stop": Resource(administrator, {"POST": at_node(stop)}),
        "/api/nodes/{node}/draining": Resource(administrator, {"PUT": at_node(drain), "DELETE": at_node(revive)}),
        "/api/warren/settings": Resource(administrator, {"GET": settings}),
        "/api/warren/settings/{key}": Resource(administrator, {"PUT": set_setting}),
        "/api/warren/log-levels": Resource(administrator, {"GET": log_levels, "PUT": set_log_levels}),
        "/api/warren/log-levels/{category}": Resource(administrator, {"PUT": set_log_level}),
    }


async def stop(call: ApiRequest) -> ApiResponse:
    call.context.control.stop(call.api_user.name)
    return no_content()


async def drain(call: ApiRequest) -> ApiResponse:
    """Tell load balancers to send nobody new."""
    call.context.control.drain(call.api_user.name, True)
    return no_content()


async def revive(call: ApiRequest) -> ApiResponse:
    """Tell load balancers to send clients again."""
    call.context.control.drain(call.api_user.name, False)
    return no_content()


async def settings(call: ApiRequest) -> ApiResponse:
    return object_response(call, dict(call.context.control.settings()))


async def set_setting(call: ApiRequest) -> ApiResponse:
    key, value = call.params["key"], (await call.document()).get("value")
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise bad_request("value must be a string or a number")
    try:
        call.context.control.set_setting(key, str(value))
    except KeyError:
        raise not_found() from None
    except ValueError as error:
        raise bad_request(f"{key} must be {error}, not {str(value)!r}") from None
    return no_content()


async def log_levels(call: ApiRequest) -> ApiResponse:
    return json_response({"levels": list(LOG_LEVELS), "categories": call.context.control.log_levels()})


async def set_log_levels(call: ApiRequest) -> ApiResponse:
    wanted = (await call.document()).get("categories")
    if not isinstance(wanted, dict):
        raise bad_request("categories must be an object, from category to level")
    _set(call, wanted)
    return no_content()


async def set_log_level(call: ApiRequest) -> ApiResponse:
    _set(call, {call.params["category"]: (await call.document()).get("level")})
    return no_content()


def _set(call: ApiRequest, wanted: dict[str, Any]) -> None:
    """All of them or none."""
    control = call.context.control
    known = control.log_levels()
    for category, level in wanted.items():
        if category not in known:
            raise bad_request(f"category must be one of {', '.join(known)}, not {category!r}")
        if level not in LOG_LEVELS:
            raise bad_request(f"level must be one of {', '.join(LOG_LEVELS)}, not {level!r}")
    control.set_log_levels(wanted)


RUNNING = "running"


def membership_routes(context: AdminContext) -> dict[str, Resource]:
    return {
        "/api/warren/membership": Resource(administrator, {"GET": show_membership}),
        "/api/warren/membership/stop_app": Resource(administrator, {"POST": stop_app}),
        "/api/warren/membership/start_app": Resource(administrator, {"POST": start_app}),
        "/api/warren/membership/forget_cluster_node": Resource(administrator, {"POST": forget_node}),
    }


async def show_membership(call: ApiRequest) -> ApiResponse:
    return json_response({"node": call.context.peers.own, "app": RUNNING, "trouble": ""})


async def stop_app(call: ApiRequest) -> ApiResponse:
    call.context.control.stop_app(call.api_user.name)
    return no_content()


async def start_app(call: ApiRequest) -> ApiResponse:
    """It runs already."""
    return no_content()


async def forget_node(call: ApiRequest) -> ApiResponse:
    document = await call.document()
    name = document.get("node")
    if not isinstance(name, str):
        raise bad_request("node must be a string")
    if document.get("offline"):
        raise HttpFault(400, RUNNING, "this command requires the target node to be stopped.")
    try:
        await call.context.control.forget_node(call.api_user.name, name)
    except ForgetNodeRefused as refusal:
        raise HttpFault(400, refusal.code, str(refusal)) from refusal
    return no_content()


ALIVENESS_QUEUE = "aliveness-test"


def service_routes(context: AdminContext) -> dict[str, Resource]:
    return {
        "/api/aliveness-test/{vhost}": Resource(in_vhost, {"GET": aliveness}),
        "/api/rebalance/queues": Resource(administrator, {"POST": rebalance}),
        "/api/feature-flags/{name}/enable": Resource(administrator, {"PUT": enable_feature}),
    }


async def aliveness(call: ApiRequest) -> ApiResponse:
    """A queue is declared, a message published into it and taken out again; the queue stays, as in RabbitMQ."""
    vhost = call.vhost().name
    try:
        async with call.context.links.open(call.api_user.name, vhost) as link:
            await link.ask(QueueDeclare(ALIVENESS_QUEUE), QueueDeclareOk)
            await link.publish("", ALIVENESS_QUEUE, Properties(), b"test_message")
            heard = await link.ask_either(BasicGet(ALIVENESS_QUEUE, True), BasicGetOk, BasicGetEmpty)
    except LinkFault as fault:
        text = f"{REPLY_NAMES[fault.code]} - {fault.text}"
        raise (not_authorised(text) if fault.code == ACCESS_REFUSED else bad_request(f"{fault.code} {text}")) from fault
    if not isinstance(heard.method, BasicGetOk):
        raise HttpFault(503, "service_unavailable", f"the message did not come back from queue '{ALIVENESS_QUEUE}'")
    return json_response({"status": "ok"})


async def rebalance(call: ApiRequest) -> ApiResponse:
    """Masters of mirrored queues are spread evenly; all queues of a node alone are where they belong."""
    await call.context.command_queue.carry_out(RebalanceQueues())
    return no_content()


async def enable_feature(call: ApiRequest) -> ApiResponse:
    """They are all enabled."""
    if call.params["name"] not in FEATURE_FLAGS:
        raise bad_request("unsupported")
    return no_content()
