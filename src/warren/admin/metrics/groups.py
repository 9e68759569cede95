"""Which metrics each registry has.

RabbitMQ has three registries: `/metrics` has sums; `/metrics/per-object` has the same families with a sample for each
object; `/metrics/detailed` has the requested groups under another prefix, so that one server can scrape both. If a
detailed scrape names virtual hosts, it has only their queues.

Not here: families (`metrics.families`), values (`metrics.node_values`, `metrics.object_values`).
"""

from collections.abc import Callable
from typing import NamedTuple

from warren.admin.metrics import families, node_values, object_values
from warren.admin.metrics.families import Families
from warren.admin.metrics.node_values import Rows
from warren.admin.metrics.scrape_source import ScrapeSource

RABBITMQ = "rabbitmq_"
DETAILED = "rabbitmq_detailed_"
CLUSTER = "rabbitmq_cluster_"
WARREN_PREFIX = "warren_"
NO_PREFIX = ""


class MetricGroup(NamedTuple):
    """Families whose values are read together."""

    families: Families
    rows: Callable[[ScrapeSource], Rows]
    prefix: str = RABBITMQ


_NODE = [
    MetricGroup(families.PROCESS, node_values.process, NO_PREFIX),
    MetricGroup(node_values.WARREN_PROCESS, node_values.warren_process, NO_PREFIX),
    MetricGroup(families.ALARMS, node_values.alarms),
    MetricGroup(families.CHURN, node_values.churn),
    MetricGroup(families.NODE_COARSE, node_values.node_coarse),
    MetricGroup(families.NODE, node_values.node),
    MetricGroup(families.PERSISTER, node_values.persister),
    MetricGroup(families.AUTH, node_values.auth),
]
_IDENTITY = [
    MetricGroup(families.IDENTITY[:1], node_values.build),
    MetricGroup(families.IDENTITY[1:], node_values.identity),
]
_LAST = [
    MetricGroup(families.OBJECTS, node_values.objects),
    *_IDENTITY,
    MetricGroup(families.GLOBAL_PUBLISHING, node_values.global_publishing),
    MetricGroup(families.GLOBAL_TAKING, node_values.global_taking),
    MetricGroup(families.GLOBAL_DEAD, node_values.global_dead),
    MetricGroup(node_values.WARREN_BUILD, node_values.warren_build, WARREN_PREFIX),
    MetricGroup(node_values.LOOP_LAG, node_values.loop_lag, WARREN_PREFIX),
    MetricGroup(node_values.SLOW_WORK, node_values.slow_work, WARREN_PREFIX),
    MetricGroup(node_values.LONGEST_HOLDS, node_values.longest_holds, WARREN_PREFIX),
    MetricGroup(node_values.TASK_FAILURES, node_values.task_failures, WARREN_PREFIX),
    MetricGroup(node_values.JOURNAL, node_values.journal, WARREN_PREFIX),
    MetricGroup(node_values.CERTIFICATES, node_values.certificates, WARREN_PREFIX),
]

WHOLE = [
    *_NODE,
    MetricGroup(families.QUEUE_COARSE, node_values.queue_coarse),
    MetricGroup(families.QUEUE_CONSUMERS, node_values.queue_consumers),
    MetricGroup(families.QUEUE_SUMS, node_values.queue),
    MetricGroup(families.CHANNEL, node_values.channel),
    MetricGroup(families.CHANNEL_EXCHANGE, node_values.channel_exchange),
    MetricGroup(families.CHANNEL_QUEUE, node_values.channel_queue),
    MetricGroup(families.CONNECTION_COARSE, node_values.connection_coarse),
    MetricGroup(families.CONNECTION, node_values.connection),
    MetricGroup(families.QUEUE_PUBLISHED, node_values.queue_published),
    *_LAST,
]

PER_OBJECT = [
    *_NODE,
    MetricGroup(families.QUEUE_COARSE, object_values.queues_coarse),
    MetricGroup(families.QUEUE_CONSUMERS, object_values.queues_consumers),
    MetricGroup(families.QUEUE, object_values.queues),
    MetricGroup(families.CHANNEL, object_values.channels),
    MetricGroup(families.CHANNEL_EXCHANGE, object_values.channels_exchanges),
    MetricGroup(families.CHANNEL_QUEUE, object_values.channels_queues),
    MetricGroup(families.CONNECTION_COARSE, object_values.connections_coarse),
    MetricGroup(families.CONNECTION, object_values.connections),
    MetricGroup(families.QUEUE_PUBLISHED, object_values.queues_published),
    *_LAST,
]

BY_NAME: dict[str, list[MetricGroup]] = {
    "queue_coarse_metrics": [MetricGroup(families.QUEUE_COARSE, object_values.queues_coarse, DETAILED)],
    "queue_consumer_count": [MetricGroup(families.QUEUE_CONSUMERS, object_values.queues_consumers, DETAILED)],
    "queue_metrics": [
        MetricGroup(families.QUEUE_CONSUMERS, object_values.queues_consumers, DETAILED),
        MetricGroup(families.QUEUE, object_values.queues, DETAILED),
    ],
    "channel_metrics": [MetricGroup(families.CHANNEL, object_values.channels, DETAILED)],
    "channel_exchange_metrics": [MetricGroup(families.CHANNEL_EXCHANGE, object_values.channels_exchanges, DETAILED)],
    "channel_queue_metrics": [MetricGroup(families.CHANNEL_QUEUE, object_values.channels_queues, DETAILED)],
    "channel_queue_exchange_metrics": [MetricGroup(families.QUEUE_PUBLISHED, object_values.queues_published, DETAILED)],
    "connection_coarse_metrics": [MetricGroup(families.CONNECTION_COARSE, object_values.connections_coarse, DETAILED)],
    "connection_metrics": [MetricGroup(families.CONNECTION, object_values.connections, DETAILED)],
    "connection_churn_metrics": [MetricGroup(families.CHURN, node_values.churn, DETAILED)],
    "node_coarse_metrics": [MetricGroup(families.NODE_COARSE, node_values.node_coarse, DETAILED)],
    "node_metrics": [MetricGroup(families.NODE, node_values.node, DETAILED)],
    "node_persister_metrics": [MetricGroup(families.PERSISTER, node_values.persister, DETAILED)],
    "auth_attempt_metrics": [MetricGroup(families.AUTH, node_values.auth, DETAILED)],
    "vhost_status": [MetricGroup(families.VHOST_STATUS, object_values.vhost_status, CLUSTER)],
    "exchange_names": [MetricGroup(families.EXCHANGE_NAMES, object_values.exchange_names, CLUSTER)],
    "exchange_bindings": [MetricGroup(families.EXCHANGE_BINDINGS, object_values.exchange_bindings, CLUSTER)],
}


def named(names: list[str]) -> list[MetricGroup]:
    """The groups with these names, without repetitions; unknown names are ignored."""
    chosen = [group for name in names for group in BY_NAME.get(name, [])]
    return [*dict.fromkeys(chosen), *_IDENTITY]
