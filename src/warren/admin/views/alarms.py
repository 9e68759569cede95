"""Which nodes are short of memory or disk space.

A node's publishers also wait on account of others; what a node tells of itself is its own alarm.

Not here: when an alarm is raised (`broker.alarms`), how nodes hear of each other's (`broker.sharing.notices`).
"""

from warren.broker.broker import Broker

RESOURCES = ("memory", "disk")


def own_alarm(broker: Broker) -> str:
    """What this node itself is short of, in words; empty for nothing."""
    return broker.alarm if broker.clustering is None else broker.clustering.notices.own_alarm


def local_alarms(broker: Broker) -> list[dict[str, str]]:
    return _rows(broker.settings.node_name, own_alarm(broker))


def cluster_alarms(broker: Broker) -> list[dict[str, str]]:
    """Those of this node and of all that it is linked to."""
    rows = local_alarms(broker)
    if broker.clustering is not None:
        for node, reason in sorted(broker.clustering.notices.alarms.items()):
            rows += _rows(node, reason)
    return rows


def _rows(node: str, alarm: str) -> list[dict[str, str]]:
    return [{"node": node, "resource": resource} for resource in RESOURCES if resource in alarm]
