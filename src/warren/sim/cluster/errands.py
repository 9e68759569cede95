"""Clients of a cluster that change what it consists of, one method after another, and look at what they have made.

An errand declares a queue, binds it, publishes to it, counts, takes some, purges it, unbinds it and deletes it; each
step waits for its answer, and what was answered for must be true. An intruder tries the exclusive queues of others.

Not here: those who only publish and consume (`sim.cluster.clients`).
"""

from collections.abc import Generator
from random import Random
from typing import TYPE_CHECKING

from warren.sim.cluster.clients import EXCUSES, ClusterClient
from warren.sim.cluster.promises import CHANNEL, Attempt
from warren.sim.history import CONFIRMED
from warren.store.topology_definitions import BindingDefinition, queue_key
from warren.wire.frames import content_frames
from warren.wire.method_stream import Heard
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
from warren.wire.values import Table

if TYPE_CHECKING:
    from warren.sim.cluster.world import ClusterWorld

ERRANDS = "errands"
LOCATORS = ("client-local", "min-masters", "random")
PUBLISHES_MAX = 4
UNKNOWN_MS = 20_000


def mirroring(chance: Random) -> Table:
    """The arguments of a queue that is mirrored on all nodes, on two, or not at all."""
    kinds: list[Table] = [{}, {"x-ha-mode": "all"}, {"x-ha-mode": "exactly", "x-ha-params": 2}]
    return chance.choice(kinds)


Script = Generator[None, Heard, None]
"""What a client does: it yields to wait for the next thing it hears."""


class Errand(ClusterClient):
    """Makes a queue, uses it, unmakes it, and again."""

    # an exclusive or transient queue may have ended with its home
    excuses = (*EXCUSES, "no queue 'errand")

    def __init__(self, world: "ClusterWorld", name: str, topology: list[Method]) -> None:
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
            self._script = self._short_errand() if self.chance.random() < 0.2 else self._errand()
            self._go_on(None)

    def hear(self, heard: Heard) -> None:
        self._go_on(heard)

    def forget_channel(self) -> None:
        if self._purging:
            self._await_purge(self._purging)
            self._purging = ""
        if self._exclusive:
            self.world.promises.deleted(self._exclusive)
            self._exclusive = ""
        self._script = None
        self._publish_no = 0

    def _await_purge(self, name: str) -> None:
        """Nobody knows whether it came about; after a while it will not any more."""
        self.world.schedule(UNKNOWN_MS, lambda: self.world.promises.purged(name))

    def _go_on(self, heard: Heard | None) -> None:
        script = self._script
        if script is None:
            return
        try:
            if heard is None:
                next(script)
            else:
                script.send(heard)
        except StopIteration:
            self.rounds += 1
            if self._script is script:
                self._script = None

    def _ask(self, method: Method, *expected: type[Method]) -> Generator[None, Heard, Heard]:
        """Say it, and wait for one of these."""
        self.send(CHANNEL, method)
        while True:
            heard = yield
            if isinstance(heard.method, expected):
                return heard

    # -- the errand

    def _errand(self) -> Script:
        self._serial += 1
        name = f"errand-{self.name}-{self._serial}"
        exclusive = self.chance.random() < 0.25
        durable = not exclusive and self.chance.random() < 0.6
        arguments: Table = {"x-queue-master-locator": self.chance.choice(LOCATORS), **mirroring(self.chance)}
        declare = QueueDeclare(name, durable=durable, exclusive=exclusive, arguments=arguments)
        sent_ms = self.world.now_ms
        self._exclusive = name if exclusive else ""
        yield from self._ask(declare, QueueDeclareOk)
        self._answered_for(queue_key("/", name), sent_ms)
        if exclusive:
            self.world.exclusive_names.append(name)
        yield from self._ask(ConfirmSelect(), ConfirmSelectOk)
        sent_ms = self.world.now_ms
        yield from self._ask(QueueBind(name, ERRANDS, name), QueueBindOk)
        self._answered_for(BindingDefinition("/", ERRANDS, name, True, name, {}, durable).key(), sent_ms)
        attempts = yield from self._publish(name)
        yield from self._count(name, attempts)
        yield from self._take_some(name, attempts)
        if self.chance.random() < 0.5:
            self._purging = name
            self.world.promises.purging(name)
            yield from self._ask(QueuePurge(name), QueuePurgeOk)
            self._purging = ""
            self.world.promises.purged(name)
        yield from self._ask(QueueUnbind(name, ERRANDS, name), QueueUnbindOk)
        self.world.promises.deleted(name)
        yield from self._ask(QueueDelete(name), QueueDeleteOk)
        self._exclusive = ""

    def _short_errand(self) -> Script:
        """Make a queue that goes with its last consumer, and be that."""
        self._serial += 1
        name = f"errand-{self.name}-{self._serial}"
        arguments: Table = {"x-queue-master-locator": self.chance.choice(LOCATORS), **mirroring(self.chance)}
        durable = self.chance.random() < 0.5
        declare = QueueDeclare(name, durable=durable, auto_delete=True, arguments=arguments)
        yield from self._ask(declare, QueueDeclareOk)
        yield from self._ask(BasicConsume(name, name), BasicConsumeOk)
        yield from self._ask(BasicCancel(name), BasicCancelOk)
        self.world.deserted_ms[name] = self.world.now_ms

    def _answered_for(self, key: str, sent_ms: int) -> None:
        assert self.link is not None, "the answer came over one"
        self.world.rules.answered_for(self.link.node.name, key, sent_ms)

    def _publish(self, name: str) -> Generator[None, Heard, list[Attempt]]:
        attempts: dict[int, Attempt] = {}
        for _ in range(self.chance.randint(1, PUBLISHES_MAX)):
            self._publish_no += 1
            attempt = self.world.promises.attempt(self, (name,), True, True, 10)
            attempts[self._publish_no] = attempt
            header = encode_header_payload(Properties(delivery_mode=2), len(attempt.body))
            content = content_frames(header, attempt.body, CHANNEL, self.frame_max)
            self.send(CHANNEL, BasicPublish(ERRANDS, name, mandatory=True), content=content)
        unanswered = dict(attempts)
        while unanswered:
            heard = yield
            method = heard.method
            if isinstance(method, BasicReturn):
                self.world.promises.returned(heard.body)
            elif isinstance(method, BasicAck | BasicNack):
                last = method.delivery_tag
                for number in [one for one in unanswered if one == last or (method.multiple and one < last)]:
                    attempt = unanswered.pop(number)
                    if isinstance(method, BasicAck):
                        self.world.promises.confirmed(attempt)
        return [one for one in attempts.values() if one.state == CONFIRMED and not one.returned]

    def _count(self, name: str, attempts: list[Attempt]) -> Script:
        disruptions = self.world.disruptions
        heard = yield from self._ask(QueueDeclare(name, passive=True), QueueDeclareOk)
        assert isinstance(heard.method, QueueDeclareOk), "that was waited for"
        if heard.method.message_count < len(attempts) and disruptions == self.world.disruptions:
            text = f"'{name}' has {heard.method.message_count} messages, and {len(attempts)} were confirmed"
            self.world.rules.missing(text, name, attempts)

    def _take_some(self, name: str, attempts: list[Attempt]) -> Script:
        for _ in range(self.chance.randint(0, len(attempts))):
            heard = yield from self._ask(BasicGet(name), BasicGetOk, BasicGetEmpty)
            if isinstance(heard.method, BasicGetOk) and self.link is not None:
                redelivered = heard.method.redelivered
                taken = self.world.promises.delivered(self.who, self.link, name, heard.body, redelivered)
                self.send(CHANNEL, BasicAck(heard.method.delivery_tag))
                if taken is not None:
                    self.world.promises.settled(taken, name, True, False)


class Intruder(ClusterClient):
    """Tries to use queues that belong to other connections."""

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

    def hear(self, heard: Heard) -> None:
        allowed = (QueueDeclareOk, BasicGetOk, BasicGetEmpty, BasicConsumeOk, QueuePurgeOk)
        if isinstance(heard.method, allowed):
            text = f"{self.name} was told {heard.method.name} for a queue that belongs to another connection"
            self.world.checkers.complain("exclusive queues have one user", text)
