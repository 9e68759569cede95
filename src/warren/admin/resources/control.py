"""The node's process, to be changed: settings, log levels, its end. RabbitMQ has no paths for these.

Not here: what a change does (`node.control`).
"""

from typing import Any

from warren.admin.cluster.forwarding import at_node
from warren.admin.http.answers import Answer, json_answer, no_content
from warren.admin.http.call import Call
from warren.admin.http.faults import bad_request, not_found
from warren.admin.http.levels import administrator
from warren.admin.http.router import Resource
from warren.admin.listing.rows import answer_object
from warren.admin.node_control import LEVELS
from warren.admin.station import Station


def routes(station: Station) -> dict[str, Resource]:
    return {
        "/api/nodes/{node}/stop": Resource(administrator, {"POST": at_node(stop)}),
        "/api/nodes/{node}/draining": Resource(administrator, {"PUT": at_node(drain), "DELETE": at_node(revive)}),
        "/api/warren/settings": Resource(administrator, {"GET": settings}),
        "/api/warren/settings/{key}": Resource(administrator, {"PUT": set_setting}),
        "/api/warren/log-levels": Resource(administrator, {"GET": log_levels, "PUT": set_log_levels}),
        "/api/warren/log-levels/{category}": Resource(administrator, {"PUT": set_log_level}),
    }


async def stop(call: Call) -> Answer:
    call.station.control.stop(call.visitor.name)
    return no_content()


async def drain(call: Call) -> Answer:
    """Tell load balancers to send nobody new."""
    call.station.control.drain(call.visitor.name, True)
    return no_content()


async def revive(call: Call) -> Answer:
    """Tell load balancers to send clients again."""
    call.station.control.drain(call.visitor.name, False)
    return no_content()


async def settings(call: Call) -> Answer:
    return answer_object(call, dict(call.station.control.settings()))


async def set_setting(call: Call) -> Answer:
    key, value = call.params["key"], (await call.document()).get("value")
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise bad_request("value must be a string or a number")
    try:
        call.station.control.set_setting(key, str(value))
    except KeyError:
        raise not_found() from None
    except ValueError as error:
        raise bad_request(f"{key} must be {error}, not {str(value)!r}") from None
    return no_content()


async def log_levels(call: Call) -> Answer:
    return json_answer({"levels": list(LEVELS), "categories": call.station.control.log_levels()})


async def set_log_levels(call: Call) -> Answer:
    wanted = (await call.document()).get("categories")
    if not isinstance(wanted, dict):
        raise bad_request("categories must be an object, from category to level")
    _set(call, wanted)
    return no_content()


async def set_log_level(call: Call) -> Answer:
    _set(call, {call.params["category"]: (await call.document()).get("level")})
    return no_content()


def _set(call: Call, wanted: dict[str, Any]) -> None:
    """All of them or none."""
    control = call.station.control
    known = control.log_levels()
    for category, level in wanted.items():
        if category not in known:
            raise bad_request(f"category must be one of {', '.join(known)}, not {category!r}")
        if level not in LEVELS:
            raise bad_request(f"level must be one of {', '.join(LEVELS)}, not {level!r}")
    control.set_log_levels(wanted)
