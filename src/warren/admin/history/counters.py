"""The sampled values of each kind of object, in order, under RabbitMQ's names.

Sums are not stored: `deliver_get` is the sum of all deliveries, `messages` that of ready and unacked.

Not here: what the counters mean (`broker.model.stats`), values of single objects (`broker.snapshots`).
"""

from typing import Final

from warren.admin.ports import NodeFacts
from warren.broker.broker import Broker
from warren.broker.model.stats import NodeStats, VhostStats
from warren.broker.snapshots import channel_stats, queue_totals
from warren.broker.vhost import Vhost

_TAKEN: Final = ("deliver", "deliver_no_ack", "get", "get_no_ack", "get_empty", "redeliver", "ack")
_CHANNEL: Final = (*_TAKEN, "publish", "confirm", "return_unroutable", "drop_unroutable")
_LENGTHS: Final = ("messages_ready", "messages_unacknowledged")
_QUEUES: Final = (*_LENGTHS, "disk_reads", "disk_writes")
_BYTES: Final = ("recv_oct", "send_oct")
_CHURN: Final = (
    "connection_created",
    "connection_closed",
    "channel_created",
    "channel_closed",
    "queue_declared",
    "queue_created",
    "queue_deleted",
)
_PROCESS: Final = (
    "mem_used",
    "disk_free",
    "fd_used",
    "sockets_used",
    "proc_used",
    "gc_num",
    "context_switches",
    "io_read_count",
    "io_read_bytes",
    "io_write_count",
    "io_write_bytes",
    "io_sync_count",
)

NAMES: Final[dict[str, tuple[str, ...]]] = {
    "queue": (*_TAKEN, "publish", *_LENGTHS),
    "exchange": ("publish_in", "publish_out"),
    "connection": _BYTES,
    "channel": _CHANNEL,
    "channel_queue": _TAKEN,
    "channel_exchange": ("publish",),
    "vhost": (*_CHANNEL, *_BYTES, *_QUEUES),
    "overview": (*_CHANNEL, *_BYTES, *_QUEUES, *_CHURN),
    "node": (*_CHURN, *_PROCESS),
    "link": ("send_bytes", "recv_bytes"),
}

_SUMS: Final[dict[str, tuple[str, ...]]] = {
    "deliver_get": ("deliver", "deliver_no_ack", "get", "get_no_ack"),
    "messages": _LENGTHS,
}


def _places(names: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
    """The index of each value; several for a sum."""
    places: dict[str, tuple[int, ...]] = {name: (at,) for at, name in enumerate(names)}
    for name, parts in _SUMS.items():
        if all(part in places for part in parts):
            places[name] = tuple(names.index(part) for part in parts)
    return places


PLACES: Final = {kind: _places(names) for kind, names in NAMES.items()}


def vhost_sample(vhost: Vhost) -> list[int]:
    return [*_traffic(vhost.stats), *queue_totals(vhost)]


def overview_sample(broker: Broker, of_vhosts: list[list[int]]) -> list[int]:
    """`of_vhosts` are the values of all virtual hosts. Their sum is that of all queues."""
    totals = [sum(stats[at] for stats in of_vhosts) for at in range(-len(_QUEUES), 0)]
    return [*_traffic(broker.stats), *totals, *_churn(broker.stats)]


def node_sample(broker: Broker, facts: NodeFacts) -> list[int]:
    io = facts.io()
    return [
        *_churn(broker.stats),
        facts.memory_used_bytes(),
        facts.disk_free_bytes(),
        facts.descriptors_used(),
        facts.sockets_used(),
        len(broker.connections),
        facts.collections(),
        facts.context_switches(),
        io.reads,
        io.read_bytes,
        io.writes,
        io.write_bytes,
        io.syncs,
    ]


def _traffic(stats: VhostStats) -> list[int]:
    return [*channel_stats(stats), int(stats.received_bytes), int(stats.sent_bytes)]


def _churn(stats: NodeStats) -> list[int]:
    return [
        int(stats.connections_created),
        int(stats.connections_closed),
        int(stats.channels_created),
        int(stats.channels_closed),
        int(stats.queues_declared),
        int(stats.queues_created),
        int(stats.queues_deleted),
    ]
