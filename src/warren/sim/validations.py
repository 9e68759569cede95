"""What must hold at the end of a run, once the faults are over and everyone had time to finish.

Not here: what must hold all the time (`sim.checkers`).
"""

from typing import TYPE_CHECKING

from warren.sim.checkers import Checker
from warren.sim.history import CONFIRMED, READY

if TYPE_CHECKING:
    from warren.sim.world import World


class NothingConfirmedLost(Checker):
    """Every copy of a message that a node took in was settled by a consumer, or dropped by a rule the workload set."""

    rule = "nothing confirmed is lost"

    def ended(self, world: "World") -> str:
        for copy in world.history.living:
            plan, attempt = copy.plan, copy.attempt
            if plan.fleeting:
                continue
            if copy.may_have_died:
                continue
            promise = "confirmed" if attempt.state == CONFIRMED else "taken in"
            what = f"message {attempt.number} was {promise} for '{plan.name}'"
            if not copy.may_be_dropped():
                return f"{what} and is lost; it was {copy.state}, delivered {copy.deliveries} times"
            if plan.dead_letter_exchange and copy.state == READY:
                return f"{what} and was neither delivered nor dead-lettered"
        return ""


class EveryoneProgresses(Checker):
    """Publishers have their answers, consumers their messages, and nothing is left."""

    rule = "everyone makes progress"

    def ended(self, world: "World") -> str:
        for client in world.clients:
            if not client.done():
                return f"{client.name} still waits: {client.waiting_for()}"
        for node in world.nodes:
            for name, queue in node.broker.vhosts["/"].topology.queues.items():
                plan = world.plans.get(name)
                left = queue.ready_count() + queue.unacked_count()
                if left and (plan is None or not plan.fleeting):
                    return f"'{name}' still holds {queue.ready_count()} ready and {queue.unacked_count()} unacked"
        return ""


class NothingHeldForNothing(Checker):
    """A node without messages holds no memory for any."""

    rule = "nothing is held for nothing"

    def ended(self, world: "World") -> str:
        for node in world.nodes:
            queues = node.broker.vhosts["/"].topology.queues.values()
            if not any(queue.ready_count() + queue.unacked_count() for queue in queues):
                held = node.broker.turn.held_bytes
                if held:
                    return f"{node.name} holds {held} bytes for messages it does not have"
        return ""


def validations() -> list[Checker]:
    """Every rule of this module, fresh."""
    return [EveryoneProgresses(), NothingConfirmedLost(), NothingHeldForNothing()]
