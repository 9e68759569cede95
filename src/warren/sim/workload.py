"""The clients of one node's world, drawn from its seed: exchanges, queues of every kind, publishers, consumers.

::

    orders (direct)  --one--> plain, ranked    --two--> single, retried, limited
    news   (fanout)  --> plain, fan, and each transient consumer's own queue
    events (topic)   a.* --> fan     #.z --> plain     a.# --> retried
    ""               brief (TTL), mixed (expirations), short (drop-head), full (reject-publish)
    later  (delayed) --> late
    dead   (direct)  --rejected--> graves      --dropped--> dropped

Publishers add and remove a few bindings as they go. Which exchanges and queues are durable, and which queues lazy, is
drawn for each world. Messages rejected in `retried` must arrive in `graves`, messages dropped by `limited`, `brief`,
`mixed` and `short` in `dropped`.

Not here: what clients do (`sim.clients`).
"""

from dataclasses import dataclass, field
from random import Random

from warren.sim.clients import (
    CHANNEL,
    CONFIRM,
    PLAIN,
    TRANSACTION,
    PlannedSubscription,
    PublishTarget,
    SimulatedConsumer,
    SimulatedPublisher,
)
from warren.sim.history import QueueSpec
from warren.sim.world import NodeWorld
from warren.wire.field_tables import Table
from warren.wire.methods import ExchangeDeclare, Method, QueueBind, QueueDeclare, QueueDelete

EXCHANGES = (("orders", "direct"), ("news", "fanout"), ("events", "topic"), ("dead", "direct"))
DELAYING = "later"
RELEASE_PATIENCE_MS = 1_000
"""How long to wait for a delayed message that is due: the node may be suspended."""

BINDINGS = (
    ("orders", "one", "plain"),
    ("orders", "one", "ranked"),
    ("orders", "two", "single"),
    ("orders", "two", "retried"),
    ("orders", "two", "limited"),
    ("news", "", "plain"),
    ("news", "", "fan"),
    ("events", "a.*", "fan"),
    ("events", "#.z", "plain"),
    ("events", "a.#", "retried"),
    (DELAYING, "late", "late"),
    ("dead", "rejected", "graves"),
    ("dead", "dropped", "dropped"),
)
EXTRA_BINDINGS = (("events", "a.b", "single"), ("orders", "one", "fan"), ("orders", "nowhere", "plain"))
TARGETS = (
    PublishTarget("orders", "one", ranked=True),
    PublishTarget("orders", "two"),
    PublishTarget("orders", "nowhere"),
    PublishTarget("news", ""),
    PublishTarget("events", "a.b"),
    PublishTarget("events", "a.b.z"),
    PublishTarget("events", "z"),
    PublishTarget("", "plain"),
    PublishTarget("", "brief"),
    PublishTarget("", "short"),
    PublishTarget("", "mixed", expires=True),
    PublishTarget(DELAYING, "late", delayed=True),
)
REFUSING = PublishTarget("", "full")
DROPPED = ("dead", "dropped")


@dataclass
class WorkloadTopology:
    """The queues of the workload, and the methods that declare them."""

    specs: list[QueueSpec] = field(default_factory=list)
    methods: list[Method] = field(default_factory=list)


def lasting_topology(chance: Random) -> WorkloadTopology:
    """The queues of one run; their limits are drawn."""
    ttl_ms, length_max = chance.choice((5, 50, 400)), chance.choice((0, 1, 5, 20))
    returns_max = chance.choice((0, 1, 3))
    drops_to = DROPPED if chance.random() < 0.7 else ("", "")
    topology = WorkloadTopology()
    topology.specs = [
        QueueSpec("plain"),
        QueueSpec("fan"),
        QueueSpec("ranked", {"x-max-priority": 5}, priority_max=5),
        QueueSpec("single", {"x-single-active-consumer": True}),
        _dying(QueueSpec("retried"), ("dead", "rejected")),
        QueueSpec("graves"),
        _dying(QueueSpec("limited", {"x-delivery-limit": returns_max}, delivery_limit=returns_max), DROPPED),
        _dying(QueueSpec("brief", {"x-message-ttl": ttl_ms}, ttl_ms=ttl_ms), drops_to),
        _dying(QueueSpec("mixed", ttl_ms=10**9), drops_to),
        _dying(QueueSpec("short", {"x-max-length": length_max}, length_max=length_max), drops_to),
        QueueSpec("full", {"x-max-length": 10, "x-overflow": "reject-publish"}, length_max=10, refuses=True),
        QueueSpec("dropped", surprising=True),
        QueueSpec("late", surprising=True),
    ]
    durable_share = chance.choice((0.0, 0.5, 0.9, 1.0))
    for spec in topology.specs:
        spec.durable = chance.random() < durable_share
        if chance.random() < 0.1:
            spec.arguments["x-queue-mode"] = "lazy"
    topology.methods = [
        ExchangeDeclare(name, kind, durable=chance.random() < durable_share) for name, kind in EXCHANGES
    ]
    # a delayed message lasts as long as its destination
    late_lasts = topology.specs[-1].durable
    delaying: Table = {"x-delayed-type": "direct"}
    topology.methods.append(ExchangeDeclare(DELAYING, "x-delayed-message", durable=late_lasts, arguments=delaying))
    topology.methods += [
        QueueDeclare(spec.name, durable=spec.durable, arguments=spec.arguments) for spec in topology.specs
    ]
    topology.methods += [QueueBind(queue, exchange, key) for exchange, key, queue in BINDINGS]
    return topology


def _dying(spec: QueueSpec, dead_letters: tuple[str, str]) -> QueueSpec:
    spec.dead_letter_exchange, spec.dead_letter_key = dead_letters
    if spec.dead_letter_exchange:
        spec.arguments["x-dead-letter-exchange"] = spec.dead_letter_exchange
        spec.arguments["x-dead-letter-routing-key"] = spec.dead_letter_key
    return spec


class TransientConsumer(SimulatedConsumer):
    """Consumes its own queue, which is deleted with its connection."""

    def __init__(self, world: NodeWorld, name: str, topology: list[Method]) -> None:
        super().__init__(world, name, topology, [], prefetch=5)
        self.exclusive = self.chance.random() < 0.5
        self.durable = not self.exclusive and self.chance.random() < 0.5

    def opened(self) -> None:
        # a new name each time: the node may not know yet that the last connection is gone
        spec = QueueSpec(f"{self.name}-{self.connections}", exclusive=self.exclusive, auto_delete=not self.exclusive)
        spec.durable = self.durable
        self.world.specs[spec.name] = spec
        self.subscriptions = [PlannedSubscription(spec)]
        super().opened()

    def declare(self, channel: int) -> None:
        super().declare(channel)
        spec = self.subscriptions[0].spec
        self.send(
            channel,
            QueueDeclare(spec.name, durable=spec.durable, exclusive=spec.exclusive, auto_delete=spec.auto_delete),
        )
        self.send(channel, QueueBind(spec.name, "news"))

    def _cancel_or_subscribe(self) -> None:
        """Delete the queue under its own consumer, and start again."""
        self.send(CHANNEL, QueueDelete(self.subscriptions[0].spec.name))
        self._close_channel()


class NodeWorkload:
    """The clients of one world."""

    def __init__(self, world: NodeWorld) -> None:
        self._world = world
        self._chance = Random(f"{world.seed}/workload")
        self.topology = lasting_topology(self._chance)
        world.specs.update({spec.name: spec for spec in self.topology.specs})
        for number in range(self._chance.randint(1, 4)):
            self._add_publisher(f"publisher{number}")
        for number in range(self._chance.randint(1, 5)):
            self._add_consumer(f"consumer{number}")
        for number in range(self._chance.randint(0, 2)):
            TransientConsumer(world, f"passerby{number}", self.topology.methods)

    def calm(self) -> None:
        """Start nothing new; the messages that are left in queues are consumed."""
        for client in self._world.clients:
            client.calm()
        subscriptions = [PlannedSubscription(spec) for spec in self.topology.specs]
        SimulatedConsumer(self._world, "drainer", self.topology.methods, subscriptions, prefetch=20).calm()

    def settled(self) -> bool:
        """Whether all clients are done, nothing is in transit, and the lasting queues are empty."""
        if not all(client.done() for client in self._world.clients) or not self._world.network.quiet():
            return False
        if any(node.busy() for node in self._world.members):
            return False
        held_since_ms = self._world.now_ms - RELEASE_PATIENCE_MS
        if any(copy.attempt.delay_ms and copy.attempt.due_ms() > held_since_ms for copy in self._world.history.living):
            return False
        return all(
            queue.ready_count() + queue.unacked_count() == 0
            for node in self._world.members
            for name, queue in node.broker.vhosts["/"].topology.queues.items()
            if not self._world.specs[name].fleeting
        )

    def _add_publisher(self, name: str) -> None:
        mode = self._chance.choice((CONFIRM, CONFIRM, CONFIRM, TRANSACTION, PLAIN))
        targets = self._chance.sample(TARGETS, self._chance.randint(1, len(TARGETS)))
        if mode == CONFIRM and self._chance.random() < 0.5:
            targets.append(REFUSING)
        publisher = SimulatedPublisher(self._world, name, self.topology.methods, mode, targets)
        publisher.extra_bindings = EXTRA_BINDINGS

    def _add_consumer(self, name: str) -> None:
        chance = self._chance
        specs = chance.sample(self.topology.specs, chance.randint(1, 4))
        subscriptions = [
            PlannedSubscription(spec, no_ack=chance.random() < 0.2, priority=chance.choice((0, 0, 1))) for spec in specs
        ]
        transactional = chance.random() < 0.1
        SimulatedConsumer(
            self._world,
            name,
            self.topology.methods,
            subscriptions,
            prefetch=chance.choice((0, 1, 3, 20)),
            shared_prefetch=not transactional and chance.random() < 0.3,
            transactional=transactional,
        )
