"""What must hold of a node that dies and starts again, beyond what must hold of any node.

That nothing confirmed is lost, that nothing settled comes back and that a second delivery is marked are the ordinary
rules: the books say what is left of a node that died (`sim.undo`), and the node is held to them.

Not here: the ordinary rules (`sim.checkers`, `sim.validations`).
"""

from typing import TYPE_CHECKING

from warren.routing.topology import PREDECLARED
from warren.sim.checkers import Checker

if TYPE_CHECKING:
    from warren.sim.channel_book import Delivery, Promise
    from warren.sim.node import Node
    from warren.sim.world import World

BUILT_IN = {name for name, _type, _internal in PREDECLARED}


class PromisesAreOnDisk(Checker):
    """What is confirmed, committed or declared for good is on disk before the client is told."""

    rule = "promises are on disk"

    def promised(self, promise: "Promise", on_disk_no: int) -> str:
        if promise.batch_no > on_disk_no:
            return f"{promise.what} was answered; it is in batch {promise.batch_no}, and {on_disk_no} is on disk"
        return ""


class DurableThingsStay(Checker):
    """A node that starts has the exchanges, queues and bindings that outlive it, and no others."""

    rule = "durable things stay"

    def recovered(self, node: "Node") -> str:
        fabric, topology = node.witness.fabric, node.broker.vhosts["/"].topology
        fleeting = {name for name, plan in fabric.plans.items() if plan.fleeting}
        bindings = {
            (binding.source.name, binding.routing_key, binding.destination.name)
            for exchange in topology.exchanges.values()
            for binding in exchange.outgoing
        }
        compared = (
            ("exchanges", set(topology.exchanges) - BUILT_IN, fabric.exchanges()),
            ("queues", set(topology.queues) - fleeting, fabric.queues() - fleeting),
            (
                "bindings",
                {binding for binding in bindings if binding[2] not in fleeting},
                {binding for binding in fabric.bindings() if binding[2] not in fleeting},
            ),
        )
        for what, found, due in compared:
            if found != due:
                return f"of the {what}, {sorted(due - found)} are missing and {sorted(found - due)} too many"
        return ""


class ReturnsAreCounted(Checker):
    """A message that came back more often than its queue allows is not delivered again, also by another life."""

    rule = "returns are counted"

    def delivered(self, delivery: "Delivery") -> str:
        limit, copy = delivery.plan.delivery_limit, delivery.copy
        if limit is not None and copy is not None and copy.returns > limit:
            return f"{delivery}: it came back {copy.returns} times, and {limit} is the limit"
        return ""


class FirstDeliveriesUnmarked(Checker):
    """Nothing is marked as redelivered that cannot have been delivered."""

    rule = "first deliveries are not marked"

    def delivered(self, delivery: "Delivery") -> str:
        copy = delivery.copy
        if copy is not None and delivery.redelivered and not copy.deliveries and not delivery.queue_lent:
            return f"{delivery}: marked redelivered, though its queue never got anything back"
        return ""


class NothingComesBack(Checker):
    """A node that was drained, and dies once its disk is at rest, finds nothing and keeps no segments."""

    rule = "nothing comes back"

    def rested(self, world: "World") -> str:
        for node in world.nodes:
            counts = {
                name: queue.ready_count() + queue.unacked_count()
                for name, queue in node.broker.vhosts["/"].topology.queues.items()
            }
            for name, count in counts.items():
                if count and not world.plans[name].fleeting:
                    return f"'{name}' has {count} messages again"
            segments = [name for name in node.disk.directory.names() if name.endswith(".seg")]
            if len(segments) > 1 and not any(counts.values()):
                return f"{len(segments)} segments are left, and no messages"
        return ""


def durability() -> list[Checker]:
    """Every rule of this module, fresh."""
    return [
        PromisesAreOnDisk(),
        DurableThingsStay(),
        ReturnsAreCounted(),
        FirstDeliveriesUnmarked(),
        NothingComesBack(),
    ]
