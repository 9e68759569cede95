"""Runtime parameters of virtual hosts, global parameters, policies and operator policies.

Not here: limits (`users`, `vhosts`), validation, which the server does.
"""

import json
from collections.abc import Callable
from typing import Any, Final

from warren.cli.ctl.api import ApiRefusal, failed, no_such_vhost
from warren.cli.ctl.terms import compact
from warren.cli.ctl.verb import Rows, Verb, VerbCall, VerbResult

LISTS_USAGE: Final = "[--vhost <vhost>] [--no-table-headers] [--timeout <timeout>]"


def decoded(text: str) -> Any:
    """Parse a JSON argument."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise failed("JSON decoding error. Reason: badarg") from error


def require_vhost(call: VerbCall) -> None:
    if call.api.find("vhosts", call.vhost) is None:
        raise no_such_vhost(call.vhost)


def put_parameter(call: VerbCall, component: str, name: str, value: object) -> None:
    try:
        call.api.put("parameters", component, call.vhost, name, body={"value": value})
    except ApiRefusal as answer:
        if answer.status == 404:
            raise no_such_vhost(call.vhost) from answer
        raise


def shown_limits(limits: Any) -> str:
    """Limits as one JSON object; without any, RabbitMQ sends an empty list."""
    return compact(dict(sorted(limits.items())) if isinstance(limits, dict) else {})


def remove(call: VerbCall, *place: str) -> None:
    if not call.api.remove(*place):
        raise failed("Parameter does not exist")


def list_parameters(call: VerbCall) -> Rows:
    require_vhost(call)
    rows = [
        {"component": row["component"], "name": row["name"], "value": compact(row["value"])}
        for row in call.api.get("parameters")
        if row["vhost"] == call.vhost
    ]
    return Rows(["component", "name", "value"], rows)


def set_parameter(call: VerbCall) -> None:
    component, name, text = call.arguments
    put_parameter(call, component, name, decoded(text))


def clear_parameter(call: VerbCall) -> None:
    component, name = call.arguments
    remove(call, "parameters", component, call.vhost, name)


def list_global_parameters(call: VerbCall) -> Rows:
    rows = [{"name": row["name"], "value": compact(row["value"])} for row in call.api.get("global-parameters")]
    return Rows(["name", "value"], rows)


def set_global_parameter(call: VerbCall) -> None:
    name, text = call.arguments
    call.api.put("global-parameters", name, body={"value": decoded(text)})


def clear_global_parameter(call: VerbCall) -> None:
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


POLICY_COLUMNS: Final = ["vhost", "name", "pattern", "apply-to", "definition", "priority"]
SET_USAGE: Final = "[--vhost <vhost>] [--priority <priority>] [--apply-to <apply-to>] <name> <pattern> <definition>"


def _lists(kind: str) -> Callable[[VerbCall], VerbResult]:
    def run(call: VerbCall) -> Rows:
        require_vhost(call)
        policies = call.api.get(kind, call.vhost)
        return Rows(POLICY_COLUMNS, [{**policy, "definition": compact(policy["definition"])} for policy in policies])

    return run


def _sets(kind: str) -> Callable[[VerbCall], VerbResult]:
    def run(call: VerbCall) -> None:
        name, pattern, text = call.arguments
        definition = decoded(text)
        body = {
            "pattern": pattern,
            "definition": definition,
            "priority": call.own("priority", 0),
            "apply-to": call.own("apply-to", "all"),
        }
        try:
            call.api.put(kind, call.vhost, name, body=body)
        except ApiRefusal as answer:
            if answer.status == 404:
                raise no_such_vhost(call.vhost) from answer
            raise

    return run


def _clears(kind: str) -> Callable[[VerbCall], VerbResult]:
    def run(call: VerbCall) -> None:
        remove(call, kind, call.vhost, call.arguments[0])

    return run


def _set_banner(what: str) -> Callable[[VerbCall], str]:
    def banner(call: VerbCall) -> str:
        name, pattern, text = call.arguments
        return (
            f'Setting {what} "{name}" for pattern "{pattern}" to "{text}" with priority "{call.own("priority", 0)}" '
            f'for vhost "{call.vhost}" ...'
        )

    return banner


POLICY_VERBS: Final = [
    Verb(
        "list_policies",
        "Lists the policies of a virtual host",
        _lists("policies"),
        LISTS_USAGE,
        "list_policies -p /",
        'Listing policies for vhost "{vhost}" ...',
    ),
    Verb(
        "set_policy",
        "Sets a policy for the queues and exchanges that match a pattern",
        _sets("policies"),
        SET_USAGE,
        """set_policy --priority 1 --apply-to queues short '^orders' '{"max-length": 1000}'""",
        _set_banner("policy"),
        (3, 3),
        {"priority": int, "apply-to": str},
    ),
    Verb(
        "clear_policy",
        "Clears a policy",
        _clears("policies"),
        "[--vhost <vhost>] <name>",
        "clear_policy short",
        'Clearing policy "{0}" on vhost "{vhost}" ...',
        (1, 1),
    ),
    Verb(
        "list_operator_policies",
        "Lists the operator policies of a virtual host",
        _lists("operator-policies"),
        LISTS_USAGE,
        "list_operator_policies -p /",
        'Listing operator policy overrides for vhost "{vhost}" ...',
    ),
    Verb(
        "set_operator_policy",
        "Sets an operator policy, which limits other policies and arguments",
        _sets("operator-policies"),
        SET_USAGE,
        """set_operator_policy ceiling '.*' '{"max-length": 100000}'""",
        _set_banner("operator policy override"),
        (3, 3),
        {"priority": int, "apply-to": str},
    ),
    Verb(
        "clear_operator_policy",
        "Clears an operator policy",
        _clears("operator-policies"),
        "[--vhost <vhost>] <name>",
        "clear_operator_policy ceiling",
        'Clearing operator policy "{0}" on vhost "{vhost}" ...',
        (1, 1),
    ),
]
