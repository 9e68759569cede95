"""A queue of another node behaves like one of this node, for all operations and all cuts of the link's bytes.

The same operations are carried out in two worlds: in one the queue and its clients are on one node; in the other the
queue lives on a node of its own, and each client is on another. After each operation all clients have heard the same.

Not here: lost links (`test_remote_history`).
"""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.support.core_driver import published, spoken
from tests.unit.broker.links.linked import Together
from warren.wire.field_tables import Table
from warren.wire.method_stream import ReceivedMethod
from warren.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicGet,
    BasicNack,
    BasicQos,
    BasicReject,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ConfirmSelect,
    QueueDeclare,
    QueuePurge,
)
from warren.wire.properties import Properties

SHAPES: list[tuple[Table, bool]] = [
    ({}, False),
    ({}, True),
    ({"x-max-length": 3, "x-overflow": "reject-publish"}, True),
    ({"x-max-length": 3}, False),
    ({"x-max-priority": 3}, True),
    ({"x-single-active-consumer": True}, False),
]
PLACES = ("home", "second", "third")
WHO = st.integers(0, 2)


@dataclass
class Told:
    """What one client heard, sorted by what must be the same in which order."""

    taken: list[tuple[str, object]] = field(default_factory=list)
    confirmed: dict[int, str] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)


class World:
    """One broker, of one node or three, with a queue and three clients."""

    def __init__(self, homes: tuple[str, ...], shape: tuple[Table, bool], cut: int) -> None:
        self.nodes = Together(*sorted(set(homes)), cut=lambda data: pieces(data, cut))
        arguments, durable = shape
        self.queue = self.nodes.place("q", homes[0], arguments, durable=durable)
        self.clients = [self.nodes.client(home) for home in homes]
        self.confirmed_to = [0, 0, 0]
        for client in self.clients:
            client.say(ConfirmSelect())
            client.heard()

    def say(self, who: int, data: bytes) -> None:
        self.clients[who].read(data)
        self.nodes.settle()

    def told(self, who: int) -> Told:
        told = Told()
        for heard in self.clients[who].heard():
            self._sort(who, told, heard)
        return told

    def _sort(self, who: int, told: Told, heard: ReceivedMethod) -> None:
        method = heard.method
        if isinstance(method, BasicAck | BasicNack):
            kind = method.name
            first = self.confirmed_to[who] + 1 if method.multiple else method.delivery_tag
            for number in range(first, method.delivery_tag + 1):
                told.confirmed.setdefault(number, kind)
        elif method.name in ("basic.deliver", "basic.get-ok"):
            told.taken.append((repr(method), heard.body))
        else:
            told.others.append(repr(method))

    def counts(self) -> tuple[int, int, int]:
        return self.queue.ready_count(), self.queue.unacked_count(), self.queue.consumer_count()


def pieces(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)] if size else [data]


class TwoWorlds(RuleBasedStateMachine):
    """Operations in both worlds."""

    @initialize(shape=st.sampled_from(SHAPES), cut=st.sampled_from([0, 1, 7, 50]))
    def begin(self, shape: tuple[Table, bool], cut: int) -> None:
        self.local = World(("home", "home", "home"), shape, 0)
        self.remote = World(PLACES, shape, cut)
        self.published = 0
        self.outstanding: list[list[int]] = [[], [], []]
        self.tags = [0, 0, 0]
        self.consuming: list[set[str]] = [set(), set(), set()]
        self.numbers = [0, 0, 0]

    @rule(who=WHO, count=st.integers(1, 4), persistent=st.booleans(), priority=st.integers(0, 3))
    def publish(self, who: int, count: int, persistent: bool, priority: int) -> None:
        properties = Properties(delivery_mode=2 if persistent else 1, priority=priority)
        bodies = [b"%d" % (self.published + place) for place in range(count)]
        self.published += count
        self._both(who, b"".join(published("q", body, properties=properties) for body in bodies))

    @rule(who=WHO, tag=st.sampled_from(["a", "b"]), no_ack=st.booleans(), prefetch=st.integers(0, 3))
    def consume(self, who: int, tag: str, no_ack: bool, prefetch: int) -> None:
        if tag not in self.consuming[who]:
            self.consuming[who].add(tag)
            self._both(who, spoken(BasicQos(0, prefetch, False), BasicConsume("q", tag, no_ack=no_ack)))

    @rule(who=WHO, before=st.integers(0, 3), after=st.integers(0, 3))
    def consume_with_channel_prefetch(self, who: int, before: int, after: int) -> None:
        """Only for a channel with one consumer it is the home that holds."""
        if not self.consuming[who]:
            self.consuming[who] |= {"a", "b", "alone"}
            self._both(who, spoken(BasicQos(0, before, True), BasicConsume("q", "a")))
            # what is on its way when the limit is lowered is held at the client's node
            self._both(who, spoken(BasicQos(0, after, True)))

    @rule(who=WHO, tag=st.sampled_from(["a", "b"]))
    def cancel(self, who: int, tag: str) -> None:
        if "alone" not in self.consuming[who]:
            self.consuming[who].discard(tag)
        self._both(who, spoken(BasicCancel(tag)))

    @rule(who=WHO, no_ack=st.booleans())
    def get(self, who: int, no_ack: bool) -> None:
        self._both(who, spoken(BasicGet("q", no_ack=no_ack)))

    @rule(who=WHO, pick=st.integers(0, 20), multiple=st.booleans())
    def ack(self, who: int, pick: int, multiple: bool) -> None:
        tag = self._pick(who, pick, multiple)
        if tag:
            self._both(who, spoken(BasicAck(tag, multiple)))

    @rule(who=WHO, pick=st.integers(0, 20), multiple=st.booleans(), requeue=st.booleans())
    def nack(self, who: int, pick: int, multiple: bool, requeue: bool) -> None:
        tag = self._pick(who, pick, multiple)
        if tag:
            self._both(who, spoken(BasicNack(tag, multiple, requeue)))

    @rule(who=WHO, tag=st.integers(50, 60))
    def err(self, who: int, tag: int) -> None:
        """An ack of what was never delivered closes the channel."""
        if tag > self.tags[who]:
            self._both(who, spoken(BasicReject(tag, requeue=False), ChannelCloseOk()))
            self._open_again(who)

    @rule(who=WHO)
    def close(self, who: int) -> None:
        self._both(who, spoken(ChannelClose(200, "bye", 0, 0)))
        self._open_again(who)

    @rule(who=WHO)
    def count(self, who: int) -> None:
        self._both(who, spoken(QueueDeclare("q", passive=True)))

    @rule(who=WHO)
    def purge(self, who: int) -> None:
        self._both(who, spoken(QueuePurge("q")))

    @rule(who=WHO, exclusive=st.booleans())
    def consume_alone(self, who: int, exclusive: bool) -> None:
        """Refused if others consume, or one does exclusively; then the channel is closed."""
        if "alone" in self.consuming[who]:
            return
        self._both(who, spoken(BasicConsume("q", "alone", exclusive=exclusive)))
        if self.last_told[who].others and "channel.close" in self.last_told[who].others[0]:
            self._both(who, spoken(ChannelCloseOk()))
            self._open_again(who)
        else:
            self.consuming[who].add("alone")

    @invariant()
    def counts_are_the_same(self) -> None:
        if hasattr(self, "local"):
            assert self.local.counts() == self.remote.counts()
            self.remote.queue.check()
            assert self.remote.nodes["home"].held_bytes() >= 0

    def _both(self, who: int, data: bytes) -> None:
        self.local.say(who, data)
        self.remote.say(who, data)
        self.last_told = []
        for one in range(3):
            expected, found = self.local.told(one), self.remote.told(one)
            assert found == expected
            self.last_told.append(found)
            for world in (self.local, self.remote):
                world.confirmed_to[one] += len(found.confirmed)
            for _said in found.taken:
                self.tags[one] += 1
                self.outstanding[one].append(self.tags[one])

    def _pick(self, who: int, pick: int, multiple: bool) -> int:
        outstanding = self.outstanding[who]
        if not outstanding:
            return 0
        tag = outstanding[pick % len(outstanding)]
        self.outstanding[who] = [one for one in outstanding if one > tag or (one != tag and not multiple)]
        return tag

    def _open_again(self, who: int) -> None:
        self.outstanding[who] = []
        self.tags[who] = 0
        self.consuming[who] = set()
        self._both(who, spoken(ChannelOpen(), ConfirmSelect()))
        for world in (self.local, self.remote):
            world.confirmed_to[who] = 0


TestTwoWorlds = TwoWorlds.TestCase
TestTwoWorlds.settings = settings(max_examples=30, stateful_step_count=25, deadline=None)
