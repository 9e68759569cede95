"""Who uses a cluster, drawn from the seed.

::

    orders (direct) --one--> plain, spread         --two--> spread, retried
    news   (fanout) --> plain, passing
    ""              plain, passing, lazy, loose (whose consumers do not ack)
    dead   (direct) --rejected--> graves            whatever is rejected in retried
    copied                                          what plain gets with the key one, and all that lazy gets

All of it is durable and lives wherever it was put, but for `passing`, which is transient: it ends with its home, and
whoever comes declares it again.

Not here: what clients do (`sim.cluster.clients`, `sim.cluster.errands`).
"""

from random import Random
from typing import TYPE_CHECKING

from warren.model.commands import Command
from warren.model.events import Commanded
from warren.policy.commands import ClearPolicy, SetPolicy
from warren.policy.policy import QUEUES, Policy
from warren.sim.cluster.clients import EXCUSES, ClusterClient, ClusterPublisher, Target
from warren.sim.cluster.consumers import ClusterConsumer
from warren.sim.cluster.errands import ERRANDS, LOCATORS, Errand, Intruder, mirroring
from warren.sim.cluster.promises import LOOSE
from warren.sim.publisher import CONFIRM, TRANSACTION
from warren.store.definition_kinds import decode_definition
from warren.store.topology_definitions import QueueDefinition
from warren.wire.method_stream import Heard
from warren.wire.methods import ExchangeDeclare, Method, QueueBind, QueueBindOk, QueueDeclare
from warren.wire.values import Table

if TYPE_CHECKING:
    from warren.sim.cluster.world import ClusterWorld

EXCHANGES = (("orders", "direct"), ("news", "fanout"), ("dead", "direct"), (ERRANDS, "direct"))
LASTING = ("plain", "spread", "retried", "graves", "lazy", LOOSE, "copied")
PASSING = "passing"
POLICY = 2
"""The ticket of commands about policies."""

BINDINGS = (
    ("orders", "one", "plain"),
    ("orders", "one", "spread"),
    ("orders", "two", "spread"),
    ("orders", "two", "retried"),
    ("news", "", "plain"),
    ("dead", "rejected", "graves"),
)
TARGETS = (
    Target("orders", "one", ("plain", "spread", "copied")),
    Target("orders", "two", ("spread", "retried")),
    Target("orders", "nowhere", ()),
    Target("news", "", ("plain", PASSING)),
    Target("", "plain", ("plain",)),
    Target("", "lazy", ("lazy", "copied")),
    Target("", LOOSE, (LOOSE,)),
    Target("", "retried", ("retried",)),
    Target("", PASSING, (PASSING,)),
)
REJECTED: Table = {"x-dead-letter-exchange": "dead", "x-dead-letter-routing-key": "rejected"}
COPIED: Table = {"x-copy-from": [{"src_name": "plain", "routing_key": "one"}, "lazy"]}


def lasting_topology(chance: Random) -> list[Method]:
    """The methods that declare it; where each queue lives is drawn."""
    methods: list[Method] = [ExchangeDeclare(name, kind, durable=True) for name, kind in EXCHANGES]
    for name in LASTING:
        arguments: Table = {"x-queue-master-locator": chance.choice(LOCATORS)}
        if name == "retried":
            arguments |= REJECTED
        elif name == "copied":
            arguments |= COPIED
        elif name == "lazy":
            arguments["x-queue-mode"] = "lazy"
        elif name == "spread" and chance.random() < 0.3:
            arguments["x-single-active-consumer"] = True
        arguments |= mirroring(chance)
        methods.append(QueueDeclare(name, durable=True, arguments=arguments))
    methods += [QueueBind(queue, exchange, key) for exchange, key, queue in BINDINGS]
    return methods


def passing_topology() -> list[Method]:
    """What has to be declared by whoever comes."""
    arguments: Table = {"x-queue-master-locator": "random"}
    return [QueueDeclare(PASSING, arguments=arguments), QueueBind(PASSING, "news", "")]


class Founder(ClusterClient):
    """Declares what lasts, once."""

    def __init__(self, world: "ClusterWorld", name: str, topology: list[Method]) -> None:
        super().__init__(world, name, topology)
        self._bound = 0
        self._finished = False

    def done(self) -> bool:
        return self._finished

    def declare(self, channel: int) -> None:
        if not self._finished:
            super().declare(channel)

    def forget_channel(self) -> None:
        self._bound = 0

    def hear(self, heard: Heard) -> None:
        self._bound += isinstance(heard.method, QueueBindOk)
        self._finished = self._finished or self._bound == len(BINDINGS)


class Drainer(ClusterConsumer):
    """Reads every queue that there is and that it may read."""

    # one may go at this moment, because somebody wanted that before
    excuses = (*EXCUSES, "no queue 'errand")

    def work(self) -> None:
        self.queues = [PASSING]
        for key, (_created, _modified, value) in self.world.store.snapshot()[1].items():
            definition = decode_definition(key, value)
            if isinstance(definition, QueueDefinition) and not definition.exclusive and definition.name != PASSING:
                self.queues.append(definition.name)
        super().work()


class Operator:
    """Changes its mind now and then about how queues are to be mirrored."""

    def __init__(self, world: "ClusterWorld") -> None:
        self._world = world
        self._chance = Random(f"{world.seed}/operator")
        self._every_ms = self._chance.choice((1_000, 4_000, 1_000_000))
        self._calmed = False
        self._wait()

    def calm(self) -> None:
        self._calmed = True

    def _wait(self) -> None:
        self._world.schedule(self._chance.randint(1, 2 * self._every_ms), self._act)

    def _act(self) -> None:
        if self._calmed:
            return
        member = self._chance.choice(self._world.members)
        pattern = self._chance.choice(("^(plain|lazy|errand.*)$", "^(spread|graves|passing)$", "^(retried|copied)$"))
        name = f"policy-{pattern}"
        definition = self._definition()
        command: Command = ClearPolicy("/", name, False)
        if definition:
            command = SetPolicy(Policy("/", name, pattern, QUEUES, definition), False)
        if member.up and member.is_member:
            member.add(Commanded(POLICY, command))
            self._world.seen["policy changed"] += 1
        self._wait()

    def _definition(self) -> Table:
        names = [member.name for member in self._world.members]
        some = self._chance.sample(names, self._chance.randint(1, len(names)))
        definitions: list[Table] = [
            {},
            {"ha-mode": "all"},
            {"ha-mode": "all", "ha-sync-mode": "automatic"},
            {"ha-mode": "exactly", "ha-params": 2, "ha-sync-mode": "automatic"},
            {"ha-mode": "nodes", "ha-params": list(some)},
        ]
        return self._chance.choice(definitions)


class ClusterWorkload:
    """The clients of one world."""

    def __init__(self, world: "ClusterWorld") -> None:
        self._world = world
        self._chance = Random(f"{world.seed}/workload")
        self.founder = Founder(world, "founder", lasting_topology(self._chance))
        world.promises.graves["retried"] = "graves"
        self._operator: Operator | None = None

    def begin(self) -> None:
        """Everything that lasts is there: everybody comes."""
        chance, world = self._chance, self._world
        for number in range(chance.randint(2, 4)):
            mode = chance.choice((CONFIRM, CONFIRM, CONFIRM, TRANSACTION))
            targets = chance.sample(TARGETS, chance.randint(2, len(TARGETS)))
            ClusterPublisher(world, f"publisher{number}", passing_topology(), mode, targets)
        for number in range(chance.randint(2, 4)):
            queues = chance.sample((*LASTING, PASSING), chance.randint(1, 3))
            consumer = ClusterConsumer(
                world, f"consumer{number}", passing_topology(), queues, chance.choice((0, 1, 3, 20))
            )
            consumer.may_reject = chance.random() < 0.7
        for number in range(chance.randint(1, 2)):
            Errand(world, f"errand{number}", [])
        if chance.random() < 0.5:
            Intruder(world, "intruder", [])
        self._operator = Operator(world)

    def calm(self) -> None:
        """Nothing new from here on."""
        for client in self._world.clients:
            client.calm()
        if self._operator is not None:
            self._operator.calm()

    def errands_done(self) -> bool:
        return all(client.done() for client in self._world.clients if isinstance(client, Errand))

    def drain(self) -> None:
        """Whatever is left in a queue is read."""
        Drainer(self._world, "drainer", passing_topology(), [], 20).calm()
