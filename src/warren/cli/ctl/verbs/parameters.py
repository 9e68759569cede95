"""Parameters of the run time: those of a virtual host and the global ones.

Not here: policies (`policies`) and limits (`users`, `vhosts`), which have verbs of their own.
"""

import json
from typing import Any, Final

from warren.cli.ctl.failure import Declined, failed, no_such_vhost
from warren.cli.ctl.terms import compact
from warren.cli.ctl.verb import Call, Rows, Verb

LISTS_USAGE: Final = "[--vhost <vhost>] [--no-table-headers] [--timeout <timeout>]"


def decoded(text: str) -> Any:
    """JSON that was given as an argument."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise failed("JSON decoding error. Reason: badarg") from error


def require_vhost(call: Call) -> None:
    if call.api.find("vhosts", call.vhost) is None:
        raise no_such_vhost(call.vhost)


def put_parameter(call: Call, component: str, name: str, value: object) -> None:
    try:
        call.api.put("parameters", component, call.vhost, name, body={"value": value})
    except Declined as answer:
        if answer.status == 404:
            raise no_such_vhost(call.vhost) from answer
        raise


def shown_limits(limits: Any) -> str:
    """Limits as one JSON object; without any, RabbitMQ sends an empty list."""
    return compact(dict(sorted(limits.items())) if isinstance(limits, dict) else {})


def remove(call: Call, *place: str) -> None:
    if not call.api.remove(*place):
        raise failed("Parameter does not exist")


def list_parameters(call: Call) -> Rows:
    require_vhost(call)
    rows = [
        {"component": row["component"], "name": row["name"], "value": compact(row["value"])}
        for row in call.api.get("parameters")
        if row["vhost"] == call.vhost
    ]
    return Rows(["component", "name", "value"], rows)


def set_parameter(call: Call) -> None:
    component, name, text = call.arguments
    put_parameter(call, component, name, decoded(text))


def clear_parameter(call: Call) -> None:
    component, name = call.arguments
    remove(call, "parameters", component, call.vhost, name)


def list_global_parameters(call: Call) -> Rows:
    rows = [{"name": row["name"], "value": compact(row["value"])} for row in call.api.get("global-parameters")]
    return Rows(["name", "value"], rows)


def set_global_parameter(call: Call) -> None:
    name, text = call.arguments
    call.api.put("global-parameters", name, body={"value": decoded(text)})


def clear_global_parameter(call: Call) -> None:
    remove(call, "global-parameters", call.arguments[0])


VERBS: Final = [
    Verb(
        "list_parameters",
        "Lists the parameters of a virtual host",
        list_parameters,
        LISTS_USAGE,
        "list_parameters -p /",
        'Listing runtime parameters for vhost "{vhost}" ...',
    ),
    Verb(
        "set_parameter",
        "Sets a parameter of a component in a virtual host",
        set_parameter,
        "[--vhost <vhost>] <component_name> <name> <value>",
        """set_parameter vhost-limits limits '{"max-queues": 100}'""",
        'Setting runtime parameter "{1}" for component "{0}" to "{2}" in vhost "{vhost}" ...',
        (3, 3),
    ),
    Verb(
        "clear_parameter",
        "Clears a parameter of a component in a virtual host",
        clear_parameter,
        "[--vhost <vhost>] <component_name> <name>",
        "clear_parameter vhost-limits limits",
        'Clearing runtime parameter "{1}" for component "{0}" on vhost "{vhost}" ...',
        (2, 2),
    ),
    Verb(
        "list_global_parameters",
        "Lists the global parameters",
        list_global_parameters,
        "[--no-table-headers] [--timeout <timeout>]",
        "list_global_parameters",
        "Listing global runtime parameters ...",
    ),
    Verb(
        "set_global_parameter",
        "Sets a global parameter",
        set_global_parameter,
        "<name> <value>",
        """set_global_parameter site '{"room": 4}'""",
        'Setting global runtime parameter "{0}" to "{1}" ...',
        (2, 2),
    ),
    Verb(
        "clear_global_parameter",
        "Clears a global parameter",
        clear_global_parameter,
        "<name>",
        "clear_global_parameter site",
        'Clearing global runtime parameter "{0}" ...',
        (1, 1),
    ),
]
