"""What each kind of scrape shows: the whole, every object, or the groups somebody names.

RabbitMQ's three documents (*registries*): `/metrics` has sums; `/metrics/per-object` the same families with a sample
for each object; `/metrics/detailed` has groups by name, under another prefix, so that both may be scraped by one
server. A detailed one that names virtual hosts has only the queues of these.

Not here: names and values (`metrics.families`, `metrics.readings`, `metrics.objects`).
"""

from collections.abc import Callable
from typing import NamedTuple

from warren.admin.metrics import families, objects, own, readings
from warren.admin.metrics.families import Families
from warren.admin.metrics.readings import Rows
from warren.admin.metrics.scene import Scene

RABBITMQ = "rabbitmq_"
DETAILED = "rabbitmq_detailed_"
CLUSTER = "rabbitmq_cluster_"
OWN = "warren_"
NO_PREFIX = ""


class Group(NamedTuple):
    """Families whose values are read together."""

    families: Families
    rows: Callable[[Scene], Rows]
    prefix: str = RABBITMQ


_NODE = [
    Group(families.PROCESS, readings.process, NO_PREFIX),
    Group(own.PROCESS, own.process, NO_PREFIX),
    Group(families.ALARMS, readings.alarms),
    Group(families.CHURN, readings.churn),
    Group(families.NODE_COARSE, readings.node_coarse),
    Group(families.NODE, readings.node),
    Group(families.PERSISTER, readings.persister),
    Group(families.AUTH, readings.auth),
]
_IDENTITY = [
    Group(families.IDENTITY[:1], readings.build),
    Group(families.IDENTITY[1:], readings.identity),
]
_LAST = [
    Group(families.OBJECTS, readings.objects),
    *_IDENTITY,
    Group(families.GLOBAL_PUBLISHING, readings.global_publishing),
    Group(families.GLOBAL_TAKING, readings.global_taking),
    Group(families.GLOBAL_DEAD, readings.global_dead),
    Group(own.BUILD, own.build, OWN),
    Group(own.LOOP, own.loop, OWN),
    Group(own.JOURNAL, own.journal, OWN),
    Group(own.CERTIFICATES, own.certificates, OWN),
]

WHOLE = [
    *_NODE,
    Group(families.QUEUE_COARSE, readings.queue_coarse),
    Group(families.QUEUE_CONSUMERS, readings.queue_consumers),
    Group(families.QUEUE_SUMS, readings.queue),
    Group(families.CHANNEL, readings.channel),
    Group(families.CHANNEL_EXCHANGE, readings.channel_exchange),
    Group(families.CHANNEL_QUEUE, readings.channel_queue),
    Group(families.CONNECTION_COARSE, readings.connection_coarse),
    Group(families.CONNECTION, readings.connection),
    Group(families.QUEUE_PUBLISHED, readings.queue_published),
    *_LAST,
]

PER_OBJECT = [
    *_NODE,
    Group(families.QUEUE_COARSE, objects.queues_coarse),
    Group(families.QUEUE_CONSUMERS, objects.queues_consumers),
    Group(families.QUEUE, objects.queues),
    Group(families.CHANNEL, objects.channels),
    Group(families.CHANNEL_EXCHANGE, objects.channels_exchanges),
    Group(families.CHANNEL_QUEUE, objects.channels_queues),
    Group(families.CONNECTION_COARSE, objects.connections_coarse),
    Group(families.CONNECTION, objects.connections),
    Group(families.QUEUE_PUBLISHED, objects.queues_published),
    *_LAST,
]

BY_NAME: dict[str, list[Group]] = {
    "queue_coarse_metrics": [Group(families.QUEUE_COARSE, objects.queues_coarse, DETAILED)],
    "queue_consumer_count": [Group(families.QUEUE_CONSUMERS, objects.queues_consumers, DETAILED)],
    "queue_metrics": [
        Group(families.QUEUE_CONSUMERS, objects.queues_consumers, DETAILED),
        Group(families.QUEUE, objects.queues, DETAILED),
    ],
    "channel_metrics": [Group(families.CHANNEL, objects.channels, DETAILED)],
    "channel_exchange_metrics": [Group(families.CHANNEL_EXCHANGE, objects.channels_exchanges, DETAILED)],
    "channel_queue_metrics": [Group(families.CHANNEL_QUEUE, objects.channels_queues, DETAILED)],
    "channel_queue_exchange_metrics": [Group(families.QUEUE_PUBLISHED, objects.queues_published, DETAILED)],
    "connection_coarse_metrics": [Group(families.CONNECTION_COARSE, objects.connections_coarse, DETAILED)],
    "connection_metrics": [Group(families.CONNECTION, objects.connections, DETAILED)],
    "connection_churn_metrics": [Group(families.CHURN, readings.churn, DETAILED)],
    "node_coarse_metrics": [Group(families.NODE_COARSE, readings.node_coarse, DETAILED)],
    "node_metrics": [Group(families.NODE, readings.node, DETAILED)],
    "node_persister_metrics": [Group(families.PERSISTER, readings.persister, DETAILED)],
    "auth_attempt_metrics": [Group(families.AUTH, readings.auth, DETAILED)],
    "vhost_status": [Group(families.VHOST_STATUS, objects.vhost_status, CLUSTER)],
    "exchange_names": [Group(families.EXCHANGE_NAMES, objects.exchange_names, CLUSTER)],
    "exchange_bindings": [Group(families.EXCHANGE_BINDINGS, objects.exchange_bindings, CLUSTER)],
}


def named(names: list[str]) -> list[Group]:
    """The groups of these names, each once; names nobody knows are not minded."""
    chosen = [group for name in names for group in BY_NAME.get(name, [])]
    return [*dict.fromkeys(chosen), *_IDENTITY]
