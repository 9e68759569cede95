"""Virtual hosts and their limits: paths, rows and changes.

The user who creates a virtual host gets full permissions in it, as in RabbitMQ.

Not here: the permissions in a virtual host (`resources.permissions`).
"""

from collections.abc import Callable
from typing import Any

from warren.admin import message_stats
from warren.admin.http.documents import Document, flag, names_in, require, text
from warren.admin.http.request import ApiRequest
from warren.admin.http.responses import (
    ApiResponse,
    bad_request,
    created,
    json_response,
    no_content,
)
from warren.admin.http.router import Resource, Routes, administrator, in_vhost_or_monitor, manager
from warren.admin.http.schemas import FLAG, NAMES, TEXT, WHOLE, an_object
from warren.admin.listing.columns import ALL_COLUMNS, ColumnSelection
from warren.admin.listing.lists import ObjectList, SharedObjects, full_rows
from warren.admin.listing.responses import list_response, object_response, rows_response
from warren.admin.message_stats import added, sample_spans
from warren.admin.peer_requests import peer_documents
from warren.admin.peers import RowKey
from warren.admin.ports import HistoryPort, SampleSpans
from warren.broker.commands.requests import (
    ClearVhostLimits,
    DeleteVhost,
    EmptyVhost,
    PutVhost,
    SetPermission,
    SetVhostLimits,
)
from warren.broker.model.events import Command, CommandBatch
from warren.broker.routing.topology_transactions import REMOVED_AT_ONCE
from warren.broker.snapshots import NodeQueueTotals
from warren.broker.vhost import Vhost

KNOWN_OF_VHOSTS = frozenset({"default_queue_type", "description", "metadata", "name", "tags", "tracing"})
"""The fields of a virtual host that every node knows."""


_LENGTHS = ("messages", "messages_ready", "messages_unacknowledged")


class VhostRows:
    """Builds rows of virtual hosts."""

    def __init__(self, node: str, history: HistoryPort, spans: SampleSpans) -> None:
        self._node = node
        self._history = history
        self._spans = spans

    def plan(self, wanted: ColumnSelection) -> Callable[[Vhost], dict[str, Any]]:
        """How to build the selected columns. Lengths visit all queues, so they are built only if selected."""
        share = self.share(wanted)
        return lambda vhost: self.bare(vhost) | share(vhost)

    def share(self, wanted: ColumnSelection) -> Callable[[Vhost], dict[str, Any]]:
        """How to build the fields of this node."""
        counts_messages = wanted.any_of(*_LENGTHS, *(f"{name}_details" for name in _LENGTHS))

        def build(vhost: Vhost) -> dict[str, Any]:
            row: dict[str, Any] = {"cluster_state": {self._node: "running"}}
            if counts_messages:
                sums = NodeQueueTotals([vhost])
                lengths = message_stats.queue_lengths(sums.ready, sums.unacked)
                row |= self._history.rated("vhost", vhost.name, lengths, self._spans.lengths)
            counted = message_stats.vhost_counters(vhost.stats)
            message_stats.add_message_stats(row, self._history, "vhost", vhost.name, counted, self._spans.messages)
            if vhost.stats.received_bytes:
                octets = {"recv_oct": int(vhost.stats.received_bytes), "send_oct": int(vhost.stats.sent_bytes)}
                row |= self._history.rated("vhost", vhost.name, octets, self._spans.bytes)
            return row

        return build

    def bare(self, vhost: Vhost) -> dict[str, Any]:
        return {
            "cluster_state": {self._node: "running"},
            "default_queue_type": "undefined",
            "description": vhost.description,
            "metadata": {"description": vhost.description, "tags": vhost.tags},
            "name": vhost.name,
            "tags": vhost.tags,
            "tracing": vhost.tracing,
        }


def routes() -> Routes:
    return {
        "/api/vhosts": Resource(manager, {"GET": all_vhosts}),
        "/api/vhosts/{vhost}": Resource(
            administrator,
            {"GET": one_vhost, "PUT": put_vhost, "DELETE": delete_vhost},
            an_object(description=TEXT, tags=NAMES, tracing=FLAG),
        ),
        "/api/vhosts/{vhost}/start/{node}": Resource(administrator, {"POST": start_vhost}),
        "/api/vhost-limits": Resource(manager, {"GET": all_vhost_limits}),
        "/api/vhost-limits/{vhost}": Resource(in_vhost_or_monitor, {"GET": limits_of_vhost}),
        "/api/vhost-limits/{vhost}/{name}": Resource(
            administrator, {"PUT": set_vhost_limit, "DELETE": clear_vhost_limit}, an_object({"value": WHOLE})
        ),
    }


async def all_vhosts(call: ApiRequest) -> ApiResponse:
    rows = VhostRows(call.context.facts.name, call.context.history, sample_spans(call.query))
    if call.flag("disable_stats"):
        return await list_response(call, ObjectList(_seen_vhosts(call), full_rows(rows.bare), _vhost_name))
    vhosts = call.context.broker.vhosts

    def find(key: RowKey) -> Vhost | None:
        return vhosts.get(key[0])

    spread = SharedObjects(_vhost_key, find, _everywhere, rows.share, rows.bare, KNOWN_OF_VHOSTS)
    return await list_response(call, ObjectList(_seen_vhosts(call), rows.plan, _vhost_name, spread=spread))


async def one_vhost(call: ApiRequest) -> ApiResponse:
    rows = VhostRows(call.context.facts.name, call.context.history, sample_spans(call.query))
    vhost = call.vhost()
    if call.part is not None:
        return json_response(rows.share(ALL_COLUMNS)(vhost))
    row = rows.plan(ALL_COLUMNS)(vhost)
    for document in await peer_documents(call):
        row = added(row, document)
    return object_response(call, row)


async def put_vhost(call: ApiRequest) -> ApiResponse:
    name = call.params["vhost"]
    commands = [vhost_command(name, await call.document())]
    is_new = name not in call.context.broker.vhosts
    if is_new and call.api_user.definer is not None:
        commands.append(SetPermission(call.api_user.definer, name, ".*", ".*", ".*"))
    await call.context.command_queue.carry_out(CommandBatch(commands))
    return created() if is_new else no_content()


def vhost_command(name: str, document: Document) -> Command:
    """The command for a virtual host's document."""
    tags = names_in(document, "tags") if "tags" in document else []
    tracing = flag(document, "tracing") if "tracing" in document else None
    return PutVhost(name, text(document, "description"), tags, tracing)


async def delete_vhost(call: ApiRequest) -> ApiResponse:
    """A large one is emptied first, a slice in each turn; so it may be found half empty."""
    name = call.params["vhost"]
    vhost = call.context.broker.vhosts.get(name)
    for _ in range(0 if vhost is None else vhost.topology.size() // REMOVED_AT_ONCE):
        await call.context.command_queue.carry_out(EmptyVhost(name))
    return await call.carry_out(DeleteVhost(name))


async def start_vhost(call: ApiRequest) -> ApiResponse:
    """Nothing to do: every virtual host runs. For scripts that make sure of it."""
    node, name = call.params["node"], call.params["vhost"]
    if node != call.context.broker.settings.node_name:
        raise bad_request(f"Request to node {node} failed with nodedown")
    if name not in call.context.broker.vhosts:
        raise bad_request(f'Request to node {node} failed with {{no_such_vhost,<<"{name}">>}}')
    return no_content()


async def all_vhost_limits(call: ApiRequest) -> ApiResponse:
    return await _vhost_limits(call, _seen_vhosts(call))


async def limits_of_vhost(call: ApiRequest) -> ApiResponse:
    return await _vhost_limits(call, [call.vhost()])


def _seen_vhosts(call: ApiRequest) -> list[Vhost]:
    vhosts = call.context.broker.vhosts
    return [vhosts[name] for name in sorted(vhosts) if call.api_user.is_monitor or name in call.api_user.vhosts]


def _vhost_key(vhost: Vhost) -> RowKey:
    return (vhost.name,)


def _everywhere(vhost: Vhost) -> str:
    """Every node has all virtual hosts and counts its own clients and queues."""
    return ""


def _vhost_name(vhost: Vhost) -> str:
    return vhost.name


async def _vhost_limits(call: ApiRequest, vhosts: list[Vhost]) -> ApiResponse:
    rows = [{"vhost": vhost.name, "value": dict(vhost.limits)} for vhost in vhosts if vhost.limits]
    return await rows_response(call, rows, ("vhost",))


async def set_vhost_limit(call: ApiRequest) -> ApiResponse:
    document = await call.document()
    require(document, "value")
    await call.carry_out(SetVhostLimits(call.target_vhost(), {call.params["name"]: document["value"]}))
    return no_content()


async def clear_vhost_limit(call: ApiRequest) -> ApiResponse:
    return await call.carry_out(ClearVhostLimits(call.params["vhost"], [call.params["name"]]))
