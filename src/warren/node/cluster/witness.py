"""Whether a node may be a witness: a member that keeps definitions, votes on them, and holds no queues.

A node is a witness for as long as it is started as one, and says so in the cluster's list of members. Nobody gives it a
queue from then on; what it has must be gone before. Mirrors that it has are no hindrance unless they were in sync when
it ended: the masters of their queues drop them as soon as they hear of it.

Not here: who is given queues (`cluster.placement`, `mirroring.placement`).
"""

from warren.errors import ConfigError
from warren.model.events import SharedSnapshot
from warren.model.settings import DISC
from warren.node.cluster.cluster_file import ClusterFacts
from warren.node.cluster.refusal import MembershipRefused
from warren.store.definition_kinds import decode_definition
from warren.store.topology_definitions import QUEUES, QueueDefinition

NAMED_MAX = 3


def refuse_lone_witness(name: str) -> None:
    raise ConfigError(f"{name} is to be a witness, which needs others that hold queues: name one of them with --join")


def refuse_held(name: str, facts: ClusterFacts, known: SharedSnapshot) -> None:
    """A `ConfigError` if a member cannot become a witness as it is."""
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


def ram_witness() -> MembershipRefused:
    return MembershipRefused("", "A node that was started with --witness must be a disc node.")


def queues_held(name: str, known: SharedSnapshot) -> list[QueueDefinition]:
    """The durable queues that live on a node, or of which it may have the only copy that is whole."""
    found = [decode_definition(key, kept[2]) for key, kept in known.items() if key.startswith(f"{QUEUES}/")]
    queues = [queue for queue in found if isinstance(queue, QueueDefinition) and queue.durable and not queue.exclusive]
    return [queue for queue in queues if queue.node == name or _is_in_sync(name, queue)]


def _is_in_sync(name: str, queue: QueueDefinition) -> bool:
    return queue.ring is not None and name in queue.ring.synced_names()
