"""Virtual hosts of a single node with a local metadata backend, without the rest of the node."""

from warren.broker.appliers import TopologyApplier
from warren.broker.metadata.backend import LocalMetadataBackend, MetadataAppliers
from warren.broker.metadata.store import MetadataChangeLog
from warren.broker.model.ports import QueueLogs
from warren.broker.model.turn import Turn
from warren.broker.vhost import Vhost


def lone_vhosts(
    names: list[str], turn: Turn, metadata: MetadataChangeLog | None = None, logs: QueueLogs | None = None
) -> dict[str, Vhost]:
    appliers = MetadataAppliers()
    backend = LocalMetadataBackend(appliers)
    backend.metadata = metadata
    vhosts = {name: Vhost(name, turn, backend, logs) for name in names}
    appliers.add(TopologyApplier(vhosts, turn.stats))
    return vhosts


def lone_vhost(turn: Turn, metadata: MetadataChangeLog | None = None, logs: QueueLogs | None = None) -> Vhost:
    return lone_vhosts(["/"], turn, metadata, logs)["/"]
