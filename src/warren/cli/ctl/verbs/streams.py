"""Streams: how far groups and consumers with a name have come.

Not here: streams among the queues (`verbs.queues`).
"""

from typing import Any, Final

from warren.cli.ctl.verb import MANY, Call, Rows, Source, Verb, listed, same

COLUMNS: Final[dict[str, Source]] = {
    **same("stream partition queue node name offset end lag active"),
    "members": Source(("members",), lambda row: ", ".join(_member(member) for member in row.get("members") or [])),
}


def _member(member: dict[str, Any]) -> str:
    return f"{member['name']} ({member['state']})"


def list_stream_groups(call: Call) -> Rows:
    return listed(call, "stream partition name offset lag active members", "stream", "groups", call.vhost)


VERBS: Final = [
    Verb(
        "list_stream_groups",
        "Lists the groups and named consumers of streams: how far each has come, and who reads which partition",
        list_stream_groups,
        "[--vhost <vhost>] [--no-table-headers] [<column> ...] [--timeout <timeout>]",
        "list_stream_groups stream partition name lag active",
        "Listing groups of streams in vhost {vhost} ...",
        (0, MANY),
        columns=COLUMNS,
    ),
]
