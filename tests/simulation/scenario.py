"""A small world with a calm network, built by hand, for scenarios that claim one thing each.

Not here: worlds drawn from a seed (`warren.sim.workload`).
"""

from collections.abc import Callable

from warren.broker.model.settings import BrokerSettings
from warren.sim.clients import CONFIRM, PlannedSubscription, PublishTarget, SimulatedConsumer, SimulatedPublisher
from warren.sim.history import QueueSpec
from warren.sim.invariants import durability_invariants, final_invariants, step_invariants
from warren.sim.observer import Invariant, InvariantSet
from warren.sim.process import HEARTBEAT_S, Interceptor
from warren.sim.report import RunTrace
from warren.sim.world import NodeWorld
from warren.wire.methods import ExchangeDeclare, Method, QueueBind, QueueDeclare

STEPS_MAX = 50_000


class QuietPublisher(SimulatedPublisher):
    """Publishes small, plain messages on the test's order, and nothing else."""

    def __init__(self, world: NodeWorld, name: str, topology: list[Method], mode: str) -> None:
        super().__init__(world, name, topology, mode, [])
        self.large_bodies = 0.0
        self.mandatory_share = 0.0
        self.frame_max = 131_072
        self.calm()


class QuietConsumer(SimulatedConsumer):
    """Acks nothing until it is `diligent`; then it acks everything."""

    def __init__(self, world: NodeWorld, name: str, topology: list[Method], spec: QueueSpec, prefetch: int = 0) -> None:
        super().__init__(world, name, topology, [PlannedSubscription(spec)], prefetch)
        self.frame_max = 131_072
        self.pace_ms = 5
        self.diligent = True

    def act(self) -> None:
        if self.diligent:
            self.calmed = True
            super().act()


class Scenario:
    """A world with one node and the queues that a test names."""

    def __init__(
        self,
        *specs: QueueSpec,
        interceptor: Interceptor | None = None,
        rules: list[Invariant] | None = None,
        settings: BrokerSettings | None = None,
    ) -> None:
        self.checkers = InvariantSet(
            [*step_invariants(), *durability_invariants(), *final_invariants()] if rules is None else rules
        )
        settings = settings or BrokerSettings(heartbeat_s=HEARTBEAT_S)
        self.world = NodeWorld(1, RunTrace(), self.checkers, interceptor, settings)
        self.world.network.calm = True
        self.node = self.world.node
        self.world.specs.update({spec.name: spec for spec in specs})
        self.topology: list[Method] = [ExchangeDeclare("dead", "fanout", durable=True)]
        self.topology += [QueueDeclare(spec.name, durable=spec.durable, arguments=spec.arguments) for spec in specs]
        self.topology += [QueueBind(spec.name, "dead") for spec in specs if spec.name == "graves"]
        self._serial = 0

    def publisher(self, mode: str = CONFIRM) -> QuietPublisher:
        self._serial += 1
        made = QuietPublisher(self.world, f"publisher{self._serial}", self.topology, mode)
        self.until(lambda: made.is_open)
        return made

    def consumer(self, spec: QueueSpec, prefetch: int = 0) -> QuietConsumer:
        self._serial += 1
        made = QuietConsumer(self.world, f"consumer{self._serial}", self.topology, spec, prefetch)
        self.until(lambda: made.is_open)
        return made

    def publish(self, publisher: SimulatedPublisher, spec: QueueSpec, count: int) -> None:
        for _ in range(count):
            publisher.publish(PublishTarget("", spec.name))

    def until(self, met: Callable[[], bool], steps_max: int = STEPS_MAX) -> None:
        """Run until a condition is met; fail if it never is, or a rule is broken."""
        assert self.world.run_until(met, steps_max), "it never came to pass"
        assert self.checkers.complaints == []

    def elapse(self, duration_ms: int) -> None:
        end_ms = self.world.now_ms + duration_ms
        self.until(lambda: self.world.now_ms >= end_ms)

    def confirmed_count(self) -> int:
        return self.world.history.counts()[1]

    def ready_count(self, spec: QueueSpec) -> int:
        return self.node.broker.vhosts["/"].topology.queues[spec.name].ready_count()

    def _settled(self) -> bool:
        if self.world.history.living or self.node.busy():
            return False
        return all(client.done() for client in self.world.clients)

    def finish(self) -> None:
        """All consumers ack the remaining messages; check that every rule holds."""
        for client in self.world.clients:
            client.calm()
            if isinstance(client, QuietConsumer):
                client.diligent = True
        self.until(self._settled)
        self.checkers.ended(self.world.node.observer)
        assert self.checkers.complaints == []
