"""How far whoever has a name has come in a stream of this node: consumers with a name, and groups with their members.

Not here: which streams (`resources.streams`), consumers as rows of their own (`views.channels`).
"""

from typing import Any

from warren.model.partitions import logical_name, partition_index
from warren.model.ports import Consumer
from warren.remote.hosted_consumer import HostedConsumer
from warren.stream.groups import Group, member_name
from warren.stream.stream import Stream

ACTIVE = "active"
RETIRING = "retiring"
WAITING = "waiting"


def progress_rows(stream: Stream, node: str) -> list[dict[str, Any]]:
    """A row for each name, in their order; a group is there from its first member on."""
    stored = stream.stored_offsets()
    groups = {group.name: group for group in stream.groups()}
    return [_row(stream, node, name, stored.get(name), groups.get(name)) for name in sorted({*stored, *groups})]


def _row(stream: Stream, node: str, name: str, offset: int | None, group: Group | None) -> dict[str, Any]:
    partition = partition_index(stream)
    begun = offset is not None and offset >= 0
    members = [] if group is None else [_member(group, consumer, node) for consumer in group.members()]
    return {
        "vhost": stream.vhost,
        "stream": logical_name(stream.arguments) or stream.name,
        "partition": partition if partition >= 0 else None,
        "queue": stream.name,
        "node": node,
        "name": name,
        "offset": offset if begun else None,
        "end": stream.end_offset(),
        "lag": _lag(stream, offset),
        "active": next((member["name"] for member in members if member["state"] != WAITING), None),
        "members": members,
    }


def _lag(stream: Stream, offset: int | None) -> int:
    """How much there is that has not been dealt with; what was dropped is not there."""
    behind = stream.first_offset() if offset is None else max(offset + 1, stream.first_offset())
    return max(stream.end_offset() - behind, 0)


def _member(group: Group, consumer: Consumer, node: str) -> dict[str, Any]:
    state = WAITING
    if consumer is group.active:
        state = RETIRING if group.is_retiring() else ACTIVE
    return {
        "name": member_name(consumer),
        "consumer_tag": consumer.tag,
        "node": consumer.node if isinstance(consumer, HostedConsumer) else node,
        "state": state,
    }
