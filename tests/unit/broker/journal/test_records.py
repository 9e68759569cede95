"""A record comes back as it was written, or is known to be damaged."""

import zlib

import pytest
from librt.strings import BytesWriter

from warren.broker.journal import payloads, records
from warren.broker.journal.records import RecordScanner, synced_after
from warren.broker.model.message import Envelope, Message
from warren.errors import InvariantBroken, StoreError
from warren.wire.frames import content_frames
from warren.wire.properties import Properties, encode_header_payload

SEGMENT = 7
# every batch says how long it is and its number
OPENING = (68, 1, 0)
START = 64


def message_of(
    body: bytes = b"sixteen bytes...", envelope: Envelope | None = None, channel: int = 3, frame_max: int = 131_072
) -> Message:
    content = content_frames(encode_header_payload(Properties(), len(body)), body, channel, frame_max)
    return Message(envelope or Envelope("e", "key"), content, channel, len(body), frame_max, True, 4, 60_000)


def triples_of(*triples: tuple[int, int, int]) -> bytes:
    out = BytesWriter()
    for a, b, c in triples:
        records.write_triple(out, a, b, c)
    return out.getvalue()


def message_record(message: Message, *triples: tuple[int, int, int], segment: int = SEGMENT) -> bytes:
    out = BytesWriter()
    length = records.write_message_record(out, segment, records.MESSAGE, triples_of(*triples), len(triples), message)
    assert length == len(out)
    return out.getvalue()


def mark(kind: int, *triples: tuple[int, int, int], segment: int = SEGMENT) -> bytes:
    out = BytesWriter()
    assert records.write_mark(out, segment, kind, 0, triples_of(*triples), len(triples)) == len(out)
    return out.getvalue()


def facts(message: Message) -> tuple[object, ...]:
    envelope = message.envelope
    return (
        envelope.exchange,
        envelope.routing_key,
        envelope.copy_keys,
        message.content,
        message.channel,
        message.body_bytes,
        message.frame_bytes_max,
        message.persistent,
        message.priority,
        message.expiration_ms,
    )


def read_back(record: bytes) -> Message:
    scanner = RecordScanner(record, SEGMENT, 0)
    assert scanner.next()
    assert scanner.intact()
    return payloads.decode_message(scanner.payload(), scanner.priority, True)


SAMPLE = message_record(message_of(), (12, 1, 0), (13, 99, 1_700_000_000_000))
SAMPLE_HEADER_BYTES = records.HEADER_BYTES + 2 * records.TRIPLE_BYTES


@pytest.mark.parametrize(
    "message",
    [
        message_of(),
        message_of(b""),
        message_of(bytes(range(256)) * 64, frame_max=4096),
        message_of(envelope=Envelope("", "")),
        message_of(envelope=Envelope("x" * 255, "y" * 255)),
        message_of(envelope=Envelope("ex\udcff", "k\udc80é")),
        message_of(envelope=Envelope("e", "k", ["cc", "", "longer than a short string " * 20, "no text \udcfe"])),
        message_of(envelope=Envelope("e", "k", [str(number) for number in range(300)])),
        message_of(channel=65_535),
        message_of(frame_max=0xFFFFFFFF),
    ],
    ids=[
        "plain",
        "empty",
        "many-frames",
        "no-names",
        "longest-names",
        "no-text",
        "copies",
        "300-copies",
        "channel",
        "frame-max",
    ],
)
def test_a_message_comes_back_as_it_was_written(message: Message) -> None:
    assert facts(read_back(message_record(message, (1, 1, 0)))) == facts(message)


@pytest.mark.parametrize("persistent", [True, False])
def test_priority_and_persistence_come_from_the_record(persistent: bool) -> None:
    scanner = RecordScanner(SAMPLE, SEGMENT, 0)
    assert scanner.next()
    message = payloads.decode_message(scanner.payload(), 9, persistent)
    assert (message.priority, message.persistent) == (9, persistent)


def test_the_facts_of_a_record_are_read_without_its_payload() -> None:
    scanner = RecordScanner(SAMPLE, SEGMENT, 0)
    assert scanner.next()
    assert (scanner.at, scanner.end) == (0, len(SAMPLE))
    assert (scanner.kind, scanner.priority, scanner.count) == (records.MESSAGE, 4, 2)
    assert scanner.triples() == triples_of((12, 1, 0), (13, 99, 1_700_000_000_000))
    assert [(scanner.a(i), scanner.b(i), scanner.c(i)) for i in range(2)] == [(12, 1, 0), (13, 99, 1_700_000_000_000)]
    assert scanner.payload_start == SAMPLE_HEADER_BYTES
    assert scanner.payload_bytes == len(SAMPLE) - SAMPLE_HEADER_BYTES
    assert payloads.payload_body_bytes(SAMPLE, scanner.payload_start) == 16


def test_a_record_holds_as_many_triples_as_its_count_can_say_and_no_more() -> None:
    most = [(-number, number, 0) for number in range(records.COUNT_MAX)]
    scanner = RecordScanner(message_record(message_of(), *most), SEGMENT, 0)
    assert scanner.next()
    assert [(scanner.a(i), scanner.b(i), scanner.c(i)) for i in (0, 65_534)] == [most[0], most[-1]]
    with pytest.raises(InvariantBroken):
        mark(records.REMOVED, *most, (1, 1, 1))


def test_a_record_is_not_written_with_a_wrong_count() -> None:
    with pytest.raises(InvariantBroken):
        records.write_mark(BytesWriter(), SEGMENT, records.REMOVED, 0, triples_of((1, 1, 1)), 2)


def test_a_copy_carries_the_payload_of_the_original() -> None:
    original = RecordScanner(SAMPLE, SEGMENT, 0)
    assert original.next()
    out = BytesWriter()
    length = records.write_copy_record(
        out, 8, records.COPY, 4, triples_of((13, 99, 0)), 1, original.payload(), original.payload_crc
    )
    copy = RecordScanner(out.getvalue(), 8, 0)
    assert copy.next()
    assert (copy.kind, copy.priority, copy.end) == (records.COPY, 4, length)
    assert copy.intact()
    assert copy.payload() == original.payload()


def test_a_scanner_steps_over_all_records_and_stops_at_the_end() -> None:
    parts = [mark(records.SYNCED, (SEGMENT, 64, 1), OPENING), SAMPLE, mark(records.REMOVED, (12, 1, 1))]
    data = records.segment_header(SEGMENT, 1) + b"".join(parts)
    scanner = RecordScanner(data, SEGMENT, START)
    seen = []
    while scanner.next():
        seen.append(data[scanner.at : scanner.end])
        assert scanner.intact()
    assert seen == parts
    assert (scanner.at, scanner.complete, scanner.short) == (len(data), True, False)
    assert not scanner.next()


def test_a_scanner_of_a_piece_reports_offsets_of_the_segment() -> None:
    piece = SAMPLE + mark(records.REMOVED, (12, 1, 1))
    scanner = RecordScanner(piece, SEGMENT, 5000, 5000)
    assert scanner.next()
    assert (scanner.at, scanner.payload_start, scanner.end) == (5000, 5000 + SAMPLE_HEADER_BYTES, 5000 + len(SAMPLE))
    assert scanner.intact()
    assert scanner.b(1) == 99
    later = RecordScanner(piece, SEGMENT, 5000 + len(SAMPLE), 5000)
    assert later.next()
    assert later.triples() == triples_of((12, 1, 1))
    assert not later.next()
    assert (later.at, later.complete) == (5000 + len(piece), True)


def test_zeros_after_the_last_record_are_no_record() -> None:
    scanner = RecordScanner(SAMPLE + bytes(100), SEGMENT, 0)
    assert scanner.next()
    assert not scanner.next()
    assert (scanner.at, scanner.complete, scanner.short) == (len(SAMPLE), False, False)


def test_a_record_of_another_segment_does_not_pass() -> None:
    for other in (SEGMENT - 1, SEGMENT + 1, SEGMENT + (1 << 31)):
        assert not RecordScanner(SAMPLE, other, 0).next()


def test_a_header_that_contradicts_itself_is_no_record_although_its_checksum_is_right() -> None:
    for at, octet in ((16, 0), (16, 13), (7, 20), (7, 21), (19, 0)):
        header = bytearray(mark(records.REMOVED, (1, 1, 1)))
        header[at] = octet
        header[:4] = zlib.crc32(header[4 : int.from_bytes(header[4:8], "big")], SEGMENT).to_bytes(4, "big")
        assert not RecordScanner(bytes(header), SEGMENT, 0).next(), at


def test_a_record_cut_at_any_byte_is_not_complete() -> None:
    for size in range(len(SAMPLE)):
        scanner = RecordScanner(SAMPLE[:size], SEGMENT, 0)
        assert not scanner.next()
        assert scanner.at == 0
        assert scanner.complete == (size == 0)
        assert scanner.short == (size >= SAMPLE_HEADER_BYTES)
        if scanner.short:
            assert scanner.end == len(SAMPLE)
            assert not scanner.next()


def test_every_flipped_bit_of_a_header_stops_the_scanner() -> None:
    for bit in range(SAMPLE_HEADER_BYTES * 8):
        assert not RecordScanner(flipped(SAMPLE, bit), SEGMENT, 0).next(), bit


def test_every_flipped_bit_of_a_payload_is_noticed_and_leaves_the_next_record_in_reach() -> None:
    behind = mark(records.REMOVED, (12, 1, 1))
    for bit in range(SAMPLE_HEADER_BYTES * 8, len(SAMPLE) * 8):
        scanner = RecordScanner(flipped(SAMPLE, bit) + behind, SEGMENT, 0)
        assert scanner.next()
        assert not scanner.intact(), bit
        assert scanner.next()
        assert scanner.kind == records.REMOVED


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def test_a_segment_header_is_good_for_its_own_segment_alone() -> None:
    header = records.segment_header(12, 3)
    assert len(header) == records.SEGMENT_HEADER_BYTES
    assert records.segment_header_fault(header + SAMPLE, 12) == ""
    assert records.segment_header_fault(header, 13) == "of segment 12"


def test_every_fault_of_a_segment_header_has_its_words() -> None:
    header = records.segment_header(12, 3)
    assert records.segment_header_fault(header[:63], 12) == "too short"
    assert records.segment_header_fault(b"x" + header[1:], 12) == "not a segment"
    other = header[:11] + b"\x03" + header[12:60]
    assert records.segment_header_fault(other + zlib.crc32(other).to_bytes(4, "big"), 12) == "of another version, 3"
    assert records.segment_header_fault(other + header[60:], 12) == "damaged"
    assert records.segment_header_fault(header[:40] + b"\x03" + header[41:], 12) == "damaged"


def test_every_flipped_bit_of_a_segment_header_is_noticed() -> None:
    header = records.segment_header(12, 3)
    for bit in range(len(header) * 8):
        assert records.segment_header_fault(flipped(header, bit), 12) != "", bit


def test_the_greatest_synced_offset_is_found_behind_damage() -> None:
    synced = [mark(records.SYNCED, (SEGMENT, offset, 1), OPENING) for offset in (64, 900, 500)]
    data = b"damaged" + synced[0] + b"more damage, \x00\x44" + synced[1] + bytes(1000) + synced[2] + b"\x00"
    assert synced_after(data, SEGMENT, 0) == 900
    after_the_second = data.index(synced[1]) + 1
    assert synced_after(data, SEGMENT, after_the_second) == 500
    assert synced_after(data, SEGMENT, data.index(synced[2])) == 500
    assert synced_after(data, SEGMENT, data.index(synced[2]) + 1) == 0


def test_a_synced_record_of_a_later_segment_vouches_for_all_the_data() -> None:
    data = bytes(10) + mark(records.SYNCED, (SEGMENT + 1, 64, 1), OPENING) + bytes(30)
    assert synced_after(data, SEGMENT, 0) == len(data)


def test_only_an_intact_synced_record_of_this_segment_counts() -> None:
    synced = mark(records.SYNCED, (SEGMENT, 900, 1), OPENING)
    assert synced_after(synced, SEGMENT, 0) == 900
    assert synced_after(synced, SEGMENT + 1, 0) == 0
    assert synced_after(mark(records.SYNCED, (SEGMENT - 1, 900, 1), OPENING), SEGMENT, 0) == 0
    assert synced_after(mark(records.WATERMARK, (SEGMENT, 900, 1)), SEGMENT, 0) == 0
    for size in range(len(synced)):
        assert synced_after(synced[:size], SEGMENT, 0) == 0
    for bit in range(len(synced) * 8):
        assert synced_after(flipped(synced, bit), SEGMENT, 0) == 0, bit


def test_a_synced_record_behind_a_great_run_of_zeros_is_found() -> None:
    data = bytes(16 << 20) + mark(records.SYNCED, (SEGMENT, 900, 1), OPENING) + bytes(16 << 20)
    assert synced_after(data, SEGMENT, 0) == 900


def test_messages_of_the_same_names_share_an_envelope_if_the_reader_keeps_them() -> None:
    envelopes: dict[bytes, Envelope] = {}
    decoded = []
    for names in (["a"], ["a"], ["b"]):
        scanner = RecordScanner(message_record(message_of(envelope=Envelope("e", "k", names)), (1, 1, 0)), SEGMENT, 0)
        assert scanner.next()
        decoded.append(payloads.decode_message(scanner.payload(), 0, True, envelopes).envelope)
    assert decoded[0] is decoded[1]
    assert [envelope.copy_keys for envelope in decoded] == [["a"], ["a"], ["b"]]
    assert list(envelopes.values()) == [decoded[0], decoded[2]]


@pytest.mark.parametrize(
    ("at", "octets"),
    [
        (0, b"\xff"),  # a negative body
        (7, b"\xff"),  # a body longer than the content
        (24, b"\xff"),  # names longer than the payload
        (27, b"\x05"),  # names that end within the routing key
        (27, b"\x07"),  # a copy key without its length
        (28, b"\xff"),  # an exchange longer than the names
    ],
)
def test_a_payload_that_contradicts_itself_is_refused(at: int, octets: bytes) -> None:
    scanner = RecordScanner(SAMPLE, SEGMENT, 0)
    assert scanner.next()
    payload = scanner.payload()
    with pytest.raises(StoreError):
        payloads.decode_message(payload[:at] + octets + payload[at + 1 :], 0, True)


def test_a_payload_cut_short_is_refused() -> None:
    scanner = RecordScanner(SAMPLE, SEGMENT, 0)
    assert scanner.next()
    names_end = payloads.PREFIX_BYTES + len(message_of().envelope.tail)
    for size in range(int(names_end)):
        with pytest.raises(StoreError):
            payloads.decode_message(scanner.payload()[:size], 0, True)


def test_a_payload_that_was_made_before_is_written_as_a_message_is() -> None:
    message = read_back(SAMPLE)
    payload, crc = payloads.message_payload(message)
    out, twin = BytesWriter(), BytesWriter()
    length = records.write_payload_record(out, 8, records.PAGED, message.priority, 12, 5, 77, payload, crc)
    records.write_message_record(twin, 8, records.PAGED, triples_of((12, 5, 77)), 1, message)
    assert (out.getvalue(), length) == (twin.getvalue(), len(twin))
