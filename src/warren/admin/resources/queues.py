"""Queues: paths and changes.

Names are sorted once for each version of a virtual host's topology, not for each request.

Not here: rows (`resources.queue_rows`), messages (`resources.messages`), bindings (`resources.bindings`).
"""

from dataclasses import replace
from operator import attrgetter
from typing import Any

from warren.admin.http.documents import Document, arguments, flag, require, short, text
from warren.admin.http.request import ApiRequest
from warren.admin.http.responses import (
    ApiResponse,
    HttpFault,
    bad_request,
    created,
    json_response,
    no_content,
    not_found,
    to_json,
)
from warren.admin.http.router import Resource, Routes, administrator, in_vhost, manager
from warren.admin.http.schemas import FLAG, TABLE, TEXT, an_object, one_of
from warren.admin.listing.lists import ObjectList, Row, SharedObjects, full_rows
from warren.admin.listing.responses import list_response, object_response
from warren.admin.message_stats import added, sample_spans
from warren.admin.peer_requests import ALONE, forwarded_response
from warren.admin.peers import RowKey
from warren.admin.resources.connection_rows import deliveries_by_channel
from warren.admin.resources.queue_rows import KNOWN_EVERYWHERE, QueueRows, waiting_consumers
from warren.admin.resources.user_links import topology_link
from warren.broker.commands.requests import CancelSync, SyncMirrors
from warren.broker.links.mirrored_queue_proxy import MirroredQueueProxy
from warren.broker.links.remote_queue import RemoteQueue
from warren.broker.model.ports import QueuePort
from warren.broker.routing.topology import Topology
from warren.broker.vhost import Vhost
from warren.wire.methods import (
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
)

_BY_NAME = attrgetter("name")


_WAITING = "waiting_consumers"


def routes() -> Routes:
    queues = QueueReads()
    return {
        "/api/queues": Resource(manager, {"GET": queues.all}),
        "/api/queues/{vhost}": Resource(in_vhost, {"GET": queues.of_vhost}),
        "/api/queues/{vhost}/{name}": Resource(
            in_vhost,
            {"GET": queues.one, "PUT": put_queue, "DELETE": delete_queue},
            an_object(durable=FLAG, auto_delete=FLAG, arguments=TABLE, node=TEXT),
        ),
        "/api/queues/{vhost}/{name}/contents": Resource(in_vhost, {"DELETE": purge_queue}),
        "/api/queues/{vhost}/{name}/actions": Resource(
            administrator, {"POST": act_on_queue}, an_object({"action": one_of("sync", "cancel_sync")})
        ),
    }


class QueueReads:
    """Lists of queues, and single queues."""

    def __init__(self) -> None:
        # by virtual host: its topology, the version, and the queues sorted at that version
        self._ordered: dict[str, tuple[Topology, int, list[QueuePort]]] = {}

    async def all(self, call: ApiRequest) -> ApiResponse:
        vhosts = call.entered_vhosts()
        if len(vhosts) == 1:
            return await self._list(call, self._in_order(vhosts[0]))
        return await self._list(call, [queue for vhost in vhosts for queue in self._in_order(vhost)])

    async def of_vhost(self, call: ApiRequest) -> ApiResponse:
        return await self._list(call, self._in_order(call.vhost()))

    async def one(self, call: ApiRequest) -> ApiResponse:
        topology = call.vhost().topology
        queue = topology.queues.get(call.params["name"])
        if queue is None:
            raise not_found()
        rows = _rows(call)
        if call.flag("disable_stats"):
            return object_response(call, rows.without_stats(queue))
        peers, own = call.context.peers, await _detailed(call, queue, rows)
        if call.part is not None:
            return json_response(own)
        parts: dict[str, Row] = {peers.own: own}
        replies = await peers.ask_all(call.peer_query(ALONE))
        parts |= {node: reply.document for node, reply in replies.items() if reply.status == 200}
        row = _put_together(parts, rows.home_of(queue), rows.agreed_row(queue))
        copies = topology.copying.names_of_copies(queue)
        return object_response(call, {**row, "copied_by": copies} if copies else row)

    async def _list(self, call: ApiRequest, queues: list[QueuePort]) -> ApiResponse:
        rows = _rows(call)
        vhosts = call.context.broker.vhosts

        def find(key: RowKey) -> QueuePort | None:
            vhost = vhosts.get(key[0])
            return None if vhost is None else vhost.topology.queues.get(key[1])

        spread = SharedObjects(_key_of, find, rows.home_of, rows.share, rows.agreed_row, KNOWN_EVERYWHERE)
        if not call.flag("disable_stats"):
            return await list_response(call, ObjectList(queues, rows.plan, _BY_NAME, rows.columns(), spread))
        if call.flag("enable_queue_totals"):
            return await list_response(
                call, ObjectList(queues, full_rows(rows.totals), _BY_NAME, rows.columns(), spread)
            )
        return await list_response(
            call, ObjectList(queues, full_rows(rows.without_stats), _BY_NAME, {"name": _BY_NAME})
        )

    def _in_order(self, vhost: Vhost) -> list[QueuePort]:
        topology = vhost.topology
        known = self._ordered.get(vhost.name)
        if known is not None and known[0] is topology and known[1] == topology.version:
            return known[2]
        queues = sorted(topology.queues.values(), key=_BY_NAME)
        self._ordered[vhost.name] = (topology, int(topology.version), queues)
        return queues


def _rows(call: ApiRequest) -> QueueRows:
    context = call.context
    facts = context.facts
    return QueueRows(facts.name, context.history, facts.now_ms(), sample_spans(call.query), context.broker)


async def _detailed(call: ApiRequest, queue: QueuePort, rows: QueueRows) -> Row:
    """All that this node knows of a queue; the queue's home also knows which consumers elsewhere wait."""
    context = call.context
    row = await rows.detailed(queue)
    row["deliveries"] = await deliveries_by_channel(queue, context.broker, context.facts.name, context.history)
    real = rows.real(queue)
    if real is not None:
        row[_WAITING] = waiting_consumers(real)
    return row


def _key_of(queue: QueuePort) -> RowKey:
    return (queue.vhost, queue.name)


def _put_together(parts: dict[str, Row], home: str, agreed_row: Row) -> Row:
    """One row from all nodes' parts: the home node's fields, and every node's consumers and counters."""
    known = [part["ring"] for node, part in parts.items() if "ring" in part and node != home]
    row: dict[str, Any] = {"deliveries": [], "incoming": [], **parts.get(home, agreed_row)}
    if "ring" not in row and known:
        # of the nodes that responded, the one with the newest replica set
        row["ring"] = max(known, key=lambda ring: (ring["epoch"], len(ring["story"])))
    waiting = {tuple(found) for found in row.pop(_WAITING, [])}
    consumers: list[Row] = []
    row["deliveries"] = []
    for node, part in sorted(parts.items()):
        for consumer in part.get("consumer_details", []):
            if (node, consumer["consumer_tag"]) in waiting:
                consumer |= {"active": False, "activity_status": "waiting"}
            consumers.append(consumer)
        row["deliveries"] += part.get("deliveries", [])
        if node != home and part.get("message_stats"):
            row["message_stats"] = added(row.get("message_stats"), part["message_stats"])
    row["consumer_details"] = consumers
    return row


async def put_queue(call: ApiRequest) -> ApiResponse:
    document = await call.document()
    node = text(document, "node")
    if node and node != call.context.peers.own:
        return await _put_queue_at(call, node, document)
    declare = QueueDeclare(
        queue=short("queue", call.params["name"]),
        durable=flag(document, "durable"),
        auto_delete=flag(document, "auto_delete"),
        arguments=arguments(document),
    )
    async with topology_link(call) as link:
        is_new = call.params["name"] not in call.vhost().topology.queues
        await link.ask(declare, QueueDeclareOk)
    return created() if is_new else no_content()


async def _put_queue_at(call: ApiRequest, node: str, document: Document) -> ApiResponse:
    """A queue lives on the node where it is declared, unless a policy says otherwise."""
    peer_query = replace(call.peer_query(ALONE), body=to_json(document))
    reply = await call.context.peers.ask(node, peer_query)
    if reply is None:
        raise bad_request(f"Node {node} could not be contacted")
    return forwarded_response(reply)


async def delete_queue(call: ApiRequest) -> ApiResponse:
    delete = QueueDelete(_queue_of(call), if_unused=call.flag("if-unused"), if_empty=call.flag("if-empty"))
    async with topology_link(call) as link:
        await link.ask(delete, QueueDeleteOk)
    return no_content()


async def purge_queue(call: ApiRequest) -> ApiResponse:
    name = _queue_of(call)
    async with topology_link(call) as link:
        await link.ask(QueuePurge(name), QueuePurgeOk)
    return no_content()


async def act_on_queue(call: ApiRequest) -> ApiResponse:
    """Start or stop synchronisation of a queue's mirrors; nothing to do without mirrors."""
    document = await call.document()
    require(document, "action")
    name = _queue_of(call)
    if document["action"] not in ("sync", "cancel_sync"):
        raise HttpFault(400, "bad_request", ["unknown", document["action"]])
    queue, context = call.vhost().topology.queues[name], call.context
    if not isinstance(queue, RemoteQueue | MirroredQueueProxy) or queue.replica_set is None:
        return no_content()
    if queue.node == context.peers.own:
        command = SyncMirrors if document["action"] == "sync" else CancelSync
        await context.command_queue.carry_out(command(queue.vhost, queue.name))
        return no_content()
    reply = None
    if call.part is None:
        reply = await context.peers.ask(queue.node, replace(call.peer_query(ALONE), body=to_json(document)))
    if reply is None:
        raise HttpFault(503, "service_unavailable", f"node {queue.node} does not answer")
    return forwarded_response(reply)


def _queue_of(call: ApiRequest) -> str:
    name = call.params["name"]
    if name not in call.vhost().topology.queues:
        raise not_found()
    return name
