"""Refusals of orders about membership, and the check for witnesses.

A witness is a member that stores definitions, votes on them, and holds no queues. A node is a witness while it is
started as one, and the list of members says so. No queue is placed on it; its own queues must be gone before. Mirrors
on it do not matter unless they were in sync when it stopped: the masters remove them.

Not here: who refuses (`node.cluster.agent`, `node.cluster.stopped_member`), placement (`broker.cluster.placement`,
`broker.replication.mirroring_policy`).
"""

from warren.broker.metadata.definition_kinds import decode_definition
from warren.broker.metadata.topology_definitions import QUEUES, QueueDefinition
from warren.broker.model.events import MetadataSnapshot
from warren.broker.model.settings import DISC
from warren.errors import ConfigError
from warren.node.cluster.cluster_file import ClusterFacts


class MembershipRefused(Exception):
    """Nothing was changed. `code` is RabbitMQ's word, for scripts; it is empty where RabbitMQ has none."""

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


def not_in_the_cluster() -> MembershipRefused:
    return MembershipRefused("not_a_cluster_node", "The node selected is not in the cluster.")


def only_disc_node() -> MembershipRefused:
    return MembershipRefused(
        "resetting_only_disc_node",
        "You cannot reset a node when it is the only disc node in a cluster. Please convert another node of the "
        "cluster to a disc node first.",
    )


def no_quorum_online(reason: str) -> MembershipRefused:
    return MembershipRefused(
        "no_online_cluster_nodes",
        f"Could not find a majority of the cluster's disc nodes online ({reason}). If the others are gone for good, "
        "use 'force_reset', or 'forget_cluster_node --offline' on a disc node that is to stay.",
    )


def still_running(name: str) -> MembershipRefused:
    return MembershipRefused(
        "", f"RabbitMQ on node {name} must be stopped with 'warren ctl -n {name} stop_app' before it can be removed"
    )


NAMED_MAX = 3


def refuse_lone_witness(name: str) -> None:
    raise ConfigError(f"{name} is to be a witness, which needs others that hold queues: name one of them with --join")


def refuse_witness_with_queues(name: str, facts: ClusterFacts, known: MetadataSnapshot) -> None:
    """Raises `ConfigError` if a member cannot become a witness as it is."""
    if facts.kind != DISC:
        raise ConfigError(f"{name} is a RAM node, and a witness must be a disc node: start it without --witness")
    held = queues_held(name, known)
    if held:
        named = ", ".join(f"'{queue.name}' in vhost '{queue.vhost}'" for queue in held[:NAMED_MAX])
        others = f" and {len(held) - NAMED_MAX} more" if len(held) > NAMED_MAX else ""
        raise ConfigError(
            f"{name} cannot be a witness while it holds queues: {named}{others}; start it without --witness, delete "
            "them or mirror them on other nodes (ha-mode = nodes), and stop it in good order"
        )


def refuse_ram_witness() -> MembershipRefused:
    return MembershipRefused("", "A node that was started with --witness must be a disc node.")


def queues_held(name: str, known: MetadataSnapshot) -> list[QueueDefinition]:
    """The durable queues that live on a node, or of which it may have the only complete replica."""
    found = [decode_definition(key, kept[2]) for key, kept in known.items() if key.startswith(f"{QUEUES}/")]
    queues = [queue for queue in found if isinstance(queue, QueueDefinition) and queue.durable and not queue.exclusive]
    return [queue for queue in queues if queue.node == name or _is_in_sync(name, queue)]


def _is_in_sync(name: str, queue: QueueDefinition) -> bool:
    return queue.replica_set is not None and name in queue.replica_set.synced_names()
