"""Masters of mirrored queues are spread evenly over the nodes that hold them.

Only members that are in sync, alive and reached become masters, and no witness. The plan says who; whoever was master
hears of it as of any change of a ring.

Not here: which queues move where (`cluster.rebalancing`).
"""

from typing import TYPE_CHECKING

from warren.broker.vhost import Vhost
from warren.cluster.rebalancing import Spread, rebalance
from warren.model.own_queue import OwnQueue
from warren.store.plan import Plan
from warren.store.topology_definitions import QueueDefinition, queue_key

if TYPE_CHECKING:
    from warren.broker.clustering import Clustering
    from warren.broker.sharing.homes import Mirrored


def plan_balance(plan: Plan, clustering: "Clustering", vhosts: dict[str, Vhost]) -> int:
    """Let others be masters where that is fair; how many move."""
    holds, alive = clustering.membership.members.holding_names(), clustering.membership.members.alive_names()
    ready = [name for name in holds if name in alive and _is_reached(clustering, name)]
    found: dict[str, Mirrored] = {}
    spreads: list[Spread] = []
    for mirrored in clustering.shared.homes.mirrored():
        vhost, name = mirrored.queue
        ring = mirrored.ring
        copies = [run[0] for run in ring.in_sync if run[0] != ring.master and _lives(clustering, run)]
        if vhost in vhosts and name in vhosts[vhost].topology.queues:
            key = queue_key(vhost, name)
            found[key] = mirrored
            spreads.append(Spread(key, ring.master, copies, _length(vhosts[vhost], name)))
    moves = rebalance(spreads, ready).moves
    for key, node in moves:
        mirrored = found[key]
        ring = mirrored.ring
        definition = _definition_of(vhosts[mirrored.queue[0]], mirrored.queue[1])
        # a master whose epoch is not open yet is not whole, and nobody else knows of that: it catches up
        plan.put(definition.with_ring(ring.promoting((node, ring.synced_run(node)))))
    return len(moves)


def _is_reached(clustering: "Clustering", name: str) -> bool:
    return name == clustering.membership.own or clustering.membership.suspicion.is_connected(name)


def _lives(clustering: "Clustering", run: tuple[str, int]) -> bool:
    return clustering.membership.members.incarnation(run[0]) == run[1] and _is_reached(clustering, run[0])


def _length(vhost: Vhost, name: str) -> int:
    """Known of those whose master is here; of others what was told last."""
    queue = vhost.own_queue(name) or vhost.topology.queues[name]
    return queue.ready_count() + queue.unacked_count() if isinstance(queue, OwnQueue) else queue.ready_count()


def _definition_of(vhost: Vhost, name: str) -> QueueDefinition:
    queue = vhost.topology.queues[name]
    return QueueDefinition(vhost.name, name, queue.durable, False, queue.auto_delete, queue.arguments)
