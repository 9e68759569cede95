"""A queue as a row of a list, and the rows of mirrors and streams in it.

Lists are long, so a list decides once which parts of a row are wanted, and unwanted parts are not built.

A mirrored queue has RabbitMQ's columns, and its replica set with its history under Warren's own. Mirrors are listed in
the order in which they joined. Mirrors on nodes that are down are missing from `slave_nodes`, as in RabbitMQ; they are
among the `recoverable_slaves`. A queue serves its clients while mirrors synchronise; its state is `syncing` then.

Not here: the paths (`resources.queues`), bindings (`resources.bindings`), consumer groups and stored offsets of streams
(`resources.streams`).
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from warren.admin import message_stats
from warren.admin.listing.columns import ALL_COLUMNS, ColumnSelection
from warren.admin.listing.lists import in_slices
from warren.admin.ports import HistoryPort, SampleSpans
from warren.admin.rabbitmq_json import GARBAGE_COLLECTION, NO_RATE, amqp_json
from warren.admin.resources.connection_rows import connection_details, consumer_row
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
from warren.broker.streams.partitioned_stream import PartitionedStream
from warren.broker.streams.stream import Stream

MirrorRow = dict[str, Any]


class MirrorRows:
    """Rows of mirrored queues."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def add(self, row: MirrorRow, queue: QueueProxy) -> None:
        """Add RabbitMQ's columns of a mirrored queue; nothing for other queues."""
        replica_set = queue.replica_set
        if replica_set is None:
            return
        mirrors = [name for name in replica_set.members if name != replica_set.master]
        running = self.running(mirrors)
        synced = replica_set.synced_names()
        row["slave_nodes"] = running
        row["synchronised_slave_nodes"] = [name for name in running if name in synced]
        row["recoverable_slaves"] = mirrors
        under_way = [self._progress(one) for one in self._joining(queue) if one.is_under_way()]
        if under_way and row.get("state") != "down":
            # of several, the one that is least advanced
            last = min(under_way, key=lambda one: float(one["percent"]))
            row["state"] = "syncing"
            row["sync_messages"] = last["sent"]
            row["sync_percent"] = last["percent"]
            row["sync_seconds_left"] = last.get("seconds_left")

    def replica_set(self, queue: QueueProxy) -> MirrorRow:
        """The replica set, mirrors that synchronise, and recent events; empty for a queue that is not mirrored."""
        replica_set = queue.replica_set
        if replica_set is None:
            return {}
        replica = self._replica(queue)
        row = {
            "epoch": replica_set.epoch,
            "master": replica_set.master,
            "members": replica_set.members,
            "in_sync": replica_set.synced_names(),
            "catching_up": [self._progress(one) for one in self._joining(queue)],
            "story": [] if replica is None else [_event_row(one) for one in reversed(replica.history.events)],
        }
        return {"ring": row}

    def is_last_in_sync(self, replica_set: ReplicaSet) -> bool:
        """Whether mirrors run but none is in sync."""
        running = self.running([name for name in replica_set.members if name != replica_set.master])
        return bool(running) and not any(name in replica_set.synced_names() for name in running)

    def running(self, names: list[str]) -> list[str]:
        """The nodes among these that run, as far as this node knows."""
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

    def _joining(self, queue: QueueProxy) -> list[Backfill]:
        replica = self._replica(queue)
        return [] if replica is None or replica.master_replica is None else replica.master_replica.joining_mirrors.all()

    def _progress(self, one: Backfill) -> MirrorRow:
        """The progress of a mirror; `seconds_left` is set once something was sent."""
        wanted, sent = int(one.wanted_count), int(one.sent_count)
        row: MirrorRow = {"node": one.node, "wanted": wanted, "sent": sent, "under_way": one.is_under_way()}
        row["percent"] = round(100 * sent / wanted, 1) if wanted else 0.0
        if sent and one.is_under_way():
            taken_ms = int(self._broker.turn.now_ms - one.since_ms)
            row["seconds_left"] = round(taken_ms * (wanted - sent) / sent / 1000, 1)
        return row


def _event_row(event: ReplicaEvent) -> MirrorRow:
    at = datetime.fromtimestamp(event.at_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return {"at": at, "event": event.name, **event.facts}


STREAM_COLUMNS = ("committed_offset", "disk_bytes", "first_offset", "leader", "readers", "segments")


def add_stream_columns(row: dict[str, Any], stream: Stream, node: str) -> None:
    """Offsets of the first and last message (-1: none), number of segments, bytes on disk."""
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
"""The fields of a queue that every node knows."""


NOWHERE = "-"
"""The home of a queue that was lost with its node and is about to be deleted."""


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
"""Fast readers for common sort columns."""


_Part = Callable[[dict[str, Any], LocalQueue], None]


def consumers_here(queue: QueuePort, real: LocalQueue | None) -> list[tuple[ConsumerPort, bool]]:
    """Consumers whose clients are connected to this node, and whether each is active, as far as known here.

    After a queue became mirrored, some consumers are still attached to the queue itself or to the earlier proxy.
    """
    found: list[tuple[ConsumerPort, bool]] = []
    if real is not None and real.consumer_count():
        found = [one for one in real.consumers() if not isinstance(one[0], HostedConsumer | DirectConsumer)]
    if isinstance(queue, RemoteQueue | MirroredQueueProxy):
        # only the queue's home node knows which consumer is active
        found += [(consumer, True) for consumer in queue.consumers()]
    if isinstance(queue, MirroredQueueProxy) and queue.predecessor is not None:
        found += [(consumer, True) for consumer in queue.predecessor.consumers()]
    return found


def waiting_consumers(queue: LocalQueue) -> list[list[str]]:
    """Inactive consumers whose clients are on other nodes: node and tag of each."""
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
        """The queue itself if it lives here; a mirrored queue lives where its master is."""
        if isinstance(queue, Queue | Stream):
            return queue
        vhost = self._broker.vhosts.get(queue.vhost)
        return None if vhost is None else vhost.own_queue(queue.name)

    def columns(self) -> dict[str, Callable[[QueuePort], Any]]:
        """Fast readers for queues that live here."""

        def short(value_of: Callable[[LocalQueue], Any]) -> Callable[[QueuePort], Any]:
            def value(queue: QueuePort) -> Any:
                real = self.real(queue)
                return None if real is None else value_of(real)

            return value

        return {"name": _name_of, **{name: short(value_of) for name, value_of in _SHORT.items()}}

    def plan(self, wanted: ColumnSelection) -> Callable[[QueuePort], dict[str, Any]]:
        """How to build the selected columns of a queue that lives here."""
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
                return self.agreed_row(queue)
            row: dict[str, Any] = {"consumers": real.consumer_count()}
            for part in parts:
                part(row, real)
            self._add_erlang(row, real)
            if with_mirrors and isinstance(queue, RemoteQueue | MirroredQueueProxy):
                self._mirrors.add(row, queue)
            return row

        return build

    def share(self, wanted: ColumnSelection) -> Callable[[QueuePort], dict[str, Any]]:
        """How to build the counters of this node's clients for a queue that lives elsewhere."""
        if "message_stats" not in wanted:
            return lambda queue: {}

        def build(queue: QueuePort) -> dict[str, Any]:
            row: dict[str, Any] = {}
            self._add_message_stats(row, queue)
            return row

        return build

    def agreed_row(self, queue: QueuePort) -> dict[str, Any]:
        """The agreed fields of a queue, if its home node does not respond."""
        row: dict[str, Any] = {"state": "running" if isinstance(queue, PartitionedStream) else "down"}
        self._add_bare(row, queue)
        effective = self._broker.policies.for_queue(queue.vhost, queue.name)
        row["policy"] = effective.policy or None
        row["operator_policy"] = effective.operator_policy or None
        row["effective_policy_definition"] = amqp_json(effective.definition)
        if isinstance(queue, RemoteQueue | MirroredQueueProxy):
            self._mirrors.add(row, queue)
        return row

    async def detailed(self, queue: QueuePort) -> dict[str, Any]:
        """One queue with its consumers, which may be many: all that this node knows."""
        if isinstance(queue, PartitionedStream):
            names = partition_names(queue.name, queue.arguments)
            return {"consumer_details": [], **self.agreed_row(queue), "partitions": names}
        replica_set = self._mirrors.replica_set(queue) if isinstance(queue, RemoteQueue | MirroredQueueProxy) else {}
        if self.real(queue) is None:
            consumers = await self._consumers_of(queue)
            return {"consumer_details": consumers, **self.share(ALL_COLUMNS)(queue), **replica_set}
        return {
            **replica_set,
            "consumer_details": await self._consumers_of(queue),
            "deliveries": [],
            "incoming": [],
            **self.plan(ALL_COLUMNS)(queue),
        }

    async def _consumers_of(self, queue: QueuePort) -> list[dict[str, Any]]:
        """Consumers whose clients are connected to this node."""
        found = in_slices(consumers_here(queue, self.real(queue)))
        return [consumer_row(self._node, consumer, active) async for consumer, active in found]

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
        """The node that the queue lives on."""
        if not isinstance(queue, RemoteQueue | MirroredQueueProxy):
            return self._node
        return queue.node if queue.replica_set is not None or queue.node != self._node else NOWHERE

    def _add_bare(self, row: dict[str, Any], queue: QueuePort) -> None:
        """Fields without statistics."""
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
    """RabbitMQ's internals of a classic queue: messages in memory are its q4, messages on disk its delta."""
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
