"""A client's machine and a node's session, coupled in memory: both understand all methods of each other.

The model is the client's own record: confirmed publishes are in their queue or were returned, acked deliveries never
come again, and unacked messages are still there at the end.
"""

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.core_driver import Core
from tests.support.coupled import Coupled, Cut
from tests.unit.client.machine.scripted import Scripted, content
from warren.client.machine.events import (
    CallAnswered,
    ChannelClosedByBroker,
    ClientEvent,
    Closed,
    Confirmed,
    Delivered,
    HandshakeCompleted,
    Returned,
)
from warren.client.machine.publishes import Message
from warren.client.machine.settings import ClientSettings
from warren.wire.frames import HEARTBEAT_FRAME
from warren.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicDeliver,
    BasicGet,
    BasicGetOk,
    BasicNack,
    BasicQos,
    BasicRecover,
    BasicReturn,
    ChannelClose,
    ConfirmSelect,
    ConnectionBlocked,
    Method,
    QueueDeclare,
    QueueDeclareOk,
    encode_method,
)
from warren.wire.properties import Properties

QUEUES = ("a", "b")
KEYS = (*QUEUES, "nowhere")


def cutter(seed: int) -> Cut:
    """Cuts bytes at random places, the same for the same seed."""
    dice = random.Random(seed)

    def cut(data: bytes) -> list[bytes]:
        pieces = []
        while data:
            size = dice.choice([1, 5, 30, 200, 4000, 100_000])
            pieces.append(data[:size])
            data = data[size:]
        return pieces

    return cut


class Conversation:
    """A client with random actions that records every answer."""

    def __init__(self, seed: int, frame_max: int) -> None:
        self.dice = random.Random(seed)
        self.core = Core()
        self.coupled = Coupled(self.core, ClientSettings(frame_max=frame_max), cutter(seed))
        assert isinstance(self.coupled.events[0], HandshakeCompleted)
        self.publisher = self.coupled.channel()
        self.consumer = self.coupled.channel()
        for queue in QUEUES:
            self.coupled.call(self.consumer, QueueDeclare(queue))
        self.coupled.call(self.publisher, ConfirmSelect())
        self.coupled.call(self.consumer, BasicQos(prefetch_count=self.dice.randrange(1, 20)))
        for queue in QUEUES:
            self.coupled.call(self.consumer, BasicConsume(queue, f"from {queue}"))
        self.sent: dict[int, tuple[str, bytes]] = {}
        self.decided: dict[int, bool] = {}
        self.returned: set[int] = set()
        self.in_hand: dict[int, bytes] = {}
        self.acked: list[bytes] = []
        self.learn(self.coupled.events)

    def learn(self, events: list[ClientEvent]) -> None:
        for event in events:
            assert not isinstance(event, Closed | ChannelClosedByBroker), vars(event)
            if isinstance(event, Confirmed):
                for each in event.ranges:
                    for number in range(each.first, each.last + 1):
                        assert number not in self.decided
                        self.decided[number] = each.acked
            elif isinstance(event, Returned):
                number = event.message.publish_no
                assert self.sent[number] == (event.message.routing_key, event.message.body)
                assert number not in self.decided, "a return comes before its confirm"
                self.returned.add(number)
            elif isinstance(event, Delivered):
                for delivery in event.deliveries:
                    assert event.consumer_tag == f"from {delivery.routing_key}"
                    assert delivery.properties.message_id == str(len(delivery.body))
                    self.in_hand[int(delivery.delivery_tag)] = delivery.body
            elif isinstance(event, CallAnswered) and event.delivery is not None:
                self.in_hand[int(event.delivery.delivery_tag)] = event.delivery.body

    def step(self) -> None:
        self.dice.choice([self.publish, self.publish, self.ack, self.ack, self.nack, self.get, self.recover])()
        self.learn(self.coupled.run())

    def publish(self) -> None:
        for _ in range(self.dice.randrange(1, 10)):
            key = self.dice.choice(KEYS)
            size = self.dice.choice([0, 1, 100, 5000, 20_000])
            body = self.dice.randbytes(size)
            message = Message(body, Properties(message_id=str(size)))
            number = self.publisher.publish(message, "", key, mandatory=True)
            assert number == len(self.sent) + 1
            self.sent[number] = (key, body)

    def ack(self) -> None:
        for _ in range(self.dice.randrange(1, 6)):
            if not self.in_hand:
                return
            tag = self.dice.choice(list(self.in_hand))
            multiple = self.dice.random() < 0.2
            self.consumer.ack(tag, multiple)
            for settled in [each for each in self.in_hand if each == tag or (multiple and each < tag)]:
                self.acked.append(self.in_hand.pop(settled))

    def nack(self) -> None:
        if self.in_hand:
            tag = self.dice.choice(list(self.in_hand))
            self.consumer.nack(tag, requeue=True)
            del self.in_hand[tag]

    def get(self) -> None:
        self.consumer.call(BasicGet(self.dice.choice(QUEUES)))

    def recover(self) -> None:
        if self.dice.random() < 0.2:
            self.consumer.call(BasicRecover(True))
            self.in_hand.clear()

    def finish(self) -> None:
        """Everything that was sent is decided, and was delivered and acked once, or came back."""
        for _ in range(1000):
            self.ack()
            self.learn(self.coupled.run())
            if not self.in_hand:
                break
        assert self.decided == dict.fromkeys(self.sent, True)
        assert self.returned == {number for number, (key, _) in self.sent.items() if key == "nowhere"}
        wanted = Counter(body for key, body in self.sent.values() if key != "nowhere")
        assert Counter(self.acked) == wanted
        for queue in QUEUES:
            answer = self.coupled.call(self.consumer, QueueDeclare(queue, passive=True))
            assert isinstance(answer.method, QueueDeclareOk)
            assert answer.method.message_count == 0


@settings(max_examples=25)
@given(st.integers(0, 2**32), st.sampled_from([4096, 131_072]))
def test_a_client_and_a_node_understand_each_other(seed: int, frame_max: int) -> None:
    conversation = Conversation(seed, frame_max)
    for _ in range(25):
        conversation.step()
    conversation.finish()


@pytest.mark.parametrize(
    "method",
    [QueueDeclare("missing", passive=True), BasicGet("missing"), BasicConsume("missing"), QueueDeclare("amq.reserved")],
)
def test_a_refused_method_closes_the_channel_and_another_goes_on(method: Method) -> None:
    coupled = Coupled(Core())
    channel, other = coupled.channel(), coupled.channel()
    channel.call(method)
    [closed] = coupled.run()
    assert isinstance(closed, ChannelClosedByBroker)
    assert (closed.channel, closed.code in (403, 404)) == (channel.number, True)
    assert coupled.call(other, QueueDeclare("q")).method == QueueDeclareOk("q")
    assert coupled.channel().number == channel.number


@settings(max_examples=150)
@given(st.integers(0, 2**32), st.data())
def test_any_bytes_of_a_broker_raise_nothing_and_the_end_is_reported_once(seed: int, data: st.DataObject) -> None:
    scripted = Scripted.opened()
    channel = scripted.channel(confirms=True)
    scripted.consumer(channel)
    channel.publish_many([b"x"] * 5, 0, "", "q", None, True, 1 << 20)
    channel.call(BasicGet("q"))
    channel.call(QueueDeclare("q"))
    stream = bytearray(broker_stream())
    dice = random.Random(seed)
    for _ in range(data.draw(st.integers(1, 8))):
        place = dice.randrange(len(stream))
        if dice.random() < 0.3:
            del stream[place : place + dice.randrange(1, 20)]
        else:
            stream[place] = dice.choice([0, 1, 2, 3, 60, 0xCE, 0xFF, dice.randrange(256)])
    events: list[ClientEvent] = []
    for piece in cutter(seed)(bytes(stream)):
        events += scripted.send(piece)
    events += scripted.machine.lose("gone")
    assert [type(event) for event in events].count(Closed) == 1
    assert isinstance(events[-1], Closed)
    scripted.octets()


def broker_stream() -> bytes:
    """A sample of all methods that a broker may send to the client above."""
    return b"".join(
        [
            encode_method(1, BasicDeliver("c", 1, False, "x", "key")) + content(b"a body", Properties(message_id="m")),
            encode_method(1, BasicAck(2, True)),
            encode_method(1, BasicReturn(312, "NO_ROUTE", "", "q")) + content(b"x"),
            encode_method(1, BasicNack(4)),
            encode_method(1, BasicGetOk(2, True, "", "q", 3)) + content(b"y" * 300, Properties(headers={"h": "v"})),
            HEARTBEAT_FRAME,
            encode_method(1, QueueDeclareOk("q", 1, 2)),
            encode_method(0, ConnectionBlocked("memory")),
            encode_method(1, BasicDeliver("c", 3, False, "x", "key")) + content(b"z" * 900, frame_max=300),
            encode_method(1, BasicCancel("c")),
            encode_method(1, ChannelClose(404, "NOT_FOUND", 50, 10)),
        ]
    )
