"""Virtual hosts of a node that agrees with itself, without the rest of the node."""

from warren.broker.agreement import LoneAgreement
from warren.broker.applying import Appliers
from warren.broker.topology_applier import TopologyApplier
from warren.broker.vhost import Vhost
from warren.model.ports import QueueLogs
from warren.model.turn import Turn
from warren.store.metadata import Metadata


def lone_vhosts(
    names: list[str], turn: Turn, metadata: Metadata | None = None, logs: QueueLogs | None = None
) -> dict[str, Vhost]:
    appliers = Appliers()
    agreement = LoneAgreement(appliers)
    agreement.metadata = metadata
    vhosts = {name: Vhost(name, turn, agreement, logs) for name in names}
    appliers.add(TopologyApplier(vhosts, turn.figures))
    return vhosts


def lone_vhost(turn: Turn, metadata: Metadata | None = None, logs: QueueLogs | None = None) -> Vhost:
    return lone_vhosts(["/"], turn, metadata, logs)["/"]
