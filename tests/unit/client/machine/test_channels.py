"""Channels of the client's machine: calls and answers, deliveries, returns, ends."""

import pytest
from librt.strings import BytesWriter

from tests.unit.client.machine.scripted import Scripted, content
from warren.client.machine.events import (
    PROTOCOL_ERROR,
    CallAnswered,
    Cancelled,
    ChannelClosedByBroker,
    ClientEvent,
    Closed,
    Confirmed,
    Delivered,
    FlowChanged,
    Returned,
)
from warren.client.machine.publishes import ConfirmRange, Message
from warren.wire.frames import BODY, HEADER, write_frame
from warren.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicQos,
    BasicQosOk,
    BasicRecover,
    BasicRecoverOk,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpen,
    QueueDeclare,
    QueueDeclareOk,
    QueuePurge,
    QueuePurgeOk,
    TxCommit,
    TxSelect,
    TxSelectOk,
    encode_method,
)
from warren.wire.properties import Properties


def delivery(tag: int, body: bytes = b"body", consumer: str = "c", channel: int = 1, key: str = "k") -> bytes:
    return encode_method(channel, BasicDeliver(consumer, tag, False, "x", key)) + content(body, channel=channel)


def ended(events: list[ClientEvent]) -> str:
    assert isinstance(events[-1], Closed), events
    assert events[-1].cause == PROTOCOL_ERROR
    return events[-1].text


def test_answers_come_to_the_calls_in_their_order() -> None:
    scripted = Scripted.opened()
    channel = scripted.channel()
    tickets = [channel.call(QueueDeclare("a")), channel.call(QueuePurge("a")), channel.call(QueueDeclare("b"))]
    events = scripted.say(QueueDeclareOk("a"), QueuePurgeOk(4), QueueDeclareOk("b"))
    assert [(event.ticket, event.method) for event in events if isinstance(event, CallAnswered)] == [
        (tickets[0], QueueDeclareOk("a")),
        (tickets[1], QueuePurgeOk(4)),
        (tickets[2], QueueDeclareOk("b")),
    ]


def test_an_answer_without_a_call_is_a_protocol_error() -> None:
    scripted = Scripted.opened()
    channel = scripted.channel()
    channel.call(QueuePurge("a"))
    assert ended(scripted.say(QueueDeclareOk("a"))) == "queue.declare-ok answers no call of channel 1"


def test_a_frame_of_a_channel_that_is_not_open_is_not_understood() -> None:
    assert "channel 5" in ended(Scripted.opened().say(QueueDeclareOk("a"), channel=5))


def test_a_call_that_cannot_be_written_leaves_nothing_behind() -> None:
    scripted = Scripted.opened()
    channel = scripted.channel()
    with pytest.raises(ValueError, match="255"):
        channel.call(QueueDeclare("n" * 256))
    assert scripted.octets() == b""
    ticket = channel.call(QueueDeclare("short"))
    assert scripted.methods() == [QueueDeclare("short")]
    [answer] = scripted.say(QueueDeclareOk("short"))
    assert isinstance(answer, CallAnswered)
    assert answer.ticket == ticket


def test_numbers_of_closed_channels_are_used_again() -> None:
    scripted = Scripted.opened()
    first, second = scripted.channel(), scripted.channel()
    assert (first.number, second.number) == (1, 2)
    first.close()
    assert scripted.methods() == [ChannelClose(200, "Goodbye")]
    scripted.say(ChannelCloseOk(), channel=1)
    third, _ = scripted.machine.open_channel()
    assert third.number == 1
    assert scripted.methods() == [ChannelOpen()]


def test_more_channels_than_agreed_are_refused() -> None:
    scripted = Scripted.opened()
    scripted.machine.channel_max = 2
    scripted.channel()
    scripted.channel()
    with pytest.raises(ValueError, match="all 2 channels"):
        scripted.machine.open_channel()


def test_deliveries_of_one_read_come_as_one_event_for_each_run_of_a_consumer() -> None:
    scripted = Scripted.opened()
    channel = scripted.channel()
    scripted.consumer(channel, "c")
    scripted.consumer(channel, "d")
    data = delivery(1) + delivery(2) + delivery(3, consumer="d") + delivery(4)
    events = scripted.send(data)
    assert [
        (event.consumer_tag, [each.delivery_tag for each in event.deliveries], event.body_bytes)
        for event in events
        if isinstance(event, Delivered)
    ] == [("c", [1, 2], 8), ("d", [3], 4), ("c", [4], 4)]


@pytest.mark.parametrize("piece", [1, 3, 7, 50, 10_000])
def test_a_delivery_is_the_same_however_it_is_cut(piece: int) -> None:
    scripted = Scripted.opened()
    scripted.consumer(scripted.channel())
    properties = Properties(message_id="m", headers={"h": 1}, delivery_mode=2)
    body = bytes(range(256)) * 10
    data = encode_method(1, BasicDeliver("c", 7, True, "ex", "a.key")) + content(body, properties, frame_max=1000)
    events: list[ClientEvent] = []
    for at in range(0, len(data), piece):
        events += scripted.send(data[at : at + piece])
    [delivered] = events
    assert isinstance(delivered, Delivered)
    [message] = delivered.deliveries
    assert (message.body, message.properties, message.headers) == (body, properties, {"h": 1})
    assert (message.delivery_tag, message.redelivered, message.messages_left) == (7, True, -1)
    assert (message.exchange, message.routing_key, message.consumer_tag) == ("ex", "a.key", "c")


def test_a_delivery_may_have_no_body() -> None:
    scripted = Scripted.opened()
    scripted.consumer(scripted.channel())
    [delivered] = scripted.send(delivery(1, b""))
    assert isinstance(delivered, Delivered)
    assert delivered.deliveries[0].body == b""


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (delivery(1, consumer="stranger"), "a consumer that does not exist"),
        (encode_method(1, BasicDeliver("c", 1)) * 2, "in the midst of content"),
        (content(b"x"), "content that no method announced"),
        (delivery(1)[:11] + b"\xff" + delivery(1)[12:], "cannot decode"),
    ],
)
def test_deliveries_that_make_no_sense_end_the_connection(data: bytes, said: str) -> None:
    scripted = Scripted.opened()
    scripted.consumer(scripted.channel())
    text = ended(scripted.send(data))
    assert said in text


def frames(*pieces: tuple[int, bytes]) -> bytes:
    out = BytesWriter()
    for kind, payload in pieces:
        write_frame(out, kind, 1, payload)
    return out.getvalue()


HEADER_OF_FOUR = content(b"four")[7:21]


@pytest.mark.parametrize(
    "pieces",
    [
        [(BODY, b"four")],
        [(HEADER, b"short")],
        [(HEADER, HEADER_OF_FOUR), (HEADER, HEADER_OF_FOUR)],
        [(HEADER, HEADER_OF_FOUR), (BODY, b"more than four")],
        [(HEADER, HEADER_OF_FOUR[:4] + b"\xff" * 8 + HEADER_OF_FOUR[12:])],
        [(HEADER, HEADER_OF_FOUR), (7, b"four")],
    ],
)
def test_content_that_differs_from_its_announcement_ends_the_connection(pieces: list[tuple[int, bytes]]) -> None:
    scripted = Scripted.opened()
    scripted.consumer(scripted.channel())
    ended(scripted.send(encode_method(1, BasicDeliver("c", 1)) + frames(*pieces)))


def test_a_message_that_is_fetched_comes_with_its_answer() -> None:
    scripted = Scripted.opened()
    channel = scripted.channel()
    tickets = [channel.call(BasicGet("q")), channel.call(BasicGet("q", no_ack=True)), channel.call(BasicGet("q"))]
    data = encode_method(1, BasicGetOk(1, False, "x", "k", 5)) + content(b"first")
    data += encode_method(1, BasicGetOk(2, True, "", "q", 0)) + content(b"")
    events = scripted.send(data + encode_method(1, BasicGetEmpty()))
    assert [event.ticket for event in events if isinstance(event, CallAnswered)] == tickets
    got = [event.delivery for event in events if isinstance(event, CallAnswered)]
    assert got[0] is not None
    assert got[1] is not None
    assert (got[0].body, got[0].exchange, got[0].routing_key, got[0].messages_left) == (b"first", "x", "k", 5)
    assert (got[1].body, got[1].routing_key, got[1].redelivered) == (b"", "q", True)
    assert got[2] is None
    # the second needs no ack
    with pytest.raises(ValueError, match="settled before"):
        channel.ack(2)
    channel.ack(1)


def test_a_broker_that_closes_a_channel_is_answered_and_the_others_go_on() -> None:
    scripted = Scripted.opened()
    first, second = scripted.channel(), scripted.channel()
    first.call(QueueDeclare("a"))
    scripted.heard()
    [event] = scripted.say(ChannelClose(404, "NOT_FOUND - no queue", 50, 10), channel=1)
    assert isinstance(event, ChannelClosedByBroker)
    assert (event.channel, event.code, event.text) == (1, 404, "NOT_FOUND - no queue")
    assert event.method_name == "queue.declare"
    assert scripted.methods() == [ChannelCloseOk()]
    with pytest.raises(ValueError, match="closed"):
        first.publish(Message(b"x"), "", "q")
    second.call(BasicQos(prefetch_count=1))
    [answer] = scripted.say(BasicQosOk(), channel=2)
    assert isinstance(answer, CallAnswered)


def test_both_sides_may_close_a_channel_at_once() -> None:
    scripted = Scripted.opened()
    channel = scripted.channel()
    ticket = channel.close()
    scripted.heard()
    assert scripted.say(ChannelClose(406, "PRECONDITION_FAILED")) == []
    assert scripted.methods() == [ChannelCloseOk()]
    [answer] = scripted.say(ChannelCloseOk())
    assert isinstance(answer, CallAnswered)
    assert answer.ticket == ticket
    assert scripted.channel().number == 1


def test_a_delivery_to_a_closing_channel_is_dropped() -> None:
    scripted = Scripted.opened()
    channel = scripted.channel()
    scripted.consumer(channel)
    channel.close()
    assert scripted.send(delivery(1) + delivery(2, b"")) == []
    [answer] = scripted.say(ChannelCloseOk())
    assert isinstance(answer, CallAnswered)


def test_confirms_are_reported_before_the_end_of_their_channel() -> None:
    scripted = Scripted.opened()
    channel = scripted.channel(confirms=True)
    for _ in range(3):
        channel.publish(Message(b"x"), "", "q")
    events = scripted.say(BasicAck(1), BasicNack(2), ChannelClose(404, "NOT_FOUND"))
    assert isinstance(events[0], Confirmed)
    assert events[0].ranges == [ConfirmRange(1, 1, True), ConfirmRange(2, 2, False)]
    assert isinstance(events[1], ChannelClosedByBroker)


@pytest.mark.parametrize("confirm", [BasicAck(4), BasicAck(0), BasicNack(4, True), BasicAck(-1)])
def test_a_confirm_of_an_unsent_publish_is_a_fault(confirm: BasicAck) -> None:
    scripted = Scripted.opened()
    channel = scripted.channel(confirms=True)
    channel.publish(Message(b"x"), "", "q")
    assert "was confirmed and never sent" in ended(scripted.say(confirm))


def test_an_unexpected_confirm_is_a_protocol_error() -> None:
    scripted = Scripted.opened()
    scripted.channel()
    assert "asked for none" in ended(scripted.say(BasicAck(1)))


def test_a_returned_message_is_reported_with_its_number() -> None:
    scripted = Scripted.opened()
    channel = scripted.channel(confirms=True)
    properties = Properties(message_id="m")
    channel.publish(Message(b"same"), "x", "k", mandatory=True)
    channel.publish(Message(b"same", properties), "x", "k", mandatory=True)
    channel.publish(Message(b"same"), "x", "other", mandatory=True)
    channel.publish(Message(b"same"), "x", "k", mandatory=True)
    numbers = []
    for key, wanted in (("k", properties), ("k", None), ("other", None), ("k", None), ("k", None)):
        back = encode_method(1, BasicReturn(312, "NO_ROUTE", "x", key)) + content(b"same", wanted)
        [event] = scripted.send(back)
        assert isinstance(event, Returned)
        assert (event.message.code, event.message.text, event.message.body) == (312, "NO_ROUTE", b"same")
        numbers.append(event.message.publish_no)
    assert numbers == [2, 1, 3, 4, 0]


def test_a_confirmed_publish_is_not_matched_with_a_return() -> None:
    scripted = Scripted.opened()
    channel = scripted.channel(confirms=True)
    channel.publish(Message(b"same"), "x", "k", mandatory=True)
    channel.publish(Message(b"same"), "x", "k", mandatory=True)
    scripted.say(BasicAck(1))
    [event] = scripted.send(encode_method(1, BasicReturn(312, "NO_ROUTE", "x", "k")) + content(b"same"))
    assert isinstance(event, Returned)
    assert event.message.publish_no == 2
    assert len(channel.mandatory) == 0


def test_a_consumer_that_the_broker_cancels_is_answered_unless_it_wants_none() -> None:
    scripted = Scripted.opened()
    channel = scripted.channel()
    scripted.consumer(channel, "c")
    scripted.consumer(channel, "d")
    events = scripted.say(BasicCancel("c", nowait=True), BasicCancel("d"))
    assert [event.consumer_tag for event in events if isinstance(event, Cancelled)] == ["c", "d"]
    assert scripted.methods() == [BasicCancelOk("d")]
    assert "does not exist" in ended(scripted.send(delivery(1)))


def test_flow_is_answered_and_reported() -> None:
    scripted = Scripted.opened()
    scripted.channel()
    events = scripted.say(ChannelFlow(False), ChannelFlow(True))
    assert [event.active for event in events if isinstance(event, FlowChanged)] == [False, True]
    assert scripted.methods() == [ChannelFlowOk(False), ChannelFlowOk(True)]


def test_acks_go_before_the_calls_that_follow_them() -> None:
    scripted = Scripted.opened()
    channel = scripted.channel()
    scripted.consumer(channel)
    scripted.send(delivery(1) + delivery(2) + delivery(3))
    channel.ack(1)
    channel.ack(2)
    channel.close()
    assert scripted.methods() == [BasicAck(2, True), ChannelClose(200, "Goodbye")]


def test_after_a_recover_the_old_deliveries_are_settled() -> None:
    scripted = Scripted.opened()
    channel = scripted.channel()
    scripted.consumer(channel)
    scripted.send(delivery(1) + delivery(2))
    channel.call(BasicRecover(True))
    scripted.say(BasicRecoverOk())
    with pytest.raises(ValueError, match="settled before"):
        channel.ack(2)
    scripted.send(delivery(3))
    channel.ack(3)
    assert scripted.methods() == [BasicRecover(True), BasicAck(3)]


def test_in_a_transaction_acks_go_out_as_they_are_said() -> None:
    scripted = Scripted.opened()
    channel = scripted.channel()
    channel.call(TxSelect())
    scripted.say(TxSelectOk())
    scripted.consumer(channel)
    scripted.send(delivery(1) + delivery(2) + delivery(3))
    channel.ack(1)
    channel.ack(1)  # again, because a rollback may have come between
    channel.nack(3, multiple=True, requeue=False)
    channel.call(TxCommit())
    assert scripted.methods() == [BasicAck(1), BasicAck(1), BasicNack(3, True, False), TxCommit()]
