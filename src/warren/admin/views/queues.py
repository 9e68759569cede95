"""A queue as a row.

Lists are long, so what to build of a row is decided once for a list, and what nobody wants is not built.

Not here: which queues (`resources.queues`), bindings (`views.bindings`).
"""

from collections.abc import Callable
from typing import Any

from warren.admin.history_port import HistoryPort, Spans
from warren.admin.listing.columns import EVERYTHING, Wanted
from warren.admin.views import figures
from warren.admin.views.amqp_values import plain
from warren.admin.views.channels import consumer_row
from warren.admin.views.connections import connection_details
from warren.admin.views.erlang import GARBAGE_COLLECTION, NO_RATE
from warren.admin.views.rings import Mirrors
from warren.admin.views.stream_figures import STREAM_COLUMNS, add_stream
from warren.broker.broker import Broker
from warren.model.own_queue import OwnQueue, QueueReport
from warren.model.partitions import partition_names
from warren.model.ports import Consumer, QueuePort
from warren.queue.arguments import type_of
from warren.queue.queue import Queue
from warren.remote.hosted_consumer import HostedConsumer
from warren.remote.remote_queue import RemoteQueue
from warren.remote.seat import Seat
from warren.stream.partitioning.partitioned import PartitionedStream
from warren.stream.stream import Stream

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
_SHORT: dict[str, Callable[[OwnQueue], Any]] = {
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

_Part = Callable[[dict[str, Any], OwnQueue], None]


def consumers_here(queue: QueuePort, real: OwnQueue | None) -> list[tuple[Consumer, bool]]:
    """Those whose clients are connected to this node, and whether each is active, as far as is known here.

    A queue that became mirrored has some that know the queue itself, or what stood in for it before.
    """
    found: list[tuple[Consumer, bool]] = []
    if real is not None and real.consumer_count():
        found = [one for one in real.consumers() if not isinstance(one[0], HostedConsumer)]
    if isinstance(queue, RemoteQueue | Seat):
        # which of several is active the queue's home knows
        found += [(consumer, True) for consumer in queue.consumers()]
    if isinstance(queue, Seat) and queue.predecessor is not None:
        found += [(consumer, True) for consumer in queue.predecessor.consumers()]
    return found


def waiting_consumers(queue: OwnQueue) -> list[list[str]]:
    """Consumers whose clients are at other nodes and that are not active: the node and the tag of each."""
    return [
        [consumer.node, consumer.tag]
        for consumer, active in queue.consumers()
        if not active and isinstance(consumer, HostedConsumer)
    ]


class QueueRows:
    """Builds rows of one node's queues."""

    def __init__(self, node: str, history: HistoryPort, now_ms: int, spans: Spans, broker: Broker) -> None:
        self._broker = broker
        self._connections = broker.connections
        self._node = node
        self._history = history
        self._now_ms = now_ms
        self._spans = spans
        self._mirrors = Mirrors(broker)

    def real(self, queue: QueuePort) -> OwnQueue | None:
        """The queue itself if it is here, whatever stands in for it; a mirrored one is where its master is."""
        if isinstance(queue, Queue | Stream):
            return queue
        vhost = self._broker.vhosts.get(queue.vhost)
        return None if vhost is None else vhost.own_queue(queue.name)

    def columns(self) -> dict[str, Callable[[QueuePort], Any]]:
        """Short ways to values of queues that are here."""

        def short(value_of: Callable[[OwnQueue], Any]) -> Callable[[QueuePort], Any]:
            def value(queue: QueuePort) -> Any:
                real = self.real(queue)
                return None if real is None else value_of(real)

            return value

        return {"name": _name_of, **{name: short(value_of) for name, value_of in _SHORT.items()}}

    def plan(self, wanted: Wanted) -> Callable[[QueuePort], dict[str, Any]]:
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
            if with_mirrors and isinstance(queue, RemoteQueue | Seat):
                self._mirrors.add(row, queue)
            return row

        return build

    def share(self, wanted: Wanted) -> Callable[[QueuePort], dict[str, Any]]:
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
        in_force = self._broker.policies.for_queue(queue.vhost, queue.name)
        row["policy"] = in_force.policy or None
        row["operator_policy"] = in_force.operator_policy or None
        row["effective_policy_definition"] = plain(in_force.definition)
        if isinstance(queue, RemoteQueue | Seat):
            self._mirrors.add(row, queue)
        return row

    def detailed(self, queue: QueuePort) -> dict[str, Any]:
        """One queue alone, with its consumers: all that is known of it here."""
        if isinstance(queue, PartitionedStream):
            names = partition_names(queue.name, queue.arguments)
            return {"consumer_details": [], **self.stand_in(queue), "partitions": names}
        ring = self._mirrors.ring(queue) if isinstance(queue, RemoteQueue | Seat) else {}
        if self.real(queue) is None:
            return {"consumer_details": self._consumers_of(queue), **self.share(EVERYTHING)(queue), **ring}
        return {
            **ring,
            "consumer_details": self._consumers_of(queue),
            "deliveries": [],
            "incoming": [],
            **self.plan(EVERYTHING)(queue),
        }

    def _consumers_of(self, queue: QueuePort) -> list[dict[str, Any]]:
        """Those whose clients are connected to this node."""
        found = consumers_here(queue, self.real(queue))
        return [consumer_row(self._node, consumer, active) for consumer, active in found]

    def without_stats(self, queue: QueuePort) -> dict[str, Any]:
        lives = not isinstance(queue, RemoteQueue | Seat) or queue.reachable()
        row: dict[str, Any] = {"state": "live" if lives else "down"}
        self._add_bare(row, queue)
        return row

    def totals(self, queue: QueuePort) -> dict[str, Any]:
        real = self.real(queue)
        if real is None:
            return self.without_stats(queue)
        row: dict[str, Any] = {"state": "running", **figures.lengths(real.ready_count(), real.unacked_count())}
        self._add_bare(row, queue)
        return row

    def home_of(self, queue: QueuePort) -> str:
        """The node that a queue lives on."""
        if not isinstance(queue, RemoteQueue | Seat):
            return self._node
        return queue.node if queue.ring is not None or queue.node != self._node else NOWHERE

    def _add_bare(self, row: dict[str, Any], queue: QueuePort) -> None:
        """What a queue is, whatever it does."""
        row["arguments"] = plain(queue.arguments)
        row["auto_delete"] = queue.auto_delete
        row["durable"] = queue.durable
        row["exclusive"] = queue.exclusive
        row["name"] = queue.name
        row["node"] = queue.node if isinstance(queue, RemoteQueue | Seat) else self._node
        row["type"] = type_of(queue.arguments)
        row["vhost"] = queue.vhost
        owner = self._connections.get(queue.owner_id) if queue.owner_id else None
        if owner is not None:
            row["owner_pid_details"] = connection_details(owner)

    def _add_lengths(self, row: dict[str, Any], queue: OwnQueue) -> None:
        lengths = figures.lengths(queue.ready_count(), queue.unacked_count())
        row |= self._history.rated("queue", (queue.vhost, queue.name), lengths, self._spans.lengths)

    def _add_message_stats(self, row: dict[str, Any], queue: QueuePort) -> None:
        counted = figures.of_queue(queue.figures)
        if counted:
            key = (queue.vhost, queue.name)
            row["message_stats"] = self._history.rated("queue", key, counted, self._spans.messages)

    def _add_erlang(self, row: dict[str, Any], queue: OwnQueue) -> None:
        row["garbage_collection"] = GARBAGE_COLLECTION
        row["reductions"] = 0
        row["reductions_details"] = NO_RATE
        if _is_quorum(queue):
            row["leader"] = self._node
            row["members"] = row["online"] = [self._node]
            row["open_files"] = {self._node: 0}
        else:
            row["recoverable_slaves"] = None

    def _add_report(self, row: dict[str, Any], queue: OwnQueue) -> None:
        report = queue.report()
        capacity = report.capacity if row["consumers"] else 0
        row["consumer_capacity"] = row["consumer_utilisation"] = capacity
        row["memory"] = report.memory_bytes
        row["state"] = report.state
        figures.add_idle_since(row, report.used_at_ms, self._now_ms)
        row["message_bytes"] = report.ready_bytes + report.unacked_bytes
        row["message_bytes_persistent"] = report.persistent_bytes
        row["message_bytes_ram"] = report.in_memory_bytes
        row["message_bytes_ready"] = report.ready_bytes
        row["message_bytes_unacknowledged"] = report.unacked_bytes
        row["messages_persistent"] = report.persistent
        row["messages_ram"] = report.in_memory
        if queue.figures.deduplicated:
            row["messages_deduplicated"] = int(queue.figures.deduplicated)
        if _is_quorum(queue):
            row["message_bytes_dlx"] = row["messages_dlx"] = 0
            return
        row["message_bytes_paged_out"] = report.paged_bytes
        row["messages_paged_out"] = report.paged
        row["messages_ready_ram"] = report.ready - report.paged
        row["messages_unacknowledged_ram"] = report.unacked
        row["head_message_timestamp"] = report.head_timestamp()
        if isinstance(queue, Stream):
            add_stream(row, queue, self._node)
        elif isinstance(queue, Queue):
            row["backing_queue_status"] = _backing_status(queue, report)


def _name_of(queue: QueuePort) -> str:
    return queue.name


def _is_quorum(queue: OwnQueue) -> bool:
    return bool(queue.arguments) and type_of(queue.arguments) == "quorum"


def _add_policies(row: dict[str, Any], queue: OwnQueue) -> None:
    row["policy"] = queue.policy or None
    row["operator_policy"] = queue.operator_policy or None
    row["effective_policy_definition"] = plain(queue.effective_policy)


def _add_tags(row: dict[str, Any], queue: OwnQueue) -> None:
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
