"""Queues and streams: list, add, purge, delete, synchronise; the history of a mirrored queue; stream groups.

`add_queue` is Warren's own. Its arguments after the name are `field=value`, as in rabbitmqadmin. `mirroring` is a JSON
document that says whether the queue is mirrored and which queues it copies. It becomes the simplest equivalent queue
arguments, so a client that declares the queue with the usual arguments finds it.

Not here: exchanges, bindings and consumers (`topology`), validation, which the server does.
"""

import json
from typing import Any, Final

from warren.cli.ctl.api import USAGE, ApiRefusal, UsageFailure, failed, no_such_vhost
from warren.cli.ctl.terms import Atom, TermTable, pid
from warren.cli.ctl.verb import MANY, ColumnSource, Rows, Text, Verb, VerbCall, list_verb, listed, same

COLUMNS: Final[dict[str, ColumnSource]] = {
    **same(
        "auto_delete committed_offset consumer_capacity consumer_utilisation consumers disk_bytes durable"
        " exclusive exclusive_consumer_tag first_offset head_message_timestamp leader members memory"
        " message_bytes message_bytes_persistent message_bytes_ram message_bytes_ready"
        " message_bytes_unacknowledged messages messages_persistent messages_ram messages_ready"
        " messages_ready_ram messages_unacknowledged messages_unacknowledged_ram name online operator_policy"
        " policy segments"
    ),
    "arguments": ColumnSource(("arguments",), lambda queue: TermTable(queue.get("arguments") or {})),
    "disk_reads": ColumnSource(("backing_queue_status",), lambda queue: _kept(queue, "disk_reads")),
    "disk_writes": ColumnSource(("backing_queue_status",), lambda queue: _kept(queue, "disk_writes")),
    "effective_policy_definition": ColumnSource(
        ("effective_policy_definition",), lambda queue: queue.get("effective_policy_definition") or {}
    ),
    "exclusive_consumer_pid": ColumnSource((), lambda queue: None),
    "owner_pid": ColumnSource(("owner_pid_details", "node"), lambda queue: _owner(queue)),
    "pid": ColumnSource(("node", "name", "type"), lambda queue: _process(queue, queue.get("node"))),
    "slave_pids": ColumnSource(("slave_nodes", "name"), lambda queue: _mirrors(queue, "slave_nodes")),
    "recoverable_slaves": ColumnSource(("recoverable_slaves",), lambda queue: _nodes(queue, "recoverable_slaves")),
    "state": ColumnSource(("state", "sync_messages"), lambda queue: _state(queue)),
    "sync_progress": ColumnSource(("sync_percent", "sync_seconds_left"), lambda queue: _progress(queue)),
    "synchronised_slave_pids": ColumnSource(
        ("synchronised_slave_nodes", "name"), lambda queue: _mirrors(queue, "synchronised_slave_nodes")
    ),
    "type": ColumnSource(("type",), lambda queue: Atom(queue.get("type") or "")),
}
BAR_CELLS: Final = 20
REACHABLE: Final = ("running", "syncing", "live", "idle", "flow")


def _kept(queue: dict[str, Any], name: str) -> object:
    return (queue.get("backing_queue_status") or {}).get(name, 0)


def _owner(queue: dict[str, Any]) -> Atom | None:
    return pid(queue.get("node"), (queue.get("owner_pid_details") or {}).get("name"))


def _process(queue: dict[str, Any], node: object) -> Atom | None:
    return None if queue.get("type") == "stream" else pid(node, queue.get("name"))


def _mirrors(queue: dict[str, Any], name: str) -> list[Atom | None] | None:
    nodes = queue.get(name)
    return None if nodes is None else [pid(node, queue.get("name")) for node in nodes]


def _nodes(queue: dict[str, Any], name: str) -> list[Atom] | None:
    nodes = queue.get(name)
    return None if nodes is None else [Atom(node) for node in nodes]


def _state(queue: dict[str, Any]) -> Atom:
    state = queue.get("state") or ""
    return Atom(f"{{syncing,{queue.get('sync_messages', 0)}}}" if state == "syncing" else state)


def _progress(queue: dict[str, Any]) -> Atom | None:
    """The progress of a queue's synchronisation: a bar, and an estimate once there is one."""
    percent, left_s = queue.get("sync_percent"), queue.get("sync_seconds_left")
    if percent is None:
        return None
    filled = int(percent * BAR_CELLS / 100)
    estimate = "" if left_s is None else f", {left_s:.0f} s left"
    return Atom(f"[{'#' * filled}{'.' * (BAR_CELLS - filled)}] {percent:.0f} %{estimate}")


def list_queues(call: VerbCall) -> Rows:
    return listed(call, "name messages", "queues", call.vhost, lists=_wanted(call), needs=("node", "state"))


def list_unresponsive_queues(call: VerbCall) -> Rows:
    """Queues whose home node is down or does not respond."""

    def unresponsive(queue: dict[str, Any]) -> bool:
        return queue.get("state") not in REACHABLE

    return listed(call, "name", "queues", call.vhost, lists=unresponsive, needs=("node", "state"))


def _wanted(call: VerbCall) -> Any:
    """The filter of `--online`, `--offline` and `--local`."""
    here = call.node if call.own("local") else None
    states = [bool(call.own("online")), bool(call.own("offline"))]

    def wanted(queue: dict[str, Any]) -> bool:
        if here is not None and queue.get("node") != here:
            return False
        return states[0] == states[1] or (queue.get("state") in REACHABLE) == states[0]

    return wanted


def purge_queue(call: VerbCall) -> None:
    try:
        call.api.delete("queues", call.vhost, call.arguments[0], "contents")
    except ApiRefusal as answer:
        if answer.status == 404:
            raise failed("not_found") from answer
        if "not supported" in answer.reason:
            raise failed("not_supported") from answer
        raise


def delete_queue(call: VerbCall) -> Text:
    place = ("queues", call.vhost, call.arguments[0])
    queue = call.api.find(*place, columns="messages_ready")
    if queue is None:
        raise failed("Queue not found", USAGE)
    conditions = {name: "true" for name in ("if-empty", "if-unused") if call.own(name)}
    try:
        call.api.delete(*place, query=conditions)
    except ApiRefusal as answer:
        raise _not_deleted(answer) from answer
    return Text(f"Queue was successfully deleted with {queue.get('messages_ready', 0)} ready messages")


def _not_deleted(answer: ApiRefusal) -> Exception:
    if answer.status == 404:
        return failed("Queue not found", USAGE)
    if answer.reason.endswith("in use"):
        return failed("Queue is in use", USAGE)
    return failed("Queue is not empty", USAGE) if answer.reason.endswith("not empty") else answer


def _delete_banner(call: VerbCall) -> str:
    conditions = [f"if queue is {name[3:]}" for name in ("if-empty", "if-unused") if call.own(name)]
    return " ".join(
        filter(None, [f"Deleting queue '{call.arguments[0]}' on vhost '{call.vhost}'", " and ".join(conditions), "..."])
    )


def sync_queue(call: VerbCall) -> None:
    if "slave_nodes" not in _mirrored(call):
        raise failed("not_mirrored")
    call.api.post("queues", call.vhost, call.arguments[0], "actions", body={"action": "sync"})


def cancel_sync_queue(call: VerbCall) -> Text | None:
    if "syncing" not in str(_mirrored(call).get("state")):
        return Text("not_syncing")
    call.api.post("queues", call.vhost, call.arguments[0], "actions", body={"action": "cancel_sync"})
    return None


def _mirrored(call: VerbCall) -> dict[str, Any]:
    queue: dict[str, Any] | None = call.api.find("queues", call.vhost, call.arguments[0])
    if queue is None:
        raise failed("not_found")
    return queue


def queue_story(call: VerbCall) -> Rows:
    """Recent events of a mirrored queue, the latest last, as in the log."""
    ring = _mirrored(call).get("ring")
    if ring is None:
        raise failed("not_mirrored")
    return Rows(["at", "event", "node", "epoch", "facts"], [_event_row(event) for event in reversed(ring["story"])])


def _event_row(event: dict[str, Any]) -> dict[str, object]:
    facts = {name: value for name, value in event.items() if name not in ("at", "event", "node", "epoch")}
    said = " ".join(f"{name}={value}" for name, value in facts.items())
    return {"at": event["at"], "event": event["event"], "node": event["node"], "epoch": event["epoch"], "facts": said}


LIST: Final = Verb(
    "list_queues",
    "Lists the queues of a virtual host",
    list_queues,
    "[--vhost <vhost>] [--online] [--offline] [--local] [--no-table-headers] [<column>, ...] [--timeout <timeout>]",
    "list_queues -p / name messages consumers",
    "Timeout: {timeout:.1f} seconds ...\nListing queues for vhost {vhost} ...",
    (0, MANY),
    {"online": bool, "offline": bool, "local": bool},
    columns=COLUMNS,
)
LIST_UNRESPONSIVE: Final = Verb(
    "list_unresponsive_queues",
    "Lists the queues of a virtual host whose node is down or does not respond",
    list_unresponsive_queues,
    "[--vhost <vhost>] [--no-table-headers] [<column>, ...] [--timeout <timeout>]",
    "list_unresponsive_queues -p / name pid",
    "Timeout: {timeout:.1f} seconds ...\nListing unresponsive queues for vhost {vhost} ...",
    (0, MANY),
    columns=COLUMNS,
)
VERBS: Final = [
    Verb(
        "purge_queue",
        "Deletes the ready messages of a queue",
        purge_queue,
        "<queue> [--timeout <timeout>]",
        "purge_queue -p / orders",
        "Purging queue '{0}' in vhost '{vhost}' ...",
        (1, 1),
    ),
    Verb(
        "delete_queue",
        "Deletes a queue, or only an empty or an unused one",
        delete_queue,
        "<queue_name> [--if-empty|-e] [--if-unused|-u] [--timeout <timeout>]",
        "delete_queue --if-empty orders",
        _delete_banner,
        (1, 1),
        {"if-empty": bool, "if-unused": bool},
        {"e": "if-empty", "u": "if-unused"},
    ),
]
REPLICATION: Final = [
    Verb(
        "sync_queue",
        "Starts to synchronise the mirrors of a queue",
        sync_queue,
        "[--vhost <vhost>] <queue>",
        "sync_queue orders",
        "Synchronising queue '{0}' in vhost '{vhost}' ...",
        (1, 1),
    ),
    Verb(
        "cancel_sync_queue",
        "Stops synchronising the mirrors of a queue",
        cancel_sync_queue,
        "[--vhost <vhost>] <queue>",
        "cancel_sync_queue orders",
        "Stopping synchronising queue '{0}' in vhost '{vhost}' ...",
        (1, 1),
    ),
    Verb(
        "queue_story",
        "Lists recent events of a mirrored queue: which mirrors were promoted, admitted or dropped, when and why",
        queue_story,
        "[--vhost <vhost>] <queue> [--no-table-headers]",
        "queue_story orders",
        "Story of queue '{0}' in vhost '{vhost}' ...",
        (1, 1),
    ),
]


FLAGS: Final = ("durable", "auto_delete")
DOCUMENTS: Final = ("arguments", "mirroring")
TRUTHS: Final = {"true": True, "false": False}
MIRRORING_KEYS: Final = {"copies", "mirrored"}
COPY_KEYS: Final = {"src_name", "routing_key"}


def add_queue(call: VerbCall) -> None:
    try:
        call.api.put("queues", call.vhost, call.arguments[0], body=_body(call))
    except ApiRefusal as answer:
        if answer.status == 404:
            raise no_such_vhost(call.vhost) from answer
        raise


def check_add_queue(call: VerbCall) -> None:
    if not call.arguments[0]:
        raise UsageFailure(USAGE, "the name of a queue must not be empty")
    _body(call)


def _body(call: VerbCall) -> dict[str, Any]:
    """The declaration for the HTTP API."""
    given: dict[str, Any] = {}
    for word in call.arguments[1:]:
        name, equals, text = word.partition("=")
        if not equals or name not in (*FLAGS, *DOCUMENTS):
            raise UsageFailure(
                USAGE, f"expected one of {', '.join((*FLAGS, *DOCUMENTS))} with = and a value, got '{word}'"
            )
        if name in given:
            raise UsageFailure(USAGE, f"{name} is given twice")
        given[name] = _flag(name, text) if name in FLAGS else _document(name, text)
    arguments, mirroring = given.get("arguments", {}), _mirroring_arguments(given.get("mirroring", {}))
    twice = sorted(set(arguments) & set(mirroring))
    if twice:
        raise UsageFailure(USAGE, f"both arguments and mirroring say {', '.join(twice)}")
    return {
        "durable": given.get("durable", True),
        "auto_delete": given.get("auto_delete", False),
        "arguments": {**arguments, **mirroring},
    }


def _flag(name: str, text: str) -> bool:
    if text not in TRUTHS:
        raise UsageFailure(USAGE, f"{name} must be true or false, not '{text}'")
    return TRUTHS[text]


def _document(name: str, text: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise UsageFailure(USAGE, f"{name} is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise UsageFailure(USAGE, f"{name} must be a JSON object")
    return document


def _mirroring_arguments(mirroring: dict[str, Any]) -> dict[str, Any]:
    _refuse_unknown("mirroring", mirroring, MIRRORING_KEYS)
    arguments: dict[str, Any] = {}
    if "mirrored" in mirroring:
        arguments["mirrored"] = mirroring["mirrored"]
    copies = mirroring.get("copies", [])
    if not isinstance(copies, list):
        raise UsageFailure(USAGE, 'copies of mirroring must be a list, such as [{"src_name": "orders"}]')
    for copy in copies:
        if not isinstance(copy, dict) or "src_name" not in copy:
            raise UsageFailure(USAGE, "each of the copies must be an object with a src_name")
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
        raise UsageFailure(USAGE, f"{what} may have {' and '.join(sorted(known))}, but not {', '.join(unknown)}")


ADD: Final = Verb(
    "add_queue",
    "Adds a queue, which may be mirrored and copy other queues",
    add_queue,
    "[--vhost <vhost>] <queue> [durable=true|false] [auto_delete=true|false] [arguments=<json>] [mirroring=<json>]",
    """add_queue audit mirroring='{"copies": [{"src_name": "orders", "routing_key": "eu.#"}], "mirrored": true}'""",
    "Adding queue '{0}' to vhost '{vhost}' ...",
    (1, 5),
    check=check_add_queue,
)


STREAM_GROUP_COLUMNS: Final[dict[str, ColumnSource]] = {
    **same("stream partition queue node name offset end lag active"),
    "members": ColumnSource(
        ("members",), lambda row: ", ".join(_member(member) for member in row.get("members") or [])
    ),
}


def _member(member: dict[str, Any]) -> str:
    return f"{member['name']} ({member['state']})"


STREAM_VERBS: Final = [
    list_verb(
        "list_stream_groups",
        "Lists the groups and named consumers of streams with offset, lag and active member by partition",
        "stream/groups/{vhost}",
        "stream partition name offset lag active members",
        STREAM_GROUP_COLUMNS,
        "stream partition name lag active",
        "Listing groups of streams in vhost {vhost} ...",
    ),
]
