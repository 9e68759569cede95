"""Values of a node as a whole, sums over objects, and Warren's own families.

Sums over channels count since the node started. They do not fall when a channel closes, so rates are correct.

Warren's own families cover what RabbitMQ has no metric for, or only under a name specific to Erlang. `process_*` are
the usual names of Prometheus client libraries.

Not here: single objects (`metrics.object_values`), RabbitMQ's families (`metrics.families`).
"""

import time
from collections.abc import Iterable, Sequence

from warren import __version__
from warren.admin.fitness import own_alarm
from warren.admin.metrics.scrape_source import ScrapeSource
from warren.admin.metrics.text import COUNTER, GAUGE, MetricFamily, Value, labels
from warren.admin.rabbitmq_json import ERLANG_VERSION
from warren.broker.model.stats import DeadLetterStats
from warren.broker.policies.policies import CLUSTER_ID
from warren.broker.sessions.handshake import COMPATIBLE_VERSION

Rows = Iterable[tuple[str, Sequence[Value]]]
"""Labels as text, and a value for each family of a group."""

DESCRIPTORS_SPARE = 20
"""A node this close to its limit accepts no more clients."""

_PROTOCOL = labels(protocol="amqp091")
_CLASSIC = labels(protocol="amqp091", queue_type="rabbit_classic_queue")
_PROMETHEUS_CLIENT_VERSION = "4.9.1"


def process(source: ScrapeSource) -> Rows:
    return [("", [source.facts.started_at_ms // 1000])]


def alarms(source: ScrapeSource) -> Rows:
    facts, alarm = source.facts, own_alarm(source.broker)
    starving = facts.descriptors_used() > facts.descriptors_total - DESCRIPTORS_SPARE
    return [("", [int(starving), int("disk" in alarm), int("memory" in alarm)])]


def build(source: ScrapeSource) -> Rows:
    versions = labels(
        rabbitmq_version=COMPATIBLE_VERSION,
        prometheus_plugin_version=COMPATIBLE_VERSION,
        prometheus_client_version=_PROMETHEUS_CLIENT_VERSION,
        erlang_version=ERLANG_VERSION,
    )
    return [(versions, [1])]


def identity(source: ScrapeSource) -> Rows:
    names = labels(
        rabbitmq_node=source.facts.name,
        rabbitmq_cluster=source.broker.cluster_name(),
        rabbitmq_cluster_permanent_id=str(source.broker.policies.global_parameters.get(CLUSTER_ID, source.facts.name)),
    )
    return [(names, [1])]


def churn(source: ScrapeSource) -> Rows:
    stats = source.broker.stats
    return [
        (
            "",
            [
                stats.connections_created,
                stats.connections_closed,
                stats.channels_created,
                stats.channels_closed,
                stats.queues_declared,
                stats.queues_created,
                stats.queues_deleted,
            ],
        )
    ]


def node_coarse(source: ScrapeSource) -> Rows:
    facts = source.facts
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


def node(source: ScrapeSource) -> Rows:
    facts = source.facts
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


def persister(source: ScrapeSource) -> Rows:
    io = source.facts.io()
    counts: list[Value] = [io.reads, io.read_bytes, io.writes, io.write_bytes, io.syncs]
    return [("", [*counts, io.read_s, io.write_s, io.sync_s])]


def auth(source: ScrapeSource) -> Rows:
    authenticator, stats = source.authenticator, source.broker.stats
    return [
        _attempts("http", authenticator.attempts, authenticator.refused),
        _attempts("amqp091", stats.logins, stats.logins_refused),
    ]


def queue_coarse(source: ScrapeSource) -> Rows:
    sums = source.queue_sums
    return [("", [sums.ready, sums.unacked, sums.ready + sums.unacked])]


def queue_consumers(source: ScrapeSource) -> Rows:
    return [("", [source.queue_sums.consumers])]


def queue(source: ScrapeSource) -> Rows:
    sums = source.queue_sums
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


def queue_published(source: ScrapeSource) -> Rows:
    return [("", [source.broker.stats.routed])]


def channel(source: ScrapeSource) -> Rows:
    sums = source.session_sums
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


def channel_exchange(source: ScrapeSource) -> Rows:
    stats = source.broker.stats
    returned, dropped = stats.returned_unroutable, stats.dropped_unroutable
    return [("", [stats.published, stats.confirmed, returned, dropped])]


def channel_queue(source: ScrapeSource) -> Rows:
    stats = source.broker.stats
    got: list[Value] = [stats.got, stats.got_no_ack]
    delivered: list[Value] = [stats.delivered, stats.delivered_no_ack]
    return [("", [*got, *delivered, stats.redelivered, stats.acked, stats.got_empty])]


def connection_coarse(source: ScrapeSource) -> Rows:
    stats = source.broker.stats
    return [("", [stats.received_bytes, stats.sent_bytes])]


def connection(source: ScrapeSource) -> Rows:
    sums = source.session_sums
    return [("", [sums.received_reads, sums.sends, 0, sums.channels])]


def objects(source: ScrapeSource) -> Rows:
    sessions, queues = source.session_sums, source.queue_sums
    return [("", [sessions.connections, sessions.channels, queues.consumers, queues.queues])]


def global_publishing(source: ScrapeSource) -> Rows:
    stats, sums = source.broker.stats, source.session_sums
    received: list[Value] = [stats.received, stats.received_confirm, stats.routed, stats.confirmed]
    unroutable: list[Value] = [stats.dropped_unroutable, stats.returned_unroutable]
    return [(_PROTOCOL, [*received, *unroutable, sums.publishers, sums.consumers])]


def global_taking(source: ScrapeSource) -> Rows:
    stats = source.broker.stats
    delivered: list[Value] = [stats.delivered_no_ack, stats.delivered, stats.got_no_ack, stats.got]
    return [(_CLASSIC, [stats.acked, stats.taken, *delivered, stats.got_empty, stats.redelivered])]


def global_dead(source: ScrapeSource) -> Rows:
    stats = source.broker.stats
    return [_dead_lettered(stats.dead_lettered, "at_most_once"), _dead_lettered(stats.dead_dropped, "disabled")]


def _attempts(protocol: str, attempts: int, refused: int) -> tuple[str, Sequence[Value]]:
    return labels(protocol=protocol), [attempts, attempts - refused, refused]


def _dead_lettered(stats: DeadLetterStats, strategy: str) -> tuple[str, Sequence[Value]]:
    kind = labels(queue_type="rabbit_classic_queue", dead_letter_strategy=strategy)
    return kind, [stats.maxlen, stats.expired, stats.rejected, stats.delivery_limit]


WARREN_PROCESS = (
    MetricFamily("process_cpu_seconds_total", COUNTER, "Processor time used by the process in seconds"),
    MetricFamily("process_resident_memory_bytes", GAUGE, "Memory of the process in bytes"),
    MetricFamily("process_open_fds", GAUGE, "Open file descriptors"),
    MetricFamily("process_max_fds", GAUGE, "Limit of open file descriptors"),
)

WARREN_BUILD = (MetricFamily("build_info", GAUGE, "Version of Warren, how its core runs, and on which event loop"),)

LOOP_LAG = (
    MetricFamily(
        "event_loop_lag_seconds", GAUGE, "How late the event loop was, at worst, in the last five seconds, in seconds"
    ),
)

SLOW_WORK = (
    MetricFamily("slow_turns_total", COUNTER, "Turns of the node that used the processor for more than 50 ms"),
    MetricFamily(
        "slow_request_steps_total", COUNTER, "Steps of HTTP requests that used the processor for more than 50 ms"
    ),
)

LONGEST_HOLDS = (
    MetricFamily(
        "longest_hold_seconds",
        GAUGE,
        "How long a turn, or a step of an HTTP request, held the event loop at most since the node started, in seconds",
    ),
)

TASK_FAILURES = (
    MetricFamily("task_failures_total", COUNTER, "Failures of the node's background loops, which are then restarted"),
)

JOURNAL = (
    MetricFamily("journal_segments", GAUGE, "Files of the journal"),
    MetricFamily("journal_bytes", GAUGE, "Size of the journal in bytes"),
    MetricFamily("journal_live_bytes", GAUGE, "Bytes in the journal that some queue still holds"),
)

CERTIFICATES = (
    MetricFamily(
        "certificate_expiry_time_seconds",
        GAUGE,
        "When the certificate of a TLS listener ends, since unix epoch in seconds",
    ),
)


def warren_process(source: ScrapeSource) -> Rows:
    facts = source.facts
    used = [time.process_time(), facts.memory_used_bytes(), facts.descriptors_used(), facts.descriptors_total]
    return [("", used)]


def warren_build(source: ScrapeSource) -> Rows:
    facts = source.facts
    return [(labels(version=__version__, core=facts.core_kind, event_loop=facts.loop_name), [1])]


def loop_lag(source: ScrapeSource) -> Rows:
    return [("", [source.facts.loop_lag_ms() / 1000])]


def slow_work(source: ScrapeSource) -> Rows:
    holds = source.facts.holds
    return [("", [holds["turn"].slow_count, holds["request"].slow_count])]


def longest_holds(source: ScrapeSource) -> Rows:
    return [
        (labels(work=work, clock=clock), [longest_s])
        for work, holds in source.facts.holds.items()
        for clock, longest_s in (("wall", holds.longest_s), ("cpu", holds.longest_cpu_s))
    ]


def task_failures(source: ScrapeSource) -> Rows:
    return [("", [source.facts.task_failures()])]


def journal(source: ScrapeSource) -> Rows:
    """Empty for a node without a journal."""
    kept = source.broker.control.journal
    if kept is None:
        return []
    segments = [*kept.segments.values()]
    size_bytes = sum(segment.size_bytes for segment in segments)
    return [("", [len(segments), size_bytes, sum(segment.live_bytes for segment in segments)])]


def certificates(source: ScrapeSource) -> Rows:
    return [
        (labels(protocol=known.listener.protocol, path=known.path), [known.expires_at_ms / 1000])
        for known in {found.path: found for found in source.facts.certificates()}.values()
    ]
