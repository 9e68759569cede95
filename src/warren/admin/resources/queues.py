"""Queues, to read.

Names are put in order once for each version of a virtual host's topology, and not for each request.

Not here: declaring, deleting, purging, getting.

A queue as a row.

Lists are long, so what to build of a row is decided once for a list, and what nobody wants is not built.

Not here: which queues (`resources.queues`), bindings (`views.bindings`).

Who holds a mirrored queue, as operators see it: under RabbitMQ's names, and the ring with its story under ours.

Mirrors are told in the order in which they came to the ring. Those that are away are not in `slave_nodes`, as in
RabbitMQ; they are among the `recoverable_slaves`, which have what they had.

A queue serves its clients while its mirrors catch up, and yet its state is `syncing`, as operators know it.

Not here: the queue's own figures (`views.queues`).

What a row of a queue says of it if it is a stream.

Not here: the rest of the row (`views.queues`), groups and stored offsets (`resources.streams`).
"""

from collections.abc import Callable
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any

from warren.admin import message_stats
from warren.admin.context import AdminContext
from warren.admin.forwarding import ALONE
from warren.admin.http.request import ApiRequest
from warren.admin.http.responses import ApiResponse, json_response, not_found
from warren.admin.http.router import Resource, in_vhost, manager
from warren.admin.listing.columns import ALL_COLUMNS, ColumnSelection
from warren.admin.listing.lists import ObjectList, Row, SharedObjects, full_rows
from warren.admin.listing.responses import list_response, object_response, rows_response
from warren.admin.message_stats import added, sample_spans
from warren.admin.peers import RowKey
from warren.admin.ports import HistoryPort, SampleSpans
from warren.admin.rabbitmq_json import GARBAGE_COLLECTION, NO_RATE, amqp_json
from warren.admin.resources.connection_rows import connection_details, consumer_row, deliveries_by_channel
from warren.admin.resources.exchanges import binding_row, implicit_binding, leading_to
from warren.broker.broker import Broker
from warren.broker.links.direct_master import DirectConsumer
from warren.broker.links.hosted_queue import HostedConsumer
from warren.broker.links.mirrored_queue_proxy import MirroredQueueProxy
from warren.broker.links.queue_proxy import QueueProxy
from warren.broker.links.remote_queue import RemoteQueue
from warren.broker.model.local_queue import LocalQueue, QueueReport
from warren.broker.model.ports import ConsumerPort, QueuePort
from warren.broker.model.replica_set import ReplicaSet
from warren.broker.model.stream_partitions import partition_names
from warren.broker.queues.arguments import type_of
from warren.broker.queues.queue import Queue
from warren.broker.replication.backfill import Backfill
from warren.broker.replication.local_replica import LocalReplica
from warren.broker.replication.replica_history import ReplicaEvent
from warren.broker.routing.topology import Topology
from warren.broker.streams.partitioned import PartitionedStream
from warren.broker.streams.stream import Stream
from warren.broker.vhost import Vhost

MirrorRow = dict[str, Any]


class MirrorRows:
    """Of the queues that a node knows."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def add(self, row: MirrorRow, queue: QueueProxy) -> None:
        """What RabbitMQ tells of a mirrored queue; nothing of another."""
        replica_set = queue.replica_set
        if replica_set is None:
            return
        mirrors = [name for name in replica_set.members if name != replica_set.master]
        running = self.running(mirrors)
        synced = replica_set.synced_names()
        row["slave_nodes"] = running
        row["synchronised_slave_nodes"] = [name for name in running if name in synced]
        row["recoverable_slaves"] = mirrors
        under_way = [self._progress(one) for one in self._newcomers(queue) if one.is_under_way()]
        if under_way and row.get("state") != "down":
            # of several, the one that has the farthest to go
            last = min(under_way, key=lambda one: float(one["percent"]))
            row["state"] = "syncing"
            row["sync_messages"] = last["sent"]
            row["sync_percent"] = last["percent"]
            row["sync_seconds_left"] = last.get("seconds_left")

    def replica_set(self, queue: QueueProxy) -> MirrorRow:
        """The ring, who catches up, and what happened to it of late; an empty row for a queue without one."""
        replica_set = queue.replica_set
        if replica_set is None:
            return {}
        replica = self._replica(queue)
        row = {
            "epoch": replica_set.epoch,
            "master": replica_set.master,
            "members": replica_set.members,
            "in_sync": replica_set.synced_names(),
            "catching_up": [self._progress(one) for one in self._newcomers(queue)],
            "story": [] if replica is None else [_told(one) for one in reversed(replica.history.happenings)],
        }
        return {"ring": row}

    def is_last_in_sync(self, replica_set: ReplicaSet) -> bool:
        """Whether mirrors run, and none of them could take the master's place."""
        running = self.running([name for name in replica_set.members if name != replica_set.master])
        return bool(running) and not any(name in replica_set.synced_names() for name in running)

    def running(self, names: list[str]) -> list[str]:
        """Those of these nodes that run, as far as is known here."""
        cluster = self._broker.cluster
        if cluster is None:
            return []
        membership = cluster.membership
        return [name for name in names if name == membership.own or membership.reachability.is_connected(name)]

    def _replica(self, queue: QueueProxy) -> LocalReplica | None:
        cluster = self._broker.cluster
        return (
            None
            if cluster is None or cluster.replica_sets is None
            else cluster.replica_sets.named(queue.vhost, queue.name)
        )

    def _newcomers(self, queue: QueueProxy) -> list[Backfill]:
        replica = self._replica(queue)
        return [] if replica is None or replica.master_replica is None else replica.master_replica.joining_mirrors.all()

    def _progress(self, one: Backfill) -> MirrorRow:
        """How far a mirror has come; `seconds_left` is known when some of it is sent."""
        wanted, sent = int(one.wanted_count), int(one.sent_count)
        row: MirrorRow = {"node": one.node, "wanted": wanted, "sent": sent, "under_way": one.is_under_way()}
        row["percent"] = round(100 * sent / wanted, 1) if wanted else 0.0
        if sent and one.is_under_way():
            taken_ms = int(self._broker.turn.now_ms - one.since_ms)
            row["seconds_left"] = round(taken_ms * (wanted - sent) / sent / 1000, 1)
        return row


def _told(happening: ReplicaEvent) -> MirrorRow:
    at = datetime.fromtimestamp(happening.at_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return {"at": at, "event": happening.name, **happening.facts}


STREAM_COLUMNS = ("committed_offset", "disk_bytes", "first_offset", "leader", "readers", "segments")


def add_stream_columns(row: dict[str, Any], stream: Stream, node: str) -> None:
    """Offsets of the first and the last message, -1 for none; how many files it has, and how large they are."""
    end = stream.end_offset()
    row["leader"] = node
    row["first_offset"] = stream.first_offset()
    row["committed_offset"] = end - 1
    row["segments"] = stream.segment_count()
    row["disk_bytes"] = stream.disk_bytes()
    row["readers"] = {node: stream.consumer_count()}


_BARE = ("arguments", "auto_delete", "durable", "exclusive", "name", "node", "owner_pid_details", "type", "vhost")
_POLICIES = ("policy", "operator_policy", "effective_policy_definition")
KNOWN_EVERYWHERE = frozenset({*_BARE, *_POLICIES} - {"owner_pid_details"})
"""What is agreed about a queue, whichever node it lives on."""

NOWHERE = "-"
"""The home of a queue that should not have outlived its node, until it is cleared away."""

_LENGTHS = ("messages", "messages_ready", "messages_unacknowledged")
_CONSUMING = ("exclusive_consumer_tag", "single_active_consumer_tag", "single_active_consumer_ctag")
_REPORTED = (
    "backing_queue_status",
    "consumer_capacity",
    "consumer_utilisation",
    "head_message_timestamp",
    "idle_since",
    "memory",
    "message_bytes",
    "message_bytes_dlx",
    "message_bytes_paged_out",
    "message_bytes_persistent",
    "message_bytes_ram",
    "message_bytes_ready",
    "message_bytes_unacknowledged",
    "messages_deduplicated",
    "messages_dlx",
    "messages_paged_out",
    "messages_persistent",
    "messages_ram",
    "messages_ready_ram",
    "messages_unacknowledged_ram",
    "state",
    *STREAM_COLUMNS,
)

_MIRRORED = (
    "slave_nodes",
    "synchronised_slave_nodes",
    "recoverable_slaves",
    "state",
    "sync_messages",
    "sync_percent",
    "sync_seconds_left",
)
_SHORT: dict[str, Callable[[LocalQueue], Any]] = {
    "consumers": lambda queue: queue.consumer_count(),
    "memory": lambda queue: queue.report().memory_bytes,
    "messages": lambda queue: queue.ready_count() + queue.unacked_count(),
    "messages_ready": lambda queue: queue.ready_count(),
    "messages_unacknowledged": lambda queue: queue.unacked_count(),
    "message_bytes": lambda queue: queue.ready_bytes() + queue.unacked_bytes(),
    "message_bytes_ready": lambda queue: queue.ready_bytes(),
    "message_bytes_unacknowledged": lambda queue: queue.unacked_bytes(),
}
"""Short ways to what queues are mostly sorted by."""

_Part = Callable[[dict[str, Any], LocalQueue], None]


def consumers_here(queue: QueuePort, real: LocalQueue | None) -> list[tuple[ConsumerPort, bool]]:
    """Those whose clients are connected to this node, and whether each is active, as far as is known here.

    A queue that became mirrored has some that know the queue itself, or what stood in for it before.
    """
    found: list[tuple[ConsumerPort, bool]] = []
    if real is not None and real.consumer_count():
        found = [one for one in real.consumers() if not isinstance(one[0], HostedConsumer | DirectConsumer)]
    if isinstance(queue, RemoteQueue | MirroredQueueProxy):
        # which of several is active the queue's home knows
        found += [(consumer, True) for consumer in queue.consumers()]
    if isinstance(queue, MirroredQueueProxy) and queue.predecessor is not None:
        found += [(consumer, True) for consumer in queue.predecessor.consumers()]
    return found


def waiting_consumers(queue: LocalQueue) -> list[list[str]]:
    """Consumers that came through a proxy and are not active: the node of the client and the tag of each."""
    return [
        [consumer.node, consumer.tag]
        for consumer, active in queue.consumers()
        if not active and isinstance(consumer, HostedConsumer | DirectConsumer)
    ]


class QueueRows:
    """Builds rows of one node's queues."""

    def __init__(self, node: str, history: HistoryPort, now_ms: int, spans: SampleSpans, broker: Broker) -> None:
        self._broker = broker
        self._connections = broker.connections
        self._node = node
        self._history = history
        self._now_ms = now_ms
        self._spans = spans
        self._mirrors = MirrorRows(broker)

    def real(self, queue: QueuePort) -> LocalQueue | None:
        """The queue itself if it is here, whatever stands in for it; a mirrored one is where its master is."""
        if isinstance(queue, Queue | Stream):
            return queue
        vhost = self._broker.vhosts.get(queue.vhost)
        return None if vhost is None else vhost.own_queue(queue.name)

    def columns(self) -> dict[str, Callable[[QueuePort], Any]]:
        """Short ways to values of queues that are here."""

        def short(value_of: Callable[[LocalQueue], Any]) -> Callable[[QueuePort], Any]:
            def value(queue: QueuePort) -> Any:
                real = self.real(queue)
                return None if real is None else value_of(real)

            return value

        return {"name": _name_of, **{name: short(value_of) for name, value_of in _SHORT.items()}}

    def plan(self, wanted: ColumnSelection) -> Callable[[QueuePort], dict[str, Any]]:
        """How to build the wanted part of a row of a queue that lives here."""
        known: list[tuple[tuple[str, ...], _Part]] = [
            (_BARE, self._add_bare),
            (_POLICIES, _add_policies),
            ((*_LENGTHS, *(f"{name}_details" for name in _LENGTHS)), self._add_lengths),
            (("message_stats",), self._add_message_stats),
            (_CONSUMING, _add_tags),
            (_REPORTED, self._add_report),
        ]
        parts = [part for names, part in known if wanted.any_of(*names)]
        with_mirrors = wanted.any_of(*_MIRRORED)

        def build(queue: QueuePort) -> dict[str, Any]:
            real = self.real(queue)
            if real is None:
                return self.stand_in(queue)
            row: dict[str, Any] = {"consumers": real.consumer_count()}
            for part in parts:
                part(row, real)
            self._add_erlang(row, real)
            if with_mirrors and isinstance(queue, RemoteQueue | MirroredQueueProxy):
                self._mirrors.add(row, queue)
            return row

        return build

    def share(self, wanted: ColumnSelection) -> Callable[[QueuePort], dict[str, Any]]:
        """How to build what this node's clients did to a queue that lives elsewhere, if they did anything."""
        if "message_stats" not in wanted:
            return lambda queue: {}

        def build(queue: QueuePort) -> dict[str, Any]:
            row: dict[str, Any] = {}
            self._add_message_stats(row, queue)
            return row

        return build

    def stand_in(self, queue: QueuePort) -> dict[str, Any]:
        """What is agreed about a queue, when its home does not say the rest."""
        row: dict[str, Any] = {"state": "running" if isinstance(queue, PartitionedStream) else "down"}
        self._add_bare(row, queue)
        effective = self._broker.policies.for_queue(queue.vhost, queue.name)
        row["policy"] = effective.policy or None
        row["operator_policy"] = effective.operator_policy or None
        row["effective_policy_definition"] = amqp_json(effective.definition)
        if isinstance(queue, RemoteQueue | MirroredQueueProxy):
            self._mirrors.add(row, queue)
        return row

    def detailed(self, queue: QueuePort) -> dict[str, Any]:
        """One queue alone, with its consumers: all that is known of it here."""
        if isinstance(queue, PartitionedStream):
            names = partition_names(queue.name, queue.arguments)
            return {"consumer_details": [], **self.stand_in(queue), "partitions": names}
        replica_set = self._mirrors.replica_set(queue) if isinstance(queue, RemoteQueue | MirroredQueueProxy) else {}
        if self.real(queue) is None:
            return {"consumer_details": self._consumers_of(queue), **self.share(ALL_COLUMNS)(queue), **replica_set}
        return {
            **replica_set,
            "consumer_details": self._consumers_of(queue),
            "deliveries": [],
            "incoming": [],
            **self.plan(ALL_COLUMNS)(queue),
        }

    def _consumers_of(self, queue: QueuePort) -> list[dict[str, Any]]:
        """Those whose clients are connected to this node."""
        found = consumers_here(queue, self.real(queue))
        return [consumer_row(self._node, consumer, active) for consumer, active in found]

    def without_stats(self, queue: QueuePort) -> dict[str, Any]:
        lives = not isinstance(queue, RemoteQueue | MirroredQueueProxy) or queue.reachable()
        row: dict[str, Any] = {"state": "live" if lives else "down"}
        self._add_bare(row, queue)
        return row

    def totals(self, queue: QueuePort) -> dict[str, Any]:
        real = self.real(queue)
        if real is None:
            return self.without_stats(queue)
        row: dict[str, Any] = {
            "state": "running",
            **message_stats.queue_lengths(real.ready_count(), real.unacked_count()),
        }
        self._add_bare(row, queue)
        return row

    def home_of(self, queue: QueuePort) -> str:
        """The node that a queue lives on."""
        if not isinstance(queue, RemoteQueue | MirroredQueueProxy):
            return self._node
        return queue.node if queue.replica_set is not None or queue.node != self._node else NOWHERE

    def _add_bare(self, row: dict[str, Any], queue: QueuePort) -> None:
        """What a queue is, whatever it does."""
        row["arguments"] = amqp_json(queue.arguments)
        row["auto_delete"] = queue.auto_delete
        row["durable"] = queue.durable
        row["exclusive"] = queue.exclusive
        row["name"] = queue.name
        row["node"] = queue.node if isinstance(queue, RemoteQueue | MirroredQueueProxy) else self._node
        row["type"] = type_of(queue.arguments)
        row["vhost"] = queue.vhost
        owner = self._connections.get(queue.owner_id) if queue.owner_id else None
        if owner is not None:
            row["owner_pid_details"] = connection_details(owner)

    def _add_lengths(self, row: dict[str, Any], queue: LocalQueue) -> None:
        lengths = message_stats.queue_lengths(queue.ready_count(), queue.unacked_count())
        row |= self._history.rated("queue", (queue.vhost, queue.name), lengths, self._spans.lengths)

    def _add_message_stats(self, row: dict[str, Any], queue: QueuePort) -> None:
        counted = message_stats.queue_counters(queue.stats)
        if counted:
            key = (queue.vhost, queue.name)
            row["message_stats"] = self._history.rated("queue", key, counted, self._spans.messages)

    def _add_erlang(self, row: dict[str, Any], queue: LocalQueue) -> None:
        row["garbage_collection"] = GARBAGE_COLLECTION
        row["reductions"] = 0
        row["reductions_details"] = NO_RATE
        if _is_quorum(queue):
            row["leader"] = self._node
            row["members"] = row["online"] = [self._node]
            row["open_files"] = {self._node: 0}
        else:
            row["recoverable_slaves"] = None

    def _add_report(self, row: dict[str, Any], queue: LocalQueue) -> None:
        report = queue.report()
        capacity = report.capacity if row["consumers"] else 0
        row["consumer_capacity"] = row["consumer_utilisation"] = capacity
        row["memory"] = report.memory_bytes
        row["state"] = report.state
        message_stats.add_idle_since(row, report.used_at_ms, self._now_ms)
        row["message_bytes"] = report.ready_bytes + report.unacked_bytes
        row["message_bytes_persistent"] = report.persistent_bytes
        row["message_bytes_ram"] = report.in_memory_bytes
        row["message_bytes_ready"] = report.ready_bytes
        row["message_bytes_unacknowledged"] = report.unacked_bytes
        row["messages_persistent"] = report.persistent
        row["messages_ram"] = report.in_memory
        if queue.stats.deduplicated:
            row["messages_deduplicated"] = int(queue.stats.deduplicated)
        if _is_quorum(queue):
            row["message_bytes_dlx"] = row["messages_dlx"] = 0
            return
        row["message_bytes_paged_out"] = report.paged_bytes
        row["messages_paged_out"] = report.paged
        row["messages_ready_ram"] = report.ready - report.paged
        row["messages_unacknowledged_ram"] = report.unacked
        row["head_message_timestamp"] = report.head_timestamp()
        if isinstance(queue, Stream):
            add_stream_columns(row, queue, self._node)
        elif isinstance(queue, Queue):
            row["backing_queue_status"] = _backing_status(queue, report)


def _name_of(queue: QueuePort) -> str:
    return queue.name


def _is_quorum(queue: LocalQueue) -> bool:
    return bool(queue.arguments) and type_of(queue.arguments) == "quorum"


def _add_policies(row: dict[str, Any], queue: LocalQueue) -> None:
    row["policy"] = queue.policy or None
    row["operator_policy"] = queue.operator_policy or None
    row["effective_policy_definition"] = amqp_json(queue.effective_policy)


def _add_tags(row: dict[str, Any], queue: LocalQueue) -> None:
    exclusive = active = None
    if row["consumers"]:
        if isinstance(queue, Queue) and queue.settings.single_active_consumer:
            active = next((consumer.tag for consumer, is_active in queue.consumers() if is_active), None)
        if queue.has_exclusive_consumer():
            exclusive = queue.consumers()[0][0].tag
    if _is_quorum(queue):
        row["single_active_consumer_ctag"] = active
        return
    row["single_active_consumer_tag"] = active
    row["exclusive_consumer_tag"] = exclusive


def _backing_status(queue: Queue, report: QueueReport) -> dict[str, Any]:
    """RabbitMQ's insides of a classic queue; what is in memory is its q4, what is on disk its delta."""
    in_memory = report.ready - report.paged
    return {
        "avg_ack_egress_rate": 0.0,
        "avg_ack_ingress_rate": 0.0,
        "avg_egress_rate": 0.0,
        "avg_ingress_rate": 0.0,
        "delta": ["delta", "undefined", report.paged, 0, "undefined"],
        "len": report.ready,
        "mode": "lazy" if queue.settings.lazy else "default",
        "next_deliver_seq_id": 0,
        "next_seq_id": 0,
        "q1": 0,
        "q2": 0,
        "q3": 0,
        "q4": in_memory,
        "target_ram_count": "infinity",
        "version": 1,
    }


_BY_NAME = attrgetter("name")
_WAITING = "waiting_consumers"


def routes(context: AdminContext) -> dict[str, Resource]:
    queues = QueueReads(context)
    return {
        "/api/queues": Resource(manager, {"GET": queues.all}),
        "/api/queues/{vhost}": Resource(in_vhost, {"GET": queues.of_vhost}),
        "/api/queues/{vhost}/{name}": Resource(in_vhost, {"GET": queues.one}),
        "/api/queues/{vhost}/{name}/bindings": Resource(in_vhost, {"GET": bindings}),
    }


class QueueReads:
    """Lists of queues."""

    def __init__(self, context: AdminContext) -> None:
        self._station = context
        # by virtual host: its topology and the version at which these were in order
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
        rows = self._rows(call)
        if call.flag("disable_stats"):
            return object_response(call, rows.without_stats(queue))
        peers, own = self._station.peers, self._detailed(queue, rows)
        if call.part is not None:
            return json_response(own)
        parts: dict[str, Row] = {peers.own: own}
        told = await peers.ask_all(call.question(ALONE))
        parts |= {node: answer.document for node, answer in told.items() if answer.status == 200}
        row = _put_together(parts, rows.home_of(queue), rows.stand_in(queue))
        copies = topology.copying.names_of_copies(queue)
        return object_response(call, {**row, "copied_by": copies} if copies else row)

    def _detailed(self, queue: QueuePort, rows: QueueRows) -> Row:
        """All that is known here of a queue; in the part of its home, also what it knows of consumers elsewhere."""
        context = self._station
        row = rows.detailed(queue)
        row["deliveries"] = deliveries_by_channel(queue, context.broker, context.facts.name, context.history)
        real = rows.real(queue)
        if real is not None:
            row[_WAITING] = waiting_consumers(real)
        return row

    def _rows(self, call: ApiRequest) -> QueueRows:
        context = self._station
        facts = context.facts
        return QueueRows(facts.name, context.history, facts.now_ms(), sample_spans(call.query), context.broker)

    async def _list(self, call: ApiRequest, queues: list[QueuePort]) -> ApiResponse:
        rows = self._rows(call)
        spread = SharedObjects(_key_of, self._find, rows.home_of, rows.share, rows.stand_in, KNOWN_EVERYWHERE)
        if not call.flag("disable_stats"):
            return await list_response(call, ObjectList(queues, rows.plan, _BY_NAME, rows.columns(), spread))
        if call.flag("enable_queue_totals"):
            return await list_response(
                call, ObjectList(queues, full_rows(rows.totals), _BY_NAME, rows.columns(), spread)
            )
        return await list_response(
            call, ObjectList(queues, full_rows(rows.without_stats), _BY_NAME, {"name": _BY_NAME})
        )

    def _find(self, key: RowKey) -> QueuePort | None:
        vhost = self._station.broker.vhosts.get(key[0])
        return None if vhost is None else vhost.topology.queues.get(key[1])

    def _in_order(self, vhost: Vhost) -> list[QueuePort]:
        topology = vhost.topology
        known = self._ordered.get(vhost.name)
        if known is not None and known[0] is topology and known[1] == topology.version:
            return known[2]
        queues = sorted(topology.queues.values(), key=_BY_NAME)
        self._ordered[vhost.name] = (topology, int(topology.version), queues)
        return queues


def _key_of(queue: QueuePort) -> RowKey:
    return (queue.vhost, queue.name)


def _put_together(parts: dict[str, Row], home: str, stand_in: Row) -> Row:
    """One row of what each node knows: the home what it is and has, every node what its own clients do with it."""
    known = [part["ring"] for node, part in parts.items() if "ring" in part and node != home]
    row: dict[str, Any] = {"deliveries": [], "incoming": [], **parts.get(home, stand_in)}
    if "ring" not in row and known:
        # of those that answer, the one that has followed the ring
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


async def bindings(call: ApiRequest) -> ApiResponse:
    """A queue that is not there has the binding it would have, as in RabbitMQ."""
    topology = call.vhost().topology
    queue = topology.queues.get(call.params["name"])
    found = [implicit_binding(topology.vhost, call.params["name"])] if queue is None else leading_to(topology, queue)
    return await rows_response(call, [binding_row(facts) for facts in found], ("source", "destination", "routing_key"))
