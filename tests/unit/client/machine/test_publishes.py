"""Publishes as the client writes them: every frame in its place, many at once, none without room."""

import pytest

from tests.unit.client.machine.scripted import Scripted
from warren.client.machine.publishes import Message
from warren.client.machine.settings import ClientSettings
from warren.wire.frames import FrameReader
from warren.wire.methods import BasicAck, BasicPublish
from warren.wire.properties import Properties, decode_properties
from warren.wire.values import ArgumentReader


def test_a_message_is_a_method_a_header_and_its_body() -> None:
    scripted = Scripted.opened()
    channel = scripted.channel()
    properties = Properties(content_type="text/plain", headers={"a": [1, None]}, priority=3)
    assert channel.publish(Message(b"body", properties), "x", "k", mandatory=True) == 0
    data = scripted.octets()
    reader = FrameReader(131_072)
    reader.feed(data)
    assert reader.next()
    assert reader.take_content()
    assert reader.position == len(data)
    assert decode_properties(data, reader.header_start, reader.header_end) == properties
    assert data[reader.position - 5 : reader.position - 1] == b"body"


@pytest.mark.parametrize("size", [0, 1, 4087, 4088, 4089, 8176, 8177, 100_000])
def test_a_body_is_cut_where_frames_end(size: int) -> None:
    scripted = Scripted.opened(settings=ClientSettings(frame_max=4096))
    channel = scripted.channel()
    body = bytes(number % 251 for number in range(size))
    channel.publish(Message(body), "", "q")
    data = scripted.octets()
    reader = FrameReader(4096 - 8)
    reader.feed(data)
    pieces = []
    while reader.next():
        pieces.append((reader.frame_type, reader.payload()))
    assert [kind for kind, _ in pieces[:2]] == [1, 2]
    assert int.from_bytes(pieces[1][1][4:12], "big") == size
    assert b"".join(payload for _, payload in pieces[2:]) == body
    assert all(len(payload) == 4088 for _, payload in pieces[2:-1])


def test_many_are_written_at_once_each_with_its_own_key_and_properties_or_those_of_the_call() -> None:
    scripted = Scripted.opened()
    channel = scripted.channel()
    own = Properties(message_id="own")
    messages = [b"bare", Message(b"plain"), Message(b"own", own), Message(b"keyed", routing_key="other")]
    assert channel.publish_many(messages, 0, "x", "k", Properties(app_id="a"), False, 1 << 20) == 4
    reader = FrameReader(131_072)
    reader.feed(scripted.octets())
    seen = []
    while reader.next():
        method = BasicPublish.read(_arguments(reader))
        assert reader.take_content()
        properties = decode_properties(reader.data, reader.header_start, reader.header_end)
        seen.append((method.exchange, method.routing_key, properties.app_id, properties.message_id))
    assert seen == [("x", "k", "a", None), ("x", "k", "a", None), ("x", "k", None, "own"), ("x", "other", "a", None)]


def test_messages_that_share_their_properties_have_them_each() -> None:
    scripted = Scripted.opened()
    channel = scripted.channel()
    one, other = Properties(message_id="one"), Properties(message_id="other")
    given = [one, one, other, None, one, None, other, other]
    messages = [Message(b"x", properties) for properties in given]
    assert channel.publish_many(messages, 0, "", "q", Properties(message_id="call"), False, 1 << 20) == len(given)
    one.message_id = "changed"
    channel.publish_many([Message(b"x", one)], 0, "", "q", None, False, 1 << 20)
    reader = FrameReader(131_072)
    reader.feed(scripted.octets())
    seen = []
    while reader.next():
        assert reader.take_content()
        seen.append(decode_properties(reader.data, reader.header_start, reader.header_end).message_id)
    assert seen == ["one", "one", "other", "call", "one", "call", "other", "other", "changed"]


def test_a_window_has_room_for_so_many_undecided_publishes() -> None:
    scripted = Scripted.opened()
    channel = scripted.channel(confirms=True)
    channel.window = 3
    assert channel.publish_many([b"x"] * 5, 0, "", "q", None, False, 1 << 20) == 3
    assert channel.room() == 0
    assert channel.publish_many([b"x"] * 5, 3, "", "q", None, False, 1 << 20) == 3
    scripted.say(BasicAck(2, True))
    assert channel.publish_many([b"x"] * 5, 3, "", "q", None, False, 1 << 20) == 5
    assert channel.confirms.last_no == 5


def test_a_bulk_stops_when_it_has_written_enough() -> None:
    channel = Scripted.opened().channel()
    at = channel.publish_many([b"x" * 1000] * 50, 0, "", "q", None, False, 5000)
    assert 4 <= at <= 6
    assert channel.publish_many([b"x" * 1000] * 50, at, "", "q", None, False, 1 << 20) == 50


@pytest.mark.parametrize(
    "message",
    [
        Message(b"x", routing_key="k" * 256),
        Message(b"x", Properties(message_id="m" * 256)),
        Message(b"x", Properties(headers={"h": object()})),
        Message(b"x", Properties(headers={"h": "v" * 200_000})),
        Message(b"x", Properties(priority=300)),
    ],
)
def test_a_message_that_cannot_be_encoded_is_refused_and_writes_nothing(message: Message) -> None:
    scripted = Scripted.opened()
    channel = scripted.channel(confirms=True)
    with pytest.raises(ValueError):
        channel.publish(message, "", "q")
    assert scripted.octets() == b""
    assert channel.publish(Message(b"next"), "", "q") == 1


def test_more_keys_than_are_remembered_are_all_written_right() -> None:
    scripted = Scripted.opened()
    channel = scripted.channel()
    keys = [f"key.{number}" for number in range(10_000)] * 2
    channel.publish_many([Message(b"", routing_key=key) for key in keys], 0, "x", "", None, False, 1 << 30)
    reader = FrameReader(131_072)
    reader.feed(scripted.octets())
    seen = []
    while reader.next():
        seen.append(BasicPublish.read(_arguments(reader)).routing_key)
        assert reader.take_content()
    assert seen == keys


def _arguments(reader: FrameReader) -> ArgumentReader:
    return ArgumentReader(reader.data, reader.start + 4, reader.end)
