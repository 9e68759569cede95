"""The figures of a node against a plain count of what its clients said and heard, over random conversations."""

from collections import Counter

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.support.core_driver import Client, Core, published
from warren.model.figures import TakenFigures
from warren.queue.queue import Queue
from warren.session.channel import Channel
from warren.wire.method_stream import Heard
from warren.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicQos,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    Method,
    TxCommit,
    TxRollback,
    TxSelect,
)

QUEUES = ["plain", "full", "short"]
KEYS = [*QUEUES, "nowhere"]
TAKEN = ["delivered", "delivered_no_ack", "got", "got_no_ack", "got_empty", "redelivered", "acked"]
CLOSE = ChannelClose(reply_code=200, reply_text="", blamed_class_id=0, blamed_method_id=0)


class Speaker:
    """One channel, as its client knows it."""

    def __init__(self, client: Client, number: int) -> None:
        self.client = client
        self.number = number
        self.begin()

    def begin(self) -> None:
        self.mode = "plain"
        # which queue, by consumer tag; a tag that begins with an n needs no ack
        self.subscribed: dict[str, str] = {}
        # which queue, by delivery tag
        self.unacked: dict[int, str] = {}
        self.next_no = 1
        self.unconfirmed: set[int] = set()
        # what waits for a commit: queues published to, and queues of acks
        self.publishes: list[str] = []
        self.acks: list[int] = []
        self.lifted: dict[int, str] = {}
        self.opened = False
        self.ended = False
        self.asked = ""
        self.asked_no_ack = False
        self.counts: Counter[str] = Counter()


speakers = st.integers(0, 2)
queues = st.sampled_from(QUEUES)


class FiguresAgainstCounts(RuleBasedStateMachine):
    """Three channels of two connections."""

    @initialize()
    def begin(self) -> None:
        self.core = Core()
        one, two = self.core.client(channels=2), self.core.client()
        one.declare("plain")
        one.declare("full", {"x-max-length": 2, "x-overflow": "reject-publish"})
        one.declare("short", {"x-max-length": 2})
        self.speakers = [Speaker(one, 1), Speaker(one, 2), Speaker(two, 1)]
        self.total: Counter[str] = Counter()
        self.by_queue: dict[str, Counter[str]] = {queue: Counter() for queue in QUEUES}

    # -- what clients say

    @rule(who=speakers, key=st.sampled_from(KEYS), mandatory=st.booleans(), count=st.integers(1, 3))
    def publish(self, who: int, key: str, mandatory: bool, count: int) -> None:
        speaker = self.speakers[who]
        for _ in range(count):
            if speaker.mode == "tx":
                speaker.publishes.append(key)
                # returned at the commit, and dropped there
                mandatory = False
            else:
                self._published(speaker, key, mandatory)
            if speaker.mode == "confirm":
                speaker.unconfirmed.add(speaker.next_no)
                speaker.next_no += 1
        speaker.client.read(published(key, b"m", mandatory=mandatory, channel=speaker.number) * count)
        self._listen()

    @rule(who=speakers, queue=queues, no_ack=st.booleans(), prefetch=st.integers(0, 3))
    def consume(self, who: int, queue: str, no_ack: bool, prefetch: int) -> None:
        speaker = self.speakers[who]
        tag = f"{'n' if no_ack else 'a'}{len(speaker.subscribed)}"
        speaker.subscribed[tag] = queue
        speaker.client.say(BasicQos(prefetch_count=prefetch), channel=speaker.number)
        speaker.client.consume(queue, tag, no_ack, channel=speaker.number)
        self._listen()

    @rule(who=speakers, place=st.integers(0, 5))
    def cancel(self, who: int, place: int) -> None:
        speaker = self.speakers[who]
        if speaker.subscribed:
            tag = sorted(speaker.subscribed)[place % len(speaker.subscribed)]
            speaker.client.say(BasicCancel(consumer_tag=tag), channel=speaker.number)
            self._listen()

    @rule(who=speakers, queue=queues, no_ack=st.booleans())
    def get(self, who: int, queue: str, no_ack: bool) -> None:
        speaker = self.speakers[who]
        speaker.asked, speaker.asked_no_ack = queue, no_ack
        speaker.client.say(BasicGet(queue=queue, no_ack=no_ack), channel=speaker.number)
        self._listen()

    @rule(who=speakers, place=st.integers(0, 9), multiple=st.booleans())
    def ack(self, who: int, place: int, multiple: bool) -> None:
        speaker = self.speakers[who]
        for tag in self._settled(speaker, place, multiple):
            queue = speaker.unacked.pop(tag)
            if speaker.mode == "tx":
                speaker.acks.append(tag)
                speaker.lifted[tag] = queue
            else:
                self._count(speaker, queue, "acked")
        self._say_settled(speaker, BasicAck(delivery_tag=self._last, multiple=multiple))

    @rule(who=speakers, place=st.integers(0, 9), multiple=st.booleans(), requeue=st.booleans())
    def refuse(self, who: int, place: int, multiple: bool, requeue: bool) -> None:
        speaker = self.speakers[who]
        for tag in self._settled(speaker, place, multiple):
            queue = speaker.unacked.pop(tag)
            if speaker.mode == "tx":
                speaker.lifted[tag] = queue
        self._say_settled(speaker, BasicNack(delivery_tag=self._last, multiple=multiple, requeue=requeue))

    @rule(who=speakers, mode=st.sampled_from(["tx", "confirm"]))
    def select(self, who: int, mode: str) -> None:
        speaker = self.speakers[who]
        if speaker.mode == "plain":
            speaker.mode = mode
            speaker.client.say(TxSelect() if mode == "tx" else ConfirmSelect(), channel=speaker.number)
            self._listen()

    @rule(who=speakers, commits=st.booleans())
    def end_transaction(self, who: int, commits: bool) -> None:
        speaker = self.speakers[who]
        if speaker.mode != "tx":
            return
        if commits:
            for key in speaker.publishes:
                self._published(speaker, key, False)
            for tag in speaker.acks:
                self._count(speaker, speaker.lifted[tag], "acked")
        else:
            self.total["received"] += len(speaker.publishes)
            speaker.unacked |= speaker.lifted
        speaker.publishes, speaker.acks, speaker.lifted = [], [], {}
        speaker.client.say(TxCommit() if commits else TxRollback(), channel=speaker.number)
        self._listen()
        if speaker.ended:
            # a queue refused a part of it
            self._open_again(speaker, ChannelCloseOk())

    @rule(who=speakers)
    def end_channel(self, who: int) -> None:
        self._open_again(self.speakers[who], CLOSE)

    def _open_again(self, speaker: Speaker, last_word: Method) -> None:
        speaker.begin()
        speaker.client.say(last_word, channel=speaker.number)
        speaker.client.say(ChannelOpen(), channel=speaker.number)
        self._listen()
        assert speaker.opened

    # -- what clients hear

    def _listen(self) -> None:
        for client in {id(speaker.client): speaker.client for speaker in self.speakers}.values():
            for one in client.heard():
                for speaker in self.speakers:
                    if speaker.client is client and speaker.number == one.channel:
                        self._hear(speaker, one)

    def _hear(self, speaker: Speaker, heard: Heard) -> None:
        method = heard.method
        if isinstance(method, BasicDeliver):
            queue = speaker.subscribed[method.consumer_tag]
            no_ack = method.consumer_tag.startswith("n")
            self._took(speaker, queue, "delivered_no_ack" if no_ack else "delivered", method.redelivered)
            if not no_ack:
                speaker.unacked[method.delivery_tag] = queue
        elif isinstance(method, BasicGetOk):
            self._took(speaker, speaker.asked, "got_no_ack" if speaker.asked_no_ack else "got", method.redelivered)
            if not speaker.asked_no_ack:
                speaker.unacked[method.delivery_tag] = speaker.asked
        elif isinstance(method, BasicGetEmpty):
            self._count(speaker, speaker.asked, "got_empty")
        elif isinstance(method, BasicReturn):
            speaker.counts["returned_unroutable"] += 1
            self.total["returned_unroutable"] += 1
        elif isinstance(method, BasicAck | BasicNack):
            self._told(speaker, method)
        elif isinstance(method, ChannelClose):
            speaker.ended = True
        elif isinstance(method, ChannelOpenOk):
            speaker.opened = True

    def _told(self, speaker: Speaker, method: BasicAck | BasicNack) -> None:
        last = method.delivery_tag
        told = {number for number in speaker.unconfirmed if number == last or (method.multiple and number < last)}
        speaker.unconfirmed -= told
        if isinstance(method, BasicAck):
            speaker.counts["confirmed"] += len(told)
            self.total["confirmed"] += len(told)

    # -- counting

    def _published(self, speaker: Speaker, key: str, mandatory: bool) -> None:
        for counter in (speaker.counts, self.total):
            counter["published"] += 1
            if key == "nowhere" and not mandatory:
                counter["dropped_unroutable"] += 1
        self.total["received"] += 1
        if key in self.by_queue:
            self.by_queue[key]["published"] += 1
            self.total["routed"] += 1

    def _took(self, speaker: Speaker, queue: str, how: str, redelivered: bool) -> None:
        self._count(speaker, queue, how)
        if redelivered:
            self._count(speaker, queue, "redelivered")

    def _count(self, speaker: Speaker, queue: str, what: str) -> None:
        speaker.counts[what] += 1
        self.by_queue[queue][what] += 1
        self.total[what] += 1

    def _settled(self, speaker: Speaker, place: int, multiple: bool) -> list[int]:
        """Tags that are answered by one method."""
        tags = sorted(speaker.unacked)
        self._last = tags[place % len(tags)] if tags else 0
        return [tag for tag in tags if tag == self._last or (multiple and tag < self._last)]

    def _say_settled(self, speaker: Speaker, method: BasicAck | BasicNack) -> None:
        if self._last:
            speaker.client.say(method, channel=speaker.number)
            self._listen()

    # -- comparing

    @invariant()
    def figures_agree(self) -> None:
        if not hasattr(self, "core"):
            return
        node, vhost = self.core.broker.figures, self.core.broker.vhosts["/"].figures
        names = [*TAKEN, "published", "confirmed", "returned_unroutable", "dropped_unroutable"]
        expected = {name: self.total[name] for name in names}
        assert {name: getattr(node, name) for name in names} == expected
        assert {name: getattr(vhost, name) for name in names} == expected
        assert (node.received, node.routed) == (self.total["received"], self.total["routed"])
        exchange = self.core.broker.vhosts["/"].topology.exchanges[""]
        assert (exchange.published_in, exchange.published_out) == (self.total["published"], self.total["routed"])
        for name, counts in self.by_queue.items():
            queue = self.core.broker.vhosts["/"].topology.queues[name]
            assert isinstance(queue, Queue)
            assert queue.figures.published == counts["published"]
            _agree(queue.figures, counts)
        for speaker in self.speakers:
            channel = self._channel(speaker)
            assert {name: getattr(channel.figures, name) for name in names} == {n: speaker.counts[n] for n in names}
            assert channel.confirms.unconfirmed() == len(speaker.unconfirmed)
            assert sum(channel.published_to().values()) == speaker.counts["published"]
            assert sum(int(taken.taken) for taken in channel.taken_from().values()) == channel.figures.taken

    def _channel(self, speaker: Speaker) -> Channel:
        return self.core.broker.connections[speaker.client.number].channels[speaker.number]


def _agree(figures: TakenFigures, counts: Counter[str]) -> None:
    assert {name: getattr(figures, name) for name in TAKEN} == {name: counts[name] for name in TAKEN}


TestFiguresAgainstCounts = FiguresAgainstCounts.TestCase
TestFiguresAgainstCounts.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
