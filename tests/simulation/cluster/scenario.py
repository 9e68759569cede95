"""A small cluster with a calm network, built by hand, for scenarios that claim one thing each.

Not here: worlds drawn from a seed (`warren.sim.cluster.workload`).
"""

from collections.abc import Callable
from typing import TypeVar

from warren.broker.model.settings import BrokerSettings
from warren.broker.queues.queue import Queue
from warren.sim.clients import CONFIRM
from warren.sim.cluster.clients import ClusterClient, ClusterConsumer, ClusterPublisher, ClusterPublishTarget
from warren.sim.cluster.nodes import SimulatedClusterNode
from warren.sim.cluster.world import ClusterWorld
from warren.sim.history import CONFIRMED
from warren.sim.process import HEARTBEAT_S
from warren.sim.report import RunTrace, ViolationLog
from warren.wire.field_tables import Table
from warren.wire.frames import content_frames
from warren.wire.method_stream import ReceivedMethod
from warren.wire.methods import BasicPublish, ChannelClose, ChannelOpenOk, Method
from warren.wire.properties import Properties, encode_header_payload

CHANNEL = 1
STEPS_MAX = 100_000

Seated = TypeVar("Seated", bound=ClusterClient)


class Guest(ClusterClient):
    """A client of one node that sends what the test says, and records every answer."""

    excuses = ("",)

    def __init__(self, world: ClusterWorld, name: str, node: SimulatedClusterNode) -> None:
        super().__init__(world, name, [])
        self.node = node
        self.answers: list[ReceivedMethod] = []
        self.faults: list[str] = []
        self.pace_ms = 5

    def _connect(self) -> None:
        self.connect_to(self.node)

    def _handle_method(self, heard: ReceivedMethod) -> None:
        if isinstance(heard.method, ChannelClose):
            self.faults.append(heard.method.reply_text)
        super()._handle_method(heard)

    def channel_method_received(self, heard: ReceivedMethod) -> None:
        if not isinstance(heard.method, ChannelOpenOk):
            self.answers.append(heard)

    def ask(self, method: Method) -> None:
        self.answers.clear()
        self.send(CHANNEL, method)

    def publish(self, exchange: str, key: str, headers: Table) -> None:
        """A persistent message without a body."""
        header = encode_header_payload(Properties(headers=headers, delivery_mode=2), 0)
        self.send(CHANNEL, BasicPublish(exchange, key), content=content_frames(header, b"", CHANNEL, self.frame_max))

    def answer(self) -> Method | None:
        return self.answers[-1].method if self.answers else None


class QuietPublisher(ClusterPublisher):
    """Publishes persistent messages when it is told to, on one node, and nothing else."""

    def __init__(self, world: ClusterWorld, name: str, node: SimulatedClusterNode, mode: str) -> None:
        super().__init__(world, name, [], mode, [])
        self.node = node
        self.persistent_share = 1.0
        self.calm()

    def _connect(self) -> None:
        self.connect_to(self.node)


class QuietConsumer(ClusterConsumer):
    """Acks everything, on one node."""

    def __init__(self, world: ClusterWorld, name: str, node: SimulatedClusterNode, queue: str) -> None:
        super().__init__(world, name, [], [queue], 20)
        self.node = node
        self.calm()

    def _connect(self) -> None:
        self.connect_to(self.node)


class ClusterScenario:
    """A world with a few nodes, which are one cluster unless the test joins them itself."""

    def __init__(self, nodes: int = 3, together: bool = True, handling: str = "ignore") -> None:
        def settings(name: str) -> BrokerSettings:
            return BrokerSettings(node_name=name, heartbeat_s=HEARTBEAT_S, partition_handling=handling)

        self.checkers = ViolationLog()
        self.world = ClusterWorld(1, nodes, RunTrace(), self.checkers, settings=settings)
        self.world.network.calm = True
        self.nodes = self.world.members
        self._serial = 0
        if together:
            self.come_together()

    def come_together(self) -> None:
        self.elapse(10)
        self.world.found()
        self.until(lambda: self.nodes[0].is_member)
        self.world.join()
        self.until(self.world.whole)
        self.elapse(1_500)

    # -- clients

    def guest(self, node: SimulatedClusterNode) -> Guest:
        return self._seat(Guest(self.world, self._name("guest"), node))

    def publisher(self, node: SimulatedClusterNode, mode: str = CONFIRM) -> QuietPublisher:
        return self._seat(QuietPublisher(self.world, self._name("publisher"), node, mode))

    def consumer(self, node: SimulatedClusterNode, queue: str) -> QuietConsumer:
        return self._seat(QuietConsumer(self.world, self._name("consumer"), node, queue))

    def ask(self, guest: Guest, method: Method) -> Method:
        """Send a method, and wait for its answer."""
        guest.ask(method)
        self.until(lambda: guest.answer() is not None)
        answer = guest.answer()
        assert answer is not None
        return answer

    def publish(self, publisher: QuietPublisher, queue: str, count: int, mandatory: bool = False) -> list[int]:
        target = ClusterPublishTarget("", queue, (queue,))
        return [publisher.publish(target, mandatory).number for _ in range(count)]

    def confirmed(self, numbers: list[int]) -> list[int]:
        return [number for number in numbers if self.world.ledger.attempts[number].state == CONFIRMED]

    def _seat(self, client: Seated) -> Seated:
        self.until(lambda: client.channel_open)
        return client

    def _name(self, kind: str) -> str:
        self._serial += 1
        return f"{kind}{self._serial}"

    # -- nodes

    def queue_on(self, node: SimulatedClusterNode, queue: str) -> Queue | None:
        """The queue itself, if this node is its home."""
        found = node.broker.vhosts["/"].topology.queues.get(queue)
        return found if isinstance(found, Queue) else None

    def knows(self, node: SimulatedClusterNode, queue: str) -> bool:
        return queue in node.broker.vhosts["/"].topology.queues

    def isolate(self, node: SimulatedClusterNode, isolated: bool = True) -> None:
        """Cut a node off from all others; not from the store."""
        for link in self.world.peer_links.of(node.name):
            for place in (0, 1):
                link.set_cut(place, isolated)

    def tear_from_all(self, node: SimulatedClusterNode) -> None:
        """A node is cut off from everything at once, and its links are seen to end."""
        for link in self.world.peer_links.of(node.name):
            link.drop(node, "its network is gone")
        self.until(
            lambda: not any(link.run is not None and link.quiet() for link in self.world.peer_links.of(node.name))
        )
        self.elapse(20)
        self.isolate(node)
        node.cut_off_from_store(True)

    def fence(self, node: SimulatedClusterNode, fenced: bool = True) -> None:
        """Put a firewall between a node and all others that refuses connections; the store is reached."""
        for link in self.world.peer_links.of(node.name):
            link.set_fenced(fenced)

    def is_stale(self, node: SimulatedClusterNode) -> bool:
        cluster = node.broker.cluster
        assert cluster is not None
        return cluster.shared.is_stale(self.world.now_ms)

    # -- time

    def until(self, met: Callable[[], bool]) -> None:
        """Run until a condition is met; fail if it never is, or a rule is broken."""
        assert self.world.run_until(met, STEPS_MAX) or self.checkers.complaints, "it never came to pass"
        assert self.checkers.complaints == [], self.checkers.complaints

    def elapse(self, duration_ms: int) -> None:
        end_ms = self.world.now_ms + duration_ms
        self.until(lambda: self.world.now_ms >= end_ms)

    def finish(self) -> None:
        """Run until nothing happens any more, and check that every rule holds."""
        self.until(lambda: not self.world.rules.unsettled())
        self.world.rules.ended()
        assert self.checkers.complaints == [], self.checkers.complaints
