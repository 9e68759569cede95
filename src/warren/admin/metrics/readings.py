"""The values of the families that are of the node as a whole, and the sums of those that are of single objects.

The sums of what channels did are those since the node started: they do not sink when a channel goes, so that a rate
made of them is one.

Not here: single objects (`metrics.objects`), names (`metrics.families`).
"""

from collections.abc import Iterable, Sequence

from warren.admin.metrics.scene import Scene
from warren.admin.metrics.text import Value, labels
from warren.admin.views.alarms import own_alarm
from warren.admin.views.erlang import ERLANG_VERSION
from warren.model.figures import DeathFigures
from warren.policy.policies import CLUSTER_ID
from warren.session.handshake import COMPATIBLE_VERSION

Rows = Iterable[tuple[str, Sequence[Value]]]
"""Labels as text, and a value for each family of a group."""

DESCRIPTORS_SPARE = 20
"""So close to the limit no client is let in any more."""

_PROTOCOL = labels(protocol="amqp091")
_CLASSIC = labels(protocol="amqp091", queue_type="rabbit_classic_queue")
_PROMETHEUS_CLIENT_VERSION = "4.9.1"


def process(scene: Scene) -> Rows:
    return [("", [scene.facts.started_at_ms // 1000])]


def alarms(scene: Scene) -> Rows:
    facts, alarm = scene.facts, own_alarm(scene.broker)
    starving = facts.descriptors_used() > facts.descriptors_total - DESCRIPTORS_SPARE
    return [("", [int(starving), int("disk" in alarm), int("memory" in alarm)])]


def build(scene: Scene) -> Rows:
    versions = labels(
        rabbitmq_version=COMPATIBLE_VERSION,
        prometheus_plugin_version=COMPATIBLE_VERSION,
        prometheus_client_version=_PROMETHEUS_CLIENT_VERSION,
        erlang_version=ERLANG_VERSION,
    )
    return [(versions, [1])]


def identity(scene: Scene) -> Rows:
    names = labels(
        rabbitmq_node=scene.facts.name,
        rabbitmq_cluster=scene.broker.cluster_name(),
        rabbitmq_cluster_permanent_id=str(scene.broker.policies.global_parameters.get(CLUSTER_ID, scene.facts.name)),
    )
    return [(names, [1])]


def churn(scene: Scene) -> Rows:
    figures = scene.broker.figures
    return [
        (
            "",
            [
                figures.connections_created,
                figures.connections_closed,
                figures.channels_created,
                figures.channels_closed,
                figures.queues_declared,
                figures.queues_created,
                figures.queues_deleted,
            ],
        )
    ]


def node_coarse(scene: Scene) -> Rows:
    facts = scene.facts
    return [
        (
            "",
            [
                facts.descriptors_used(),
                facts.sockets_used(),
                facts.memory_used_bytes(),
                facts.disk_free_bytes(),
                facts.collections(),
                facts.context_switches(),
            ],
        )
    ]


def node(scene: Scene) -> Rows:
    facts = scene.facts
    return [
        (
            "",
            [
                facts.descriptors_total,
                facts.descriptors_total,
                facts.memory_limit_bytes,
                facts.disk_limit_bytes,
                (facts.now_ms() - facts.started_at_ms) / 1000,
            ],
        )
    ]


def persister(scene: Scene) -> Rows:
    io = scene.facts.io()
    counts: list[Value] = [io.reads, io.read_bytes, io.writes, io.write_bytes, io.syncs]
    return [("", [*counts, io.read_s, io.write_s, io.sync_s])]


def auth(scene: Scene) -> Rows:
    accounts, figures = scene.accounts, scene.broker.figures
    return [
        _attempts("http", accounts.attempts, accounts.refused),
        _attempts("amqp091", figures.logins, figures.logins_refused),
    ]


def queue_coarse(scene: Scene) -> Rows:
    sums = scene.queue_sums
    return [("", [sums.ready, sums.unacked, sums.ready + sums.unacked])]


def queue_consumers(scene: Scene) -> Rows:
    return [("", [scene.queue_sums.consumers])]


def queue(scene: Scene) -> Rows:
    sums = scene.queue_sums
    held, held_bytes = sums.ready + sums.unacked, sums.ready_bytes + sums.unacked_bytes
    return [
        (
            "",
            [
                sums.capacity,
                sums.capacity,
                sums.memory_bytes,
                held - sums.paged,
                held_bytes - sums.paged_bytes,
                sums.ready - sums.paged,
                sums.unacked,
                sums.persistent,
                sums.persistent_bytes,
                held_bytes,
                sums.ready_bytes,
                sums.unacked_bytes,
                sums.paged,
                sums.paged_bytes,
                sums.disk_reads,
                sums.disk_writes,
                sums.deduplicated,
            ],
        )
    ]


def queue_published(scene: Scene) -> Rows:
    return [("", [scene.broker.figures.routed])]


def channel(scene: Scene) -> Rows:
    sums = scene.session_sums
    return [
        (
            "",
            [
                sums.consumers,
                sums.unacked,
                sums.unconfirmed,
                sums.uncommitted,
                sums.acks_uncommitted,
                sums.consumer_prefetch,
                sums.prefetch,
            ],
        )
    ]


def channel_exchange(scene: Scene) -> Rows:
    figures = scene.broker.figures
    returned, dropped = figures.returned_unroutable, figures.dropped_unroutable
    return [("", [figures.published, figures.confirmed, returned, dropped])]


def channel_queue(scene: Scene) -> Rows:
    figures = scene.broker.figures
    got: list[Value] = [figures.got, figures.got_no_ack]
    delivered: list[Value] = [figures.delivered, figures.delivered_no_ack]
    return [("", [*got, *delivered, figures.redelivered, figures.acked, figures.got_empty])]


def connection_coarse(scene: Scene) -> Rows:
    figures = scene.broker.figures
    return [("", [figures.received_bytes, figures.sent_bytes])]


def connection(scene: Scene) -> Rows:
    sums = scene.session_sums
    return [("", [sums.received_reads, sums.sends, 0, sums.channels])]


def objects(scene: Scene) -> Rows:
    sessions, queues = scene.session_sums, scene.queue_sums
    return [("", [sessions.connections, sessions.channels, queues.consumers, queues.queues])]


def global_publishing(scene: Scene) -> Rows:
    figures, sums = scene.broker.figures, scene.session_sums
    received: list[Value] = [figures.received, figures.received_confirm, figures.routed, figures.confirmed]
    unroutable: list[Value] = [figures.dropped_unroutable, figures.returned_unroutable]
    return [(_PROTOCOL, [*received, *unroutable, sums.publishers, sums.consumers])]


def global_taking(scene: Scene) -> Rows:
    figures = scene.broker.figures
    delivered: list[Value] = [figures.delivered_no_ack, figures.delivered, figures.got_no_ack, figures.got]
    return [(_CLASSIC, [figures.acked, figures.taken, *delivered, figures.got_empty, figures.redelivered])]


def global_dead(scene: Scene) -> Rows:
    figures = scene.broker.figures
    return [_died(figures.dead_lettered, "at_most_once"), _died(figures.dead_dropped, "disabled")]


def _attempts(protocol: str, attempts: int, refused: int) -> tuple[str, Sequence[Value]]:
    return labels(protocol=protocol), [attempts, attempts - refused, refused]


def _died(figures: DeathFigures, strategy: str) -> tuple[str, Sequence[Value]]:
    kind = labels(queue_type="rabbit_classic_queue", dead_letter_strategy=strategy)
    return kind, [figures.maxlen, figures.expired, figures.rejected, figures.delivery_limit]
