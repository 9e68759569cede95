"""Writing and reading replication batches; malformed ones are refused."""

import pytest

from warren.broker.model.turn import SpareBuffers
from warren.broker.replication.batches import (
    OPEN,
    ORIGIN,
    PERSISTENT,
    REMOVE,
    RETURNED,
    STORE,
    WATERMARK,
    ReplicationBatch,
    ReplicationBatchReader,
    ReplicationBatchWriter,
)
from warren.errors import PeerFault


def test_a_batch_is_read_as_it_was_written() -> None:
    writer = ReplicationBatchWriter(SpareBuffers())
    writer.open(7)
    writer.origin("rabbit@one", 3)
    writer.store(1 << 40, 5, 1_700, True, 9, b"body", 77)
    writer.remove(4, 10, 12)
    writer.mark_delivered(1 << 41)
    writer.returned(11, 2)
    reader = ReplicationBatchReader(ReplicationBatch(1, 1, writer.finish()))
    assert [reader.next(), reader.kind, reader.word(0)] == [True, OPEN, 7]
    assert [reader.next(), reader.kind, reader.word(0), reader.name()] == [True, ORIGIN, 3, "rabbit@one"]
    assert [reader.next(), reader.kind, reader.priority, reader.flags] == [True, STORE, 5, PERSISTENT]
    assert [reader.word(place) for place in range(4)] == [1 << 40, 1_700, 9, 77]
    assert reader.payload() == b"body"
    assert [reader.next(), reader.kind, reader.priority, reader.word(0), reader.word(1)] == [True, REMOVE, 4, 10, 12]
    assert [reader.next(), reader.kind, reader.word(0)] == [True, WATERMARK, 1 << 41]
    assert [reader.next(), reader.kind, reader.word(0), reader.word(1)] == [True, RETURNED, 11, 2]
    assert not reader.next()


def test_an_origin_is_named_once_in_a_batch_and_again_in_the_next() -> None:
    writer = ReplicationBatchWriter(SpareBuffers())
    writer.origin("one", 1)
    named = len(writer)
    writer.origin("one", 1)
    assert len(writer) == named
    writer.finish()
    assert len(writer) == 0
    writer.origin("one", 1)
    assert len(writer) == named


def test_a_batch_can_store_a_transient_message_without_a_payload() -> None:
    writer = ReplicationBatchWriter(SpareBuffers())
    writer.store(1, 0, 0, False, 0, b"", 0)
    reader = ReplicationBatchReader(ReplicationBatch(1, 1, writer.finish()))
    assert reader.next()
    assert reader.flags & PERSISTENT == 0
    assert reader.payload() == b""


def test_a_truncated_or_unknown_operation_is_a_fault_of_the_peer() -> None:
    writer = ReplicationBatchWriter(SpareBuffers())
    writer.store(1, 0, 0, False, 0, b"body", 0)
    whole = writer.finish()
    writer.mark_delivered(5)
    unknown = bytearray(writer.finish())
    unknown[4] = 99
    too_small = bytearray(whole)
    too_small[3] = 39
    for data in [*[whole[:size] for size in range(1, len(whole))], bytes(unknown), bytes(too_small)]:
        reader = ReplicationBatchReader(ReplicationBatch(1, 1, data))
        with pytest.raises(PeerFault):
            reader.next()


def test_a_batch_is_read_within_a_larger_buffer() -> None:
    writer = ReplicationBatchWriter(SpareBuffers())
    writer.store(1, 0, 0, True, 9, b"body", 77)
    written = writer.finish()
    batch = ReplicationBatch(1, 1, b"before" + written + b"behind", 6, 6 + len(written))
    reader = ReplicationBatchReader(batch)
    assert [reader.next(), reader.kind, reader.payload()] == [True, STORE, b"body"]
    assert not reader.next()
    assert batch.data == written
    with pytest.raises(PeerFault, match="cut short"):
        ReplicationBatchReader(ReplicationBatch(1, 1, written, 0, 5)).next()
