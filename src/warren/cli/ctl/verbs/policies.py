"""Policies and operator policies: the same verbs, on two lists.

Not here: what a policy does (`policy`); the server says what is wrong with one.
"""

from collections.abc import Callable
from typing import Final

from warren.cli.ctl.failure import Declined, no_such_vhost
from warren.cli.ctl.terms import compact
from warren.cli.ctl.verb import Call, Outcome, Rows, Verb
from warren.cli.ctl.verbs.parameters import LISTS_USAGE, decoded, remove, require_vhost

COLUMNS: Final = ["vhost", "name", "pattern", "apply-to", "definition", "priority"]
SET_USAGE: Final = "[--vhost <vhost>] [--priority <priority>] [--apply-to <apply-to>] <name> <pattern> <definition>"


def _lists(kind: str) -> Callable[[Call], Outcome]:
    def run(call: Call) -> Rows:
        require_vhost(call)
        policies = call.api.get(kind, call.vhost)
        return Rows(COLUMNS, [{**policy, "definition": compact(policy["definition"])} for policy in policies])

    return run


def _sets(kind: str) -> Callable[[Call], Outcome]:
    def run(call: Call) -> None:
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
        except Declined as answer:
            if answer.status == 404:
                raise no_such_vhost(call.vhost) from answer
            raise

    return run


def _clears(kind: str) -> Callable[[Call], Outcome]:
    def run(call: Call) -> None:
        remove(call, kind, call.vhost, call.arguments[0])

    return run


def _set_banner(what: str) -> Callable[[Call], str]:
    def banner(call: Call) -> str:
        name, pattern, text = call.arguments
        return (
            f'Setting {what} "{name}" for pattern "{pattern}" to "{text}" with priority "{call.own("priority", 0)}" '
            f'for vhost "{call.vhost}" ...'
        )

    return banner


VERBS: Final = [
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
        "Sets a policy that bounds what the other policies and arguments allow",
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
