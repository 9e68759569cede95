"""A queue is made: `add_queue`, which rabbitmqctl does not have.

What follows the name is `field=value`, as rabbitmqadmin writes it. `mirroring` says in one JSON document whether the
queue is mirrored, and which others it copies. That becomes arguments of the declaration, the plainest that say so: a
client which declares the queue in the usual words finds it.

Not here: whether the arguments can be accepted, which the server says; the other verbs of queues (`queues`).
"""

import json
from typing import Any, Final

from warren.cli.ctl.failure import USAGE, Declined, Misuse, no_such_vhost
from warren.cli.ctl.verb import Call, Verb

FLAGS: Final = ("durable", "auto_delete")
DOCUMENTS: Final = ("arguments", "mirroring")
TRUTHS: Final = {"true": True, "false": False}
MIRRORING_KEYS: Final = {"copies", "mirrored"}
COPY_KEYS: Final = {"src_name", "routing_key"}


def add_queue(call: Call) -> None:
    try:
        call.api.put("queues", call.vhost, call.arguments[0], body=_body(call))
    except Declined as answer:
        if answer.status == 404:
            raise no_such_vhost(call.vhost) from answer
        raise


def check(call: Call) -> None:
    if not call.arguments[0]:
        raise Misuse(USAGE, "the name of a queue must not be empty")
    _body(call)


def _body(call: Call) -> dict[str, Any]:
    """The declaration as the HTTP API takes it."""
    given: dict[str, Any] = {}
    for word in call.arguments[1:]:
        name, equals, text = word.partition("=")
        if not equals or name not in (*FLAGS, *DOCUMENTS):
            raise Misuse(USAGE, f"expected one of {', '.join((*FLAGS, *DOCUMENTS))} with = and a value, got '{word}'")
        if name in given:
            raise Misuse(USAGE, f"{name} is given twice")
        given[name] = _flag(name, text) if name in FLAGS else _document(name, text)
    arguments, mirroring = given.get("arguments", {}), _mirroring_arguments(given.get("mirroring", {}))
    twice = sorted(set(arguments) & set(mirroring))
    if twice:
        raise Misuse(USAGE, f"both arguments and mirroring say {', '.join(twice)}")
    return {
        "durable": given.get("durable", True),
        "auto_delete": given.get("auto_delete", False),
        "arguments": {**arguments, **mirroring},
    }


def _flag(name: str, text: str) -> bool:
    if text not in TRUTHS:
        raise Misuse(USAGE, f"{name} must be true or false, not '{text}'")
    return TRUTHS[text]


def _document(name: str, text: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise Misuse(USAGE, f"{name} is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise Misuse(USAGE, f"{name} must be a JSON object")
    return document


def _mirroring_arguments(mirroring: dict[str, Any]) -> dict[str, Any]:
    _refuse_unknown("mirroring", mirroring, MIRRORING_KEYS)
    arguments: dict[str, Any] = {}
    if "mirrored" in mirroring:
        arguments["mirrored"] = mirroring["mirrored"]
    copies = mirroring.get("copies", [])
    if not isinstance(copies, list):
        raise Misuse(USAGE, 'copies of mirroring must be a list, such as [{"src_name": "orders"}]')
    for copy in copies:
        if not isinstance(copy, dict) or "src_name" not in copy:
            raise Misuse(USAGE, "each of the copies must be an object with a src_name")
        _refuse_unknown("copies", copy, COPY_KEYS)
    if len(copies) == 1:
        arguments["x-copy-from"] = copies[0]["src_name"]
        if "routing_key" in copies[0]:
            arguments["x-copy-routing-key"] = copies[0]["routing_key"]
    elif copies:
        arguments["x-copy-from"] = copies
    return arguments


def _refuse_unknown(what: str, document: dict[str, Any], known: set[str]) -> None:
    unknown = sorted(set(document) - known)
    if unknown:
        raise Misuse(USAGE, f"{what} may have {' and '.join(sorted(known))}, but not {', '.join(unknown)}")


ADD: Final = Verb(
    "add_queue",
    "Adds a queue, which may be mirrored and copy other queues",
    add_queue,
    "[--vhost <vhost>] <queue> [durable=true|false] [auto_delete=true|false] [arguments=<json>] [mirroring=<json>]",
    """add_queue audit mirroring='{"copies": [{"src_name": "orders", "routing_key": "eu.#"}], "mirrored": true}'""",
    "Adding queue '{0}' to vhost '{vhost}' ...",
    (1, 5),
    check=check,
)
