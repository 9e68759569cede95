"""The stats of a node against plain counts of what its clients sent and received, over random conversations."""

from collections import Counter
from random import Random

import hypothesis.strategies as st
from hypothesis import given, settings

from tests.support.core_driver import Client, Core, published
from warren.broker.model.stats import DeliveryStats
from warren.broker.queues.queue import Queue
from warren.broker.sessions.connection import Channel
from warren.wire.method_stream import ReceivedMethod
from warren.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
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


class Conversation:
    """Three channels of two connections, and counts of what they sent and received."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.core = Core()
        one, two = self.core.client(channels=2), self.core.client()
        one.declare("plain")
        one.declare("full", {"x-max-length": 2, "x-overflow": "reject-publish"})
        one.declare("short", {"x-max-length": 2})
        self.speakers = [Speaker(one, 1), Speaker(one, 2), Speaker(two, 1)]
        self.total: Counter[str] = Counter()
        self.by_queue: dict[str, Counter[str]] = {queue: Counter() for queue in QUEUES}

    # -- what clients say

    def go_on(self) -> None:
        """One of the things clients do, the more usual ones more often."""
        deeds = [self._publish] * 6 + [self._settle] * 6 + [self._get] * 2 + [self._end_transaction] * 2
        self._random.choice([*deeds, self._consume, self._cancel, self._select, self._end_channel])()

    def _publish(self) -> None:
        speaker, key = self._random.choice(self.speakers), self._random.choice(KEYS)
        # in a transaction it would be returned at the commit
        mandatory = speaker.mode != "tx" and self._chance()
        count = self._random.randint(1, 4)
        for _ in range(count):
            if speaker.mode == "tx":
                speaker.publishes.append(key)
            else:
                self._published(speaker, key, mandatory)
            if speaker.mode == "confirm":
                speaker.unconfirmed.add(speaker.next_no)
                speaker.next_no += 1
        speaker.client.read(published(key, b"m", mandatory=mandatory, channel=speaker.number) * count)
        self._listen()

    def _consume(self) -> None:
        speaker, queue, no_ack = self._random.choice(self.speakers), self._random.choice(QUEUES), self._chance()
        tag = f"{'n' if no_ack else 'a'}{len(speaker.subscribed)}"
        speaker.subscribed[tag] = queue
        self._say(speaker, BasicQos(prefetch_count=self._random.randint(0, 3)))
        self._say(speaker, BasicConsume(queue=queue, consumer_tag=tag, no_ack=no_ack))

    def _cancel(self) -> None:
        speaker = self._random.choice(self.speakers)
        if speaker.subscribed:
            self._say(speaker, BasicCancel(consumer_tag=self._random.choice(sorted(speaker.subscribed))))

    def _get(self) -> None:
        speaker = self._random.choice(self.speakers)
        speaker.asked, speaker.asked_no_ack = self._random.choice(QUEUES), self._chance()
        self._say(speaker, BasicGet(queue=speaker.asked, no_ack=speaker.asked_no_ack))

    def _settle(self) -> None:
        holders = [speaker for speaker in self.speakers if speaker.unacked]
        if not holders:
            return
        speaker, multiple = self._random.choice(holders), self._chance()
        last = self._random.choice(sorted(speaker.unacked))
        tags = [tag for tag in sorted(speaker.unacked) if tag == last or (multiple and tag < last)]
        settled = {tag: speaker.unacked.pop(tag) for tag in tags}
        if speaker.mode == "tx":
            speaker.lifted |= settled
        if self._chance():
            self._say(speaker, BasicNack(delivery_tag=last, multiple=multiple, requeue=self._chance()))
            return
        if speaker.mode == "tx":
            speaker.acks += tags
        else:
            for queue in settled.values():
                self._count(speaker, queue, "acked")
        self._say(speaker, BasicAck(delivery_tag=last, multiple=multiple))

    def _select(self) -> None:
        speaker = self._random.choice(self.speakers)
        if speaker.mode == "plain":
            speaker.mode = self._random.choice(["tx", "confirm"])
            self._say(speaker, TxSelect() if speaker.mode == "tx" else ConfirmSelect())

    def _end_transaction(self) -> None:
        transactional = [speaker for speaker in self.speakers if speaker.mode == "tx"]
        if not transactional:
            return
        speaker, commits = self._random.choice(transactional), self._chance()
        if commits:
            for key in speaker.publishes:
                self._published(speaker, key, False)
            for tag in speaker.acks:
                self._count(speaker, speaker.lifted[tag], "acked")
        else:
            self.total["received"] += len(speaker.publishes)
            speaker.unacked |= speaker.lifted
        speaker.publishes, speaker.acks, speaker.lifted = [], [], {}
        self._say(speaker, TxCommit() if commits else TxRollback())
        if speaker.ended:
            # a queue refused a part of it
            self._open_again(speaker, ChannelCloseOk())

    def _end_channel(self) -> None:
        self._open_again(self._random.choice(self.speakers), CLOSE)

    def _open_again(self, speaker: Speaker, last_word: Method) -> None:
        self.total["received"] += len(speaker.publishes)
        speaker.begin()
        self._say(speaker, last_word)
        self._say(speaker, ChannelOpen())
        assert speaker.opened

    def _say(self, speaker: Speaker, method: Method) -> None:
        speaker.client.say(method, channel=speaker.number)
        self._listen()

    def _chance(self) -> bool:
        return self._random.random() < 0.5

    # -- what clients hear

    def _listen(self) -> None:
        for client in {id(speaker.client): speaker.client for speaker in self.speakers}.values():
            for one in client.heard():
                for speaker in self.speakers:
                    if speaker.client is client and speaker.number == one.channel:
                        self._hear(speaker, one)

    def _hear(self, speaker: Speaker, heard: ReceivedMethod) -> None:
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

    # -- comparing

    def compare(self) -> None:
        node, vhost = self.core.broker.stats, self.core.broker.vhosts["/"].stats
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
            assert queue.stats.published == counts["published"]
            _agree(queue.stats, counts)
        for speaker in self.speakers:
            channel = self._channel(speaker)
            assert {name: getattr(channel.stats, name) for name in names} == {n: speaker.counts[n] for n in names}
            assert channel.confirms.unconfirmed() == len(speaker.unconfirmed)
            assert sum(channel.published_to().values()) == speaker.counts["published"]
            assert sum(int(taken.taken) for taken in channel.taken_from().values()) == channel.stats.taken

    def _channel(self, speaker: Speaker) -> Channel:
        return self.core.broker.connections[speaker.client.number].channels[speaker.number]


def _agree(stats: DeliveryStats, counts: Counter[str]) -> None:
    assert {name: getattr(stats, name) for name in TAKEN} == {name: counts[name] for name in TAKEN}


@given(seed=st.integers(0, 2**64))
@settings(max_examples=100, deadline=None)
def test_figures_are_what_clients_said_and_heard(seed: int) -> None:
    conversation = Conversation(Random(seed))
    for _ in range(120):
        conversation.go_on()
        conversation.compare()
