"""Progress of consumer groups and named consumers of streams, and which group member reads which partition.

Each node reports the streams and partitions that live there.

Not here: streams as queues (`resources.queues`), consumers (`resources.connections`).
"""

from collections.abc import Iterable
from typing import Any

from warren.admin.http.request import ApiRequest
from warren.admin.http.responses import ApiResponse, json_response, not_found
from warren.admin.http.router import Resource, Routes, in_vhost, manager
from warren.admin.listing.lists import ObjectList, Row, full_rows
from warren.admin.listing.responses import list_response
from warren.admin.peer_requests import peer_documents
from warren.broker.links.hosted_queue import HostedConsumer
from warren.broker.model.ports import ConsumerPort
from warren.broker.model.stream_partitions import logical_name, partition_index
from warren.broker.streams.groups import ConsumerGroup, member_name
from warren.broker.streams.stream import Stream
from warren.broker.vhost import Vhost

ACTIVE = "active"
RETIRING = "retiring"
WAITING = "waiting"


def progress_rows(stream: Stream, node: str) -> list[dict[str, Any]]:
    """A row for each name, sorted. A group is listed from its first member on."""
    stored = stream.stored_offsets()
    groups = {group.name: group for group in stream.groups()}
    return [_row(stream, node, name, stored.get(name), groups.get(name)) for name in sorted({*stored, *groups})]


def _row(stream: Stream, node: str, name: str, offset: int | None, group: ConsumerGroup | None) -> dict[str, Any]:
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
    """The number of messages that were not processed; dropped messages do not count."""
    behind = stream.first_offset() if offset is None else max(offset + 1, stream.first_offset())
    return max(stream.end_offset() - behind, 0)


def _member(group: ConsumerGroup, consumer: ConsumerPort, node: str) -> dict[str, Any]:
    state = WAITING
    if consumer is group.active:
        state = RETIRING if group.is_retiring() else ACTIVE
    return {
        "name": member_name(consumer),
        "consumer_tag": consumer.tag,
        "node": consumer.node if isinstance(consumer, HostedConsumer) else node,
        "state": state,
    }


def routes() -> Routes:
    return {
        "/api/stream/groups": Resource(manager, {"GET": all_groups}),
        "/api/stream/groups/{vhost}": Resource(in_vhost, {"GET": groups_of_vhost}),
        "/api/stream/groups/{vhost}/{name}": Resource(in_vhost, {"GET": groups_of_stream}),
    }


async def all_groups(call: ApiRequest) -> ApiResponse:
    """Groups and named consumers of streams: their offsets and lags."""
    return await _answer(call, _rows(call, call.entered_vhosts()))


async def groups_of_vhost(call: ApiRequest) -> ApiResponse:
    """Groups and named consumers in one virtual host."""
    return await _answer(call, _rows(call, [call.vhost()]))


async def groups_of_stream(call: ApiRequest) -> ApiResponse:
    """Groups and named consumers of one stream and all its partitions."""
    name = call.params["name"]
    if name not in call.vhost().topology.queues:
        raise not_found()
    rows = _rows(call, [call.vhost()])
    return await _answer(call, [row for row in rows if name in (row["stream"], row["queue"])])


def _rows(call: ApiRequest, vhosts: Iterable[Vhost]) -> list[Row]:
    node = call.context.facts.name
    streams = [queue for vhost in vhosts for queue in vhost.own_queues() if isinstance(queue, Stream)]
    return [row for stream in streams for row in progress_rows(stream, node)]


async def _answer(call: ApiRequest, rows: list[Row]) -> ApiResponse:
    """The rows of all nodes, by partition."""
    if call.part is not None:
        return json_response(rows)
    rows += [row for found in await peer_documents(call) for row in found]
    return await list_response(call, ObjectList(sorted(rows, key=_place), full_rows(_itself), _name), paginated=False)


def _place(row: Row) -> tuple[str, str, int, str]:
    partition = row["partition"]
    return row["vhost"], row["stream"], -1 if partition is None else partition, row["name"]


def _itself(row: Row) -> Row:
    return row


def _name(row: Row) -> str:
    return str(row["name"])
