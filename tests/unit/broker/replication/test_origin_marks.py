"""Origin marks: the highest count of each incarnation of a node."""

from warren.broker.model.turn import SpareBuffers
from warren.broker.replication.batches import OriginMarks, ReplicationBatch, ReplicationBatchWriter


def test_the_mark_is_the_highest_count_of_the_latest_incarnation() -> None:
    marks = OriginMarks()
    marks.record("one", 1, 5)
    marks.record("one", 1, 3)
    assert marks.of("one", 1) == 5
    marks.record("one", 2, 1)
    assert [marks.of("one", 1), marks.of("one", 2), marks.of("two", 1)] == [0, 1, 0]
    marks.record("one", 1, 9)
    assert [marks.of("one", 1), marks.of("one", 2)] == [0, 1]


def test_a_batch_names_the_origins_of_its_messages() -> None:
    writer = ReplicationBatchWriter(SpareBuffers())
    writer.store(1, 0, 0, False, 0, b"no origin", 0)
    writer.origin("one", 1)
    writer.store(2, 0, 0, False, 4, b"", 0)
    writer.store(3, 0, 0, False, 5, b"", 0)
    writer.origin("two", 7)
    writer.remove(0, 1, 1)
    writer.store(4, 0, 0, False, 1, b"", 0)
    writer.store(5, 0, 0, False, 0, b"no origin", 0)
    marks = OriginMarks()
    marks.read(ReplicationBatch(1, 1, writer.finish()))
    assert marks.counts == {"one": (1, 5), "two": (7, 1)}


def test_a_copy_of_marks_does_not_change() -> None:
    marks = OriginMarks()
    marks.record("one", 1, 5)
    kept = marks.copy()
    marks.record("one", 1, 6)
    assert [marks.of("one", 1), kept.of("one", 1)] == [6, 5]
