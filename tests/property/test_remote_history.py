"""Links that are lost at any moment: confirmed messages arrive, and a second delivery is marked as redelivered.

Publishers and consumers on two nodes use a queue on a third. Bytes are transferred in steps, and a link may be
cut between any two of them and come back later. In the end everything is linked again and drained.

Not here: what is the same as with a queue of one's own node (`test_remote_queue`).
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests.support.core_driver import Client, published, spoken
from tests.unit.broker.links.linked import Together
from tests.unit.broker.sessions.journalled import PERSISTENT
from warren.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicDeliver,
    BasicGet,
    BasicGetOk,
    BasicNack,
    BasicQos,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ConfirmSelect,
)

HOME = "home"
OTHERS = ("second", "third")
WHO = st.integers(0, 1)


class Member:
    """A client with a channel that publishes with confirms and one that consumes; it remembers every promise."""

    def __init__(self, client: Client, number: int) -> None:
        self.client = client
        self.number = number
        self.published: dict[int, bytes] = {}
        self.count = 0
        self.confirmed: set[bytes] = set()
        # deliveries as they came, and the tags that await an ack
        self.seen: list[tuple[bytes, bool]] = []
        self.outstanding: dict[int, bytes] = {}
        self.client.say(ConfirmSelect(), channel=1)

    def publish(self, count: int) -> None:
        data = b""
        for _ in range(count):
            self.count += 1
            body = b"%d-%d" % (self.number, self.count)
            self.published[self.count] = body
            data += published("q", body, properties=PERSISTENT)
        self.client.read(data)

    def listen(self) -> None:
        for heard in self.client.heard():
            method = heard.method
            if isinstance(method, BasicAck):
                first = min(self.published) if method.multiple else method.delivery_tag
                for number in range(first, method.delivery_tag + 1):
                    if number in self.published:
                        self.confirmed.add(self.published.pop(number))
            elif isinstance(method, BasicNack):
                del self.published[method.delivery_tag]
            elif isinstance(method, BasicDeliver | BasicGetOk):
                self.seen.append((heard.body, method.redelivered))
                self.outstanding[method.delivery_tag] = heard.body
            elif isinstance(method, ChannelClose):
                self.client.say(ChannelCloseOk(), ChannelOpen(), channel=2)
                self.outstanding = {}

    def settle(self, pick: int, how: str) -> None:
        if not self.outstanding:
            return
        tag = sorted(self.outstanding)[pick % len(self.outstanding)]
        self.outstanding.pop(tag)
        self.client.say(BasicAck(tag) if how == "ack" else BasicNack(tag, False, True), channel=2)


class LossyLinks(RuleBasedStateMachine):
    """Clients, links, and the moments in between."""

    @initialize(cut=st.sampled_from([0, 3, 40]))
    def begin(self, cut: int) -> None:
        self.nodes = Together(
            HOME,
            *OTHERS,
            cut=lambda data: [data[at : at + cut] for at in range(0, len(data), cut)] if cut else [data],
            flushes=False,
        )
        self.queue = self.nodes.place("q", HOME, durable=True)
        self.members = [Member(self.nodes.client(name, channels=2), place) for place, name in enumerate(OTHERS)]
        self.linked = [True, True]
        self.tags = 0

    @rule(who=WHO, count=st.integers(1, 3))
    def publish(self, who: int, count: int) -> None:
        self.members[who].publish(count)

    @rule(who=WHO, prefetch=st.integers(0, 2))
    def consume(self, who: int, prefetch: int) -> None:
        self.tags += 1
        data = spoken(BasicQos(0, prefetch, False), BasicConsume("q", f"c{self.tags}"), channel=2)
        self.members[who].client.read(data)

    @rule(who=WHO)
    def cancel(self, who: int) -> None:
        self.members[who].client.say(BasicCancel(f"c{self.tags}"), channel=2)

    @rule(who=WHO)
    def get(self, who: int) -> None:
        self.members[who].client.say(BasicGet("q"), channel=2)

    @rule(who=WHO, pick=st.integers(0, 9), how=st.sampled_from(["ack", "requeue"]))
    def settle(self, who: int, pick: int, how: str) -> None:
        self.members[who].listen()
        self.members[who].settle(pick, how)

    @rule()
    def step(self) -> None:
        self.nodes.step()

    @rule()
    def flush(self) -> None:
        if self.nodes[HOME].batches:
            self.nodes[HOME].flush()

    @rule(who=WHO)
    def lose_or_mend(self, who: int) -> None:
        if self.linked[who]:
            self.nodes.cut_link(HOME, OTHERS[who])
        else:
            self.nodes.link(HOME, OTHERS[who])
        self.linked[who] = not self.linked[who]
        self.queue.check()

    def teardown(self) -> None:
        if not hasattr(self, "nodes"):
            return
        for who in range(2):
            if not self.linked[who]:
                self.nodes.link(HOME, OTHERS[who])
        self.nodes.flushes = True
        self.nodes.settle()
        for member in self.members:
            member.listen()
            assert not member.published, "every publish has its answer"
            member.client.lose()
        self.nodes.settle()
        self.queue.check()
        assert (self.queue.unacked_count(), self.queue.consumer_count()) == (0, 0)
        left = self._drained()
        seen = [one for member in self.members for one in member.seen] + left
        for body in {body for member in self.members for body in member.confirmed}:
            assert body in [found for found, _redelivered in seen]
        for body in {body for body, _redelivered in seen}:
            assert [redelivered for found, redelivered in seen if found == body].count(False) <= 1

    def _drained(self) -> list[tuple[bytes, bool]]:
        client = self.nodes.client(HOME)
        client.consume("q")
        self.nodes.settle()
        return [
            (heard.body, heard.method.redelivered) for heard in client.heard() if isinstance(heard.method, BasicDeliver)
        ]


TestLossyLinks = LossyLinks.TestCase
TestLossyLinks.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
