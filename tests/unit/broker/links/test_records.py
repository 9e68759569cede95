"""Records are read back as they were written, however the bytes are cut; and no bytes do more harm than a fault."""

from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from tests.support.core_driver import content
from tests.unit.broker.links.linked import Together
from warren.broker.links import records
from warren.broker.links.records import ENVELOPES_MAX, EnvelopeTable, EnvelopeWriter, RecordReader
from warren.broker.model.events import PeerReceived
from warren.broker.model.message import NO_EXPIRATION, Envelope, Message
from warren.errors import PeerFault
from warren.wire.values import ArgumentReader

ENVELOPE = Envelope("exchange", "key")
MESSAGES = st.builds(
    lambda body, channel, persistent, priority, expiration_ms: Message(
        ENVELOPE, content(body, channel=channel), channel, len(body), 131_064, persistent, priority, expiration_ms
    ),
    st.binary(max_size=100),
    st.integers(1, 65535),
    st.booleans(),
    st.integers(0, 255),
    st.one_of(st.just(int(NO_EXPIRATION)), st.integers(0, 2**40)),
)
CUTS = st.lists(st.integers(0, 4000), max_size=20)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    return [data[start:end] for start, end in pairwise(places)]


@given(st.lists(st.tuples(MESSAGES, st.integers(0, 2**31 - 1)), max_size=8), CUTS)
def test_messages_come_back_as_they_were(messages: list[tuple[Message, int]], cuts: list[int]) -> None:
    out = BytesWriter()
    for message, number in messages:
        records.write_message(out, records.PUBLISH, 0, 7, number, message)
    reader = RecordReader()
    found: list[tuple[Message, int]] = []
    for piece in pieces(out.getvalue(), cuts):
        reader.feed(piece)
        while reader.next():
            assert (reader.kind, reader.envelope_no) == (records.PUBLISH, 7)
            found.append((reader.message(ENVELOPE), int(reader.number)))
    assert [facts(message, number) for message, number in found] == [facts(*one) for one in messages]


def facts(message: Message, number: int) -> tuple[object, ...]:
    return (
        number,
        message.content,
        int(message.channel),
        int(message.body_bytes),
        int(message.frame_bytes_max),
        message.persistent,
        int(message.priority),
        int(message.expiration_ms),
    )


@given(MESSAGES, st.integers(0, 400), st.integers(0, 255))
def test_a_message_with_a_wrong_octet_is_a_message_or_a_fault(message: Message, place: int, octet: int) -> None:
    out = BytesWriter()
    records.write_message(out, records.PUBLISH, 0, 0, 1, message)
    data = bytearray(out.getvalue())
    data[place % len(data)] = octet
    reader = RecordReader()
    with suppress(PeerFault):
        reader.feed(bytes(data))
        while reader.next():
            found = reader.message(ENVELOPE)
            assert len(found.body()) == found.body_bytes


def test_a_size_no_record_has_is_refused_before_its_bytes_are_there() -> None:
    reader = RecordReader()
    reader.feed((records.RECORD_BYTES_MAX + 1 << 32).to_bytes(8, "big"))
    with pytest.raises(PeerFault):
        reader.next()


@given(st.lists(st.tuples(st.text(max_size=3), st.text(max_size=3), st.lists(st.text(max_size=2), max_size=2))))
def test_envelopes_are_known_by_their_numbers(used: list[tuple[str, str, list[str]]]) -> None:
    writer, table, reader = EnvelopeWriter(), EnvelopeTable(), RecordReader()
    for exchange, key, copies in used:
        out = BytesWriter()
        number = writer.number(out, Envelope(exchange, key, copies))
        reader.feed(out.getvalue())
        while reader.next():
            table.define(ArgumentReader(reader.data, reader.start, reader.end))
        reader.envelope_no = number
        found = table.of(reader)
        assert (found.exchange, found.routing_key, found.copy_keys) == (exchange, key, copies)


def test_a_full_table_of_envelopes_begins_anew() -> None:
    writer, table, reader = EnvelopeWriter(), EnvelopeTable(), RecordReader()
    for number in [*range(int(ENVELOPES_MAX) + 5), 2]:
        out = BytesWriter()
        envelope = Envelope("", str(number))
        given_no = writer.number(out, envelope)
        assert given_no < ENVELOPES_MAX
        reader.feed(out.getvalue())
        while reader.next():
            table.define(ArgumentReader(reader.data, reader.start, reader.end))
        reader.envelope_no = given_no
        assert table.of(reader).routing_key == str(number)


KINDS = list(range(1, 40))


@given(st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 15), st.binary(max_size=64)), max_size=6))
def test_a_link_takes_any_records_or_is_dropped(given_records: list[tuple[int, int, bytes]]) -> None:
    nodes = Together("here", "there")
    nodes.place("q", "here")
    data = b"".join(record(kind, flags, payload) for kind, flags, payload in given_records)
    nodes["here"].turn(PeerReceived("there", data))
    nodes["here"].queue("q").check()


WORDS = st.lists(st.integers(0, 3), max_size=6)


@given(st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 15), WORDS), max_size=20))
@example([(int(records.CANCEL), 0, [0, 1])])
def test_a_link_takes_records_with_small_numbers_in_any_order(given_records: list[tuple[int, int, list[int]]]) -> None:
    nodes = Together("here", "there")
    queue = nodes.place("q", "here")
    nodes.place("r", "there")
    client = nodes.client("here")
    client.confirm()
    client.publish("r", b"1", b"2")
    client.publish("q", b"3", b"4")
    client.consume("r")
    for _ in range(3):
        nodes.step()
    define = record(records.QUEUE, 0, words(1, 0) + b"\0\0\0\1/" + b"\0\0\0\1q")
    consume = record(records.CONSUME, 0, words(1, 1, 1, 0, 0) + b"\1c" + b"\0\0\0\0")
    rest = b"".join(record(kind, flags, words(*numbers)) for kind, flags, numbers in given_records)
    nodes["here"].turn(PeerReceived("there", define + consume + rest))
    queue.check()
    nodes.cut_link("here", "there")
    queue.check()
    assert queue.unacked_count() == 0


def words(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(8, "big") for number in numbers)


def record(kind: int, flags: int, payload: bytes) -> bytes:
    head = (8 + len(payload)) << 32 | kind << 24 | flags << 16
    return head.to_bytes(8, "big") + payload
