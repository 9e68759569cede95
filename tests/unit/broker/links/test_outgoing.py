"""What goes out over a link is gathered in order, and copied only where it has to be."""

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


def test_nothing_was_gathered_at_first() -> None:
    outgoing = LinkOutput(own=False)
    assert not outgoing.any()
    assert outgoing.take() == []


def test_a_large_step_is_a_piece_that_is_not_copied_and_stays_in_its_place() -> None:
    outgoing = LinkOutput(own=False)
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


def test_to_itself_a_node_gives_messages_from_hand_to_hand() -> None:
    outgoing = LinkOutput(own=True)
    outgoing.message(records.PUBLISH, 0, 7, MESSAGE)
    outgoing.message_with_word(records.GOT, 0, 8, MESSAGE, 3)
    assert outgoing.size_bytes() >= 2 * len(MESSAGE.content)
    reader = RecordReader()
    [piece] = outgoing.take()
    reader.feed(piece)
    heads: list[tuple[int, int, int]] = []
    while reader.next():
        reader.message_head()
        heads.append((int(reader.kind), int(reader.number), int(reader.word)))
    assert heads == [(records.PUBLISH, 7, 0), (records.GOT, 8, 3)]
    assert [message is MESSAGE for message in outgoing.take_messages()] == [True, True]
    assert outgoing.take_messages() == []


def test_to_others_messages_go_with_their_content() -> None:
    outgoing = LinkOutput(own=False)
    outgoing.message(records.PUBLISH, 0, 7, MESSAGE)
    assert MESSAGE.content in b"".join(outgoing.take())
    assert outgoing.take_messages() == []
