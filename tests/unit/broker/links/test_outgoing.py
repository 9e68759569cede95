"""The output of a link is gathered in order, and large pieces are not copied."""

from warren.broker.links import records
from warren.broker.links.records import PIECE_BYTES_MIN, LinkOutput, RecordReader
from warren.broker.model.message import Envelope, Message
from warren.wire.frames import content_frames
from warren.wire.properties import Properties, encode_header_payload

MESSAGE = Message(
    Envelope("", "work"), content_frames(encode_header_payload(Properties(), 4), b"body", 1, 131_072), 1, 4, 131_072
)


def kinds(pieces: list[bytes]) -> list[int]:
    reader = RecordReader()
    reader.feed(b"".join(pieces))
    found: list[int] = []
    while reader.next():
        found.append(int(reader.kind))
    return found


def test_the_output_is_empty_at_first() -> None:
    outgoing = LinkOutput()
    assert not outgoing.any()
    assert outgoing.take() == []


def test_a_large_batch_is_a_piece_of_its_own_in_order() -> None:
    outgoing = LinkOutput()
    step = bytes(int(PIECE_BYTES_MIN))
    outgoing.ack(1)
    outgoing.replication(b"h" * 16, step)
    outgoing.replication(b"h" * 16, b"little")
    outgoing.ack(2)
    assert outgoing.size_bytes() > PIECE_BYTES_MIN
    pieces = outgoing.take()
    assert any(piece is step for piece in pieces)
    assert kinds(pieces) == [records.ACKED, records.REPLICATION, records.REPLICATION, records.ACKED]
    assert outgoing.size_bytes() == 0
    assert not outgoing.any()


def test_messages_go_with_their_content() -> None:
    outgoing = LinkOutput()
    outgoing.message(records.PUBLISH, 0, 7, MESSAGE)
    assert MESSAGE.content in b"".join(outgoing.take())
