"""The clients of a simulated cluster, drawn from the seed.

::

    orders (direct) --one--> plain, spread         --two--> spread, retried
    news   (fanout) --> plain, passing
    ""              plain, passing, lazy, loose (whose consumers do not ack)
    dead   (direct) --rejected--> graves            the messages rejected in retried
    copied                                          what plain gets with the key one, and all that lazy gets

All of it is durable, except `passing`, which is transient: it ends with its node, and every client declares it again.

A lifecycle client declares a queue, binds it, publishes to it, counts, gets some messages, purges, unbinds and deletes
it. Each step waits for its answer, and the answers must be true. An intruder tries the exclusive queues of others.

Not here: publishers and consumers (`sim.cluster.clients`).
"""

from collections.abc import Generator
from random import Random

from warren.broker.commands.requests import ClearPolicy, SetPolicy
from warren.broker.metadata.definition_kinds import decode_definition
from warren.broker.metadata.topology_definitions import BindingDefinition, QueueDefinition, queue_key
from warren.broker.model.events import Command, CommandReceived
from warren.broker.policies.policies import QUEUES, Policy
from warren.sim.clients import CONFIRM, TRANSACTION
from warren.sim.cluster.clients import EXCUSES, ClusterClient, ClusterConsumer, ClusterPublisher, ClusterPublishTarget
from warren.sim.cluster.ledger import CHANNEL, LOOSE
from warren.sim.cluster.world import ClusterWorld
from warren.sim.history import CONFIRMED, PublishAttempt
from warren.sim.simulation import answered_tags
from warren.wire.field_tables import Table
from warren.wire.frames import content_frames
from warren.wire.method_stream import ReceivedMethod
from warren.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicReturn,
    ConfirmSelect,
    ConfirmSelectOk,
    ExchangeDeclare,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    QueueUnbind,
    QueueUnbindOk,
)
from warren.wire.properties import Properties, encode_header_payload

LIFECYCLE_CLIENTS = "errands"
LOCATORS = ("client-local", "min-masters", "random")
PUBLISHES_MAX = 4
UNKNOWN_MS = 20_000


def mirroring_arguments(chance: Random) -> Table:
    """The arguments of a queue that is mirrored on all nodes, on two, or not at all."""
    kinds: list[Table] = [{}, {"x-ha-mode": "all"}, {"x-ha-mode": "exactly", "x-ha-params": 2}]
    return chance.choice(kinds)


Script = Generator[None, ReceivedMethod, None]
"""A client's script: it yields to wait for the next method."""


class QueueLifecycleClient(ClusterClient):
    """Declares a queue, uses it, deletes it, and again."""

    # an exclusive or transient queue may have ended with its node
    excuses = (*EXCUSES, "no queue 'errand")

    def __init__(self, world: ClusterWorld, name: str, topology: list[Method]) -> None:
        super().__init__(world, name, topology)
        self.rounds = 0
        self._script: Script | None = None
        self._serial = 0
        self._purging = ""
        self._exclusive = ""
        self._publish_no = 0

    def done(self) -> bool:
        return self._script is None

    def waiting_for(self) -> str:
        return "an answer for its errand"

    def work(self) -> None:
        if self._script is None and not self.calmed:
            self._script = self._short_lifecycle() if self.chance.random() < 0.2 else self._lifecycle()
            self._go_on(None)

    def channel_method_received(self, received: ReceivedMethod) -> None:
        self._go_on(received)

    def forget_channel(self) -> None:
        if self._purging:
            self._await_purge(self._purging)
            self._purging = ""
        if self._exclusive:
            self.world.ledger.deleted(self._exclusive)
            self._exclusive = ""
        self._script = None
        self._publish_no = 0

    def _await_purge(self, name: str) -> None:
        """The outcome is unknown; after a while it cannot happen any more."""
        self.world.schedule(UNKNOWN_MS, lambda: self.world.ledger.purged(name))

    def _go_on(self, received: ReceivedMethod | None) -> None:
        script = self._script
        if script is None:
            return
        try:
            if received is None:
                next(script)
            else:
                script.send(received)
        except StopIteration:
            self.rounds += 1
            if self._script is script:
                self._script = None

    def _ask(self, method: Method, *expected: type[Method]) -> Generator[None, ReceivedMethod, ReceivedMethod]:
        """Send a method, and wait for one of these."""
        self.send(CHANNEL, method)
        while True:
            received = yield
            if isinstance(received.method, expected):
                return received

    # -- the life of a queue

    def _lifecycle(self) -> Script:
        self._serial += 1
        name = f"errand-{self.name}-{self._serial}"
        exclusive = self.chance.random() < 0.25
        durable = not exclusive and self.chance.random() < 0.6
        arguments: Table = {"x-queue-master-locator": self.chance.choice(LOCATORS), **mirroring_arguments(self.chance)}
        declare = QueueDeclare(name, durable=durable, exclusive=exclusive, arguments=arguments)
        sent_ms = self.world.now_ms
        self._exclusive = name if exclusive else ""
        yield from self._ask(declare, QueueDeclareOk)
        self._answered_for(queue_key("/", name), sent_ms)
        if exclusive:
            self.world.exclusive_names.append(name)
        yield from self._ask(ConfirmSelect(), ConfirmSelectOk)
        sent_ms = self.world.now_ms
        yield from self._ask(QueueBind(name, LIFECYCLE_CLIENTS, name), QueueBindOk)
        self._answered_for(BindingDefinition("/", LIFECYCLE_CLIENTS, name, True, name, {}, durable).key(), sent_ms)
        attempts = yield from self._publish(name)
        yield from self._count(name, attempts)
        yield from self._take_some(name, attempts)
        if self.chance.random() < 0.5:
            self._purging = name
            self.world.ledger.purging(name)
            yield from self._ask(QueuePurge(name), QueuePurgeOk)
            self._purging = ""
            self.world.ledger.purged(name)
        yield from self._ask(QueueUnbind(name, LIFECYCLE_CLIENTS, name), QueueUnbindOk)
        self.world.ledger.deleted(name)
        yield from self._ask(QueueDelete(name), QueueDeleteOk)
        self._exclusive = ""

    def _short_lifecycle(self) -> Script:
        """Declare a queue that goes with its last consumer, and be that consumer."""
        self._serial += 1
        name = f"errand-{self.name}-{self._serial}"
        arguments: Table = {"x-queue-master-locator": self.chance.choice(LOCATORS), **mirroring_arguments(self.chance)}
        durable = self.chance.random() < 0.5
        declare = QueueDeclare(name, durable=durable, auto_delete=True, arguments=arguments)
        yield from self._ask(declare, QueueDeclareOk)
        yield from self._ask(BasicConsume(name, name), BasicConsumeOk)
        yield from self._ask(BasicCancel(name), BasicCancelOk)
        self.world.deserted_ms[name] = self.world.now_ms

    def _answered_for(self, key: str, sent_ms: int) -> None:
        assert self.link is not None, "the answer came over one"
        self.world.rules.answered_for(self.link.node.name, key, sent_ms)

    def _publish(self, name: str) -> Generator[None, ReceivedMethod, list[PublishAttempt]]:
        attempts: dict[int, PublishAttempt] = {}
        for _ in range(self.chance.randint(1, PUBLISHES_MAX)):
            self._publish_no += 1
            attempt = self.world.ledger.publish(self.who, self.link, (name,), True, True, 10)
            attempts[self._publish_no] = attempt
            header = encode_header_payload(Properties(delivery_mode=2), len(attempt.body))
            content = content_frames(header, attempt.body, CHANNEL, self.frame_max)
            self.send(CHANNEL, BasicPublish(LIFECYCLE_CLIENTS, name, mandatory=True), content=content)
        unanswered = dict(attempts)
        while unanswered:
            received = yield
            method = received.method
            if isinstance(method, BasicReturn):
                self.world.ledger.returned(received.body)
            elif isinstance(method, BasicAck | BasicNack):
                for number in answered_tags(method, unanswered):
                    answered = unanswered.pop(number, None)
                    if answered is not None and isinstance(method, BasicAck):
                        answered.state = CONFIRMED
        return [one for one in attempts.values() if one.state == CONFIRMED and not one.returned]

    def _count(self, name: str, attempts: list[PublishAttempt]) -> Script:
        disruptions = self.world.disruptions
        received = yield from self._ask(QueueDeclare(name, passive=True), QueueDeclareOk)
        assert isinstance(received.method, QueueDeclareOk), "that was waited for"
        if received.method.message_count < len(attempts) and disruptions == self.world.disruptions:
            text = f"'{name}' has {received.method.message_count} messages, and {len(attempts)} were confirmed"
            self.world.rules.missing(text, name, attempts)

    def _take_some(self, name: str, attempts: list[PublishAttempt]) -> Script:
        for _ in range(self.chance.randint(0, len(attempts))):
            received = yield from self._ask(BasicGet(name), BasicGetOk, BasicGetEmpty)
            if isinstance(received.method, BasicGetOk) and self.link is not None:
                redelivered = received.method.redelivered
                taken = self.world.ledger.delivered(self.who, self.link, name, received.body, redelivered)
                self.send(CHANNEL, BasicAck(received.method.delivery_tag))
                if taken is not None:
                    self.world.ledger.settled(taken, name, True, False)


class ExclusiveQueueIntruder(ClusterClient):
    """Tries to use exclusive queues of other connections."""

    excuses = (*EXCUSES, "no queue 'errand", "cannot obtain exclusive access to locked queue")

    def work(self) -> None:
        if self.calmed or not self.world.exclusive_names or self.chance.random() > 0.1:
            return
        name = self.chance.choice(self.world.exclusive_names[-3:])
        methods = (
            QueueDeclare(name, passive=True),
            BasicGet(name),
            BasicConsume(name, f"{self.name}-{self.runs}"),
            QueuePurge(name),
            QueueDelete(name),
        )
        self.send(CHANNEL, self.chance.choice(methods))

    def channel_method_received(self, received: ReceivedMethod) -> None:
        allowed = (QueueDeclareOk, BasicGetOk, BasicGetEmpty, BasicConsumeOk, QueuePurgeOk)
        if isinstance(received.method, allowed):
            text = f"{self.name} was told {received.method.name} for a queue that belongs to another connection"
            self.world.checkers.complain("exclusive queues have one user", text)


EXCHANGES = (("orders", "direct"), ("news", "fanout"), ("dead", "direct"), (LIFECYCLE_CLIENTS, "direct"))
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
    ClusterPublishTarget("orders", "one", ("plain", "spread", "copied")),
    ClusterPublishTarget("orders", "two", ("spread", "retried")),
    ClusterPublishTarget("orders", "nowhere", ()),
    ClusterPublishTarget("news", "", ("plain", PASSING)),
    ClusterPublishTarget("", "plain", ("plain",)),
    ClusterPublishTarget("", "lazy", ("lazy", "copied")),
    ClusterPublishTarget("", LOOSE, (LOOSE,)),
    ClusterPublishTarget("", "retried", ("retried",)),
    ClusterPublishTarget("", PASSING, (PASSING,)),
)
REJECTED: Table = {"x-dead-letter-exchange": "dead", "x-dead-letter-routing-key": "rejected"}
COPIED: Table = {"x-copy-from": [{"src_name": "plain", "routing_key": "one"}, "lazy"]}


def lasting_topology(chance: Random) -> list[Method]:
    """The methods that declare the durable topology; each queue's node is drawn."""
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
        arguments |= mirroring_arguments(chance)
        methods.append(QueueDeclare(name, durable=True, arguments=arguments))
    methods += [QueueBind(queue, exchange, key) for exchange, key, queue in BINDINGS]
    return methods


def passing_topology() -> list[Method]:
    """The methods that every client sends."""
    arguments: Table = {"x-queue-master-locator": "random"}
    return [QueueDeclare(PASSING, arguments=arguments), QueueBind(PASSING, "news", "")]


class TopologyFounder(ClusterClient):
    """Declares the durable topology, once."""

    def __init__(self, world: ClusterWorld, name: str, topology: list[Method]) -> None:
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

    def channel_method_received(self, received: ReceivedMethod) -> None:
        self._bound += isinstance(received.method, QueueBindOk)
        self._finished = self._finished or self._bound == len(BINDINGS)


class QueueDrainer(ClusterConsumer):
    """Consumes every queue that it may consume."""

    # a queue may be deleted at this moment, by an earlier request
    excuses = (*EXCUSES, "no queue 'errand")

    def work(self) -> None:
        self.queues = [PASSING]
        for key, (_created, _modified, value) in self.world.store.snapshot()[1].items():
            definition = decode_definition(key, value)
            if isinstance(definition, QueueDefinition) and not definition.exclusive and definition.name != PASSING:
                self.queues.append(definition.name)
        super().work()


class MirroringOperator:
    """Changes the mirroring policy now and then."""

    def __init__(self, world: ClusterWorld) -> None:
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
            member.add(CommandReceived(POLICY, command))
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

    def __init__(self, world: ClusterWorld) -> None:
        self._world = world
        self._chance = Random(f"{world.seed}/workload")
        self.founder = TopologyFounder(world, "founder", lasting_topology(self._chance))
        world.ledger.dead_letter_queues["retried"] = "graves"
        self._operator: MirroringOperator | None = None

    def begin(self) -> None:
        """The durable topology exists: start all clients."""
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
            QueueLifecycleClient(world, f"errand{number}", [])
        if chance.random() < 0.5:
            ExclusiveQueueIntruder(world, "intruder", [])
        self._operator = MirroringOperator(world)

    def calm(self) -> None:
        """Start nothing new."""
        for client in self._world.clients:
            client.calm()
        if self._operator is not None:
            self._operator.calm()

    def lifecycles_done(self) -> bool:
        return all(client.done() for client in self._world.clients if isinstance(client, QueueLifecycleClient))

    def drain(self) -> None:
        """Consume all messages that are left in the queues."""
        QueueDrainer(self._world, "drainer", passing_topology(), [], 20).calm()
