"""A message is a slice of wire bytes, from which properties, headers and body can be read."""

from warren.broker.model.message import Envelope, Message
from warren.wire.frames import content_frames
from warren.wire.properties import Properties, encode_header_payload


def message_of(body: bytes, properties: Properties, frame_max: int = 131_072) -> Message:
    content = content_frames(encode_header_payload(properties, len(body)), body, 3, frame_max)
    return Message(Envelope("e", "k"), content, 3, len(body), frame_max)


def test_a_body_in_many_frames_is_read_as_one() -> None:
    body = bytes(range(256)) * 50
    assert message_of(body, Properties(), 4096).body() == body


def test_an_empty_body_is_read_as_nothing() -> None:
    assert message_of(b"", Properties()).body() == b""


def test_the_properties_and_headers_are_those_that_were_published() -> None:
    properties = Properties(content_type="text/plain", headers={"a": 1, "b": "two"})
    message = message_of(b"body", properties)
    assert message.properties() == properties
    assert message.headers() == {"a": 1, "b": "two"}
    assert message.header_payload() == encode_header_payload(properties, 4)


def test_a_message_without_headers_has_an_empty_table() -> None:
    assert message_of(b"", Properties()).headers() == {}


def test_an_envelope_keeps_the_bytes_that_end_a_delivery() -> None:
    envelope = Envelope("exchange", "kéy")
    assert envelope.tail == b"\x08exchange\x04k\xc3\xa9y"
    assert envelope.tail_and_end == envelope.tail + b"\xce"


def test_octets_that_are_no_text_survive_in_an_envelope() -> None:
    key = b"\xff\xfe".decode("utf-8", "surrogateescape")
    assert Envelope("", key).tail == b"\x00\x02\xff\xfe"
