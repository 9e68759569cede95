"""The batches that a mirror accepts and refuses, and its answers."""

import pytest

from tests.unit.broker.replication.stage import PAYLOAD, MirrorStage, removed, stored
from warren.broker.model.replica_contents import PositionSpan
from warren.broker.model.turn import SpareBuffers
from warren.broker.replication.batches import OriginMarks, ReplicationBatch, ReplicationBatchWriter
from warren.broker.replication.mirror import ALONE, FOLLOWING, JOINING
from warren.errors import InvariantBroken, PeerFault


def test_a_joining_mirror_reports_its_contents_and_is_whole_when_the_backfill_is_flushed() -> None:
    stage = MirrorStage()
    stage.copy.held = {7: True}
    stage.mirror.follow(3)
    assert [stage.requests[0].epoch, stage.requests[0].whole, stage.mirror.state] == [3, False, JOINING]
    stage.mirror.start(20, 5, OriginMarks({"one": (1, 9)}))
    assert stage.sent == [("has", [PositionSpan(7, 7)])]
    assert [stage.mirror.state, stage.copy.watermark, stage.mirror.marks.of("one", 1)] == [FOLLOWING, 5, 9]
    stage.mirror.remove_surplus(PositionSpan(7, 7))
    stage.mirror.take_backfill(8, 0, 0, True, 2, PAYLOAD, 0)
    stage.mirror.backfill_done()
    stage.end_turn()
    assert [stage.sent[1:], stage.mirror.whole] == [[], False]
    stage.flush()
    assert [stage.sent[1:], stage.mirror.whole] == [[("flushed", 20), ("caught up",)], True]
    assert stage.copy.held == {8: True}
    # its messages may never have been committed: no publishing id counts until the master sends those that do
    removed = [("remove any", 7, 7), ("seen", b"", True)]
    assert stage.copy.calls == [("begin",), *removed, ("returned", 8, 2), ("caught up",)]


def test_a_joining_mirror_waits_for_the_flush_of_earlier_contents() -> None:
    stage = MirrorStage().following()
    stage.mirror.take(stored(2, 10, persistent=True))
    stage.end_turn()
    stage.mirror.follow(2)
    stage.mirror.start(2, 0, OriginMarks())
    stage.mirror.backfill_done()
    stage.end_turn()
    assert stage.sent == [("has", [PositionSpan(10, 10)])]
    # the first flush is that of the earlier batch, the second that of everything
    stage.flush()
    assert stage.sent[1:] == [("flushed", 2), ("caught up",)]


def test_a_persistent_message_is_reported_when_it_is_flushed_and_a_transient_one_at_once() -> None:
    stage = MirrorStage().following()
    stage.mirror.take(stored(2, 10))
    stage.end_turn()
    assert stage.sent == [("flushed", 2)]
    stage.mirror.take(stored(3, 11, persistent=True))
    stage.end_turn()
    stage.mirror.take(stored(4, 12))
    stage.end_turn()
    assert stage.sent == [("flushed", 2)]
    stage.flush()
    assert stage.sent == [("flushed", 2), ("flushed", 3), ("flushed", 4)]


def test_several_batches_of_one_turn_are_answered_once() -> None:
    stage = MirrorStage().following()
    for number in (2, 3, 4):
        stage.mirror.take(stored(number, number))
    stage.end_turn()
    stage.end_turn()
    assert stage.sent == [("flushed", 4)]


def test_a_delivery_watermark_is_reported_when_it_is_flushed() -> None:
    stage = MirrorStage().following()
    writer = ReplicationBatchWriter(SpareBuffers())
    writer.mark_delivered(99)
    stage.mirror.take(ReplicationBatch(2, 1, writer.finish()))
    stage.end_turn()
    assert [stage.sent, stage.copy.watermark] == [[], 99]
    stage.flush()
    assert stage.sent == [("flushed", 2)]


def test_removals_and_returns_wait_until_they_are_committed() -> None:
    stage = MirrorStage().following()
    stage.mirror.take(stored(2, 10, 11, 12))
    writer = ReplicationBatchWriter(SpareBuffers())
    writer.remove(0, 10, 11)
    writer.returned(12, 3)
    stage.mirror.take(ReplicationBatch(3, 1, writer.finish()))
    stage.mirror.commit(2)
    stage.end_turn()
    assert [sorted(stage.copy.held), stage.copy.calls] == [[10, 11, 12], []]
    stage.mirror.commit(3)
    stage.end_turn()
    assert [sorted(stage.copy.held), stage.copy.calls] == [[12], [("remove", 0, 10, 11), ("returned", 12, 3)]]
    assert [stage.mirror.committed, stage.mirror.batches] == [3, []]


def test_origin_marks_are_those_of_committed_batches() -> None:
    stage = MirrorStage().following()
    writer = ReplicationBatchWriter(SpareBuffers())
    writer.origin("one", 1)
    writer.store(10, 0, 0, False, 5, PAYLOAD, 0)
    stage.mirror.take(ReplicationBatch(2, 1, writer.finish()))
    assert stage.mirror.marks.of("one", 1) == 0
    stage.mirror.commit(2)
    assert stage.mirror.marks.of("one", 1) == 5


@pytest.mark.parametrize("number", [1, 2, 4])
def test_a_batch_that_does_not_follow_the_last_one_is_refused(number: int) -> None:
    stage = MirrorStage().following()
    stage.mirror.take(stored(2, 10))
    with pytest.raises(PeerFault):
        stage.mirror.take(stored(number, 11))


def test_a_batch_of_a_later_epoch_than_the_followed_one_is_refused() -> None:
    stage = MirrorStage().following(epoch=3)
    stage.mirror.take(stored(2, 10, epoch=3))
    with pytest.raises(PeerFault):
        stage.mirror.take(stored(3, 11, epoch=4))


@pytest.mark.parametrize(("level", "first", "last"), [(3, 1, 2), (0, 0, 2), (0, 2, 1), (0, 1, 1 << 60)])
def test_a_removal_that_makes_no_sense_is_refused_before_it_is_held(level: int, first: int, last: int) -> None:
    stage = MirrorStage().following()
    stage.copy.max_priority = 2
    writer = ReplicationBatchWriter(SpareBuffers())
    writer.remove(level, first, last)
    with pytest.raises(PeerFault):
        stage.mirror.take(ReplicationBatch(2, 1, writer.finish()))
    assert stage.mirror.batches == []


def test_a_mirror_that_left_ignores_batches_and_backfill() -> None:
    stage = MirrorStage().following()
    stage.mirror.leave()
    stage.mirror.take(stored(2, 10))
    stage.mirror.commit(2)
    stage.mirror.take_backfill(9, 0, 0, False, 0, PAYLOAD, 0)
    stage.mirror.remove_surplus(PositionSpan(1, 99))
    stage.mirror.backfill_done()
    stage.end_turn()
    assert [stage.mirror.state, stage.mirror.end, stage.copy.held, stage.sent] == [ALONE, 1, {}, []]


def test_an_answer_to_a_withdrawn_join_request_is_ignored() -> None:
    stage = MirrorStage().following()
    stage.mirror.take(stored(2, 10))
    stage.mirror.follow(2)
    stage.mirror.leave()
    stage.mirror.resume(1, 1)
    stage.mirror.start(9, 5, OriginMarks())
    stage.end_turn()
    assert [stage.mirror.state, stage.mirror.end, stage.copy.held, stage.copy.watermark] == [ALONE, 2, {10: False}, 0]


def test_a_flush_that_completes_after_the_mirror_left_is_not_reported() -> None:
    stage = MirrorStage().following()
    stage.mirror.take(stored(2, 10, persistent=True))
    stage.end_turn()
    stage.mirror.leave()
    stage.flush()
    assert [stage.sent, stage.mirror.end] == [[], 2]


def test_a_flush_requested_before_a_new_join_does_not_count_for_later_batches() -> None:
    stage = MirrorStage().following()
    stage.mirror.take(stored(2, 10, persistent=True))
    stage.end_turn()
    stage.mirror.follow(1)
    stage.mirror.resume(2, 1)
    early, stage.turn.flush_waiters = stage.turn.flush_waiters, []
    stage.end_turn()
    for waiter in early:
        waiter.flushed()
    assert stage.sent == []
    stage.flush()
    assert stage.sent == [("flushed", 2)]


def test_a_resuming_mirror_drops_messages_that_the_new_master_lacks() -> None:
    stage = MirrorStage().following()
    stage.mirror.take(stored(2, 10))
    stage.mirror.take(removed(3, 10, 10))
    stage.mirror.take(stored(4, 11, 12))
    stage.end_turn()
    stage.mirror.follow(2)
    request = stage.requests[-1]
    assert [request.whole, request.end, request.committed, request.beginnings] == [True, 4, 1, [(1, 1)]]
    stage.mirror.resume(2, 2)
    stage.end_turn()
    assert [sorted(stage.copy.held), stage.mirror.end, stage.mirror.committed] == [[10], 2, 2]
    # the dropped batch is forgotten: its removal is not carried out
    stage.mirror.take(stored(3, 13, epoch=2))
    stage.mirror.commit(3)
    stage.end_turn()
    assert [sorted(stage.copy.held), stage.mirror.epochs.of(3)] == [[10, 13], 2]


def test_a_new_master_may_resend_batches_of_earlier_epochs() -> None:
    stage = MirrorStage().following()
    stage.mirror.follow(5)
    stage.mirror.resume(1, 1)
    stage.mirror.take(stored(2, 10, epoch=1))
    stage.mirror.take(stored(3, 11, epoch=4))
    stage.mirror.take(stored(4, epoch=5))
    assert stage.mirror.epochs.beginnings == [(1, 1), (4, 3), (5, 4)]


@pytest.mark.parametrize(("common", "committed"), [(1, 1), (5, 2), (3, 4)])
def test_a_mirror_resumes_neither_before_its_last_commit_nor_beyond_its_end(common: int, committed: int) -> None:
    stage = MirrorStage().following()
    for number in (2, 3, 4):
        stage.mirror.take(stored(number, number))
    stage.mirror.commit(2)
    stage.mirror.follow(2)
    with pytest.raises(PeerFault):
        stage.mirror.resume(common, committed)


def test_a_mirror_that_is_not_whole_does_not_resume() -> None:
    stage = MirrorStage()
    stage.mirror.follow(1)
    with pytest.raises(PeerFault):
        stage.mirror.resume(0, 0)


def test_a_start_or_resume_without_a_join_request_is_a_fault() -> None:
    stage = MirrorStage().following()
    with pytest.raises(PeerFault):
        stage.mirror.resume(1, 1)
    with pytest.raises(PeerFault):
        stage.mirror.start(1, 0, OriginMarks())


def test_a_commit_beyond_the_last_batch_is_a_fault() -> None:
    stage = MirrorStage().following()
    with pytest.raises(PeerFault):
        stage.mirror.commit(2)


def test_a_mirror_with_inconsistent_state_raises() -> None:
    stage = MirrorStage().following()
    stage.mirror.take(stored(2, 10))
    stage.mirror.batches.clear()
    with pytest.raises(InvariantBroken):
        stage.mirror.check()
