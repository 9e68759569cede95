"""What a mirror takes, refuses, carries out and answers."""

import pytest

from tests.unit.broker.replication.stage import PAYLOAD, MirrorStage, removed, stored
from warren.broker.model.replica_contents import PositionSpan
from warren.broker.replication.batches import OriginMarks, ReplicationBatch, ReplicationBatchWriter
from warren.broker.replication.mirror import ALONE, FOLLOWING, JOINING
from warren.errors import InvariantBroken, PeerFault


def test_a_newcomer_tells_what_it_has_and_is_whole_when_the_rest_is_on_disk() -> None:
    stage = MirrorStage()
    stage.copy.held = {7: True}
    stage.mirror.follow(3)
    assert [stage.requests[0].epoch, stage.requests[0].whole, stage.mirror.state] == [3, False, JOINING]
    stage.mirror.start(20, 5, OriginMarks({"one": (1, 9)}))
    assert stage.said == [("has", [PositionSpan(7, 7)])]
    assert [stage.mirror.state, stage.copy.lent, stage.mirror.marks.of("one", 1)] == [FOLLOWING, 5, 9]
    stage.mirror.remove_surplus(PositionSpan(7, 7))
    stage.mirror.take_backfill(8, 0, 0, True, 2, PAYLOAD, 0)
    stage.mirror.backfill_done()
    stage.end_turn()
    assert [stage.said[1:], stage.mirror.whole] == [[], False]
    stage.flush()
    assert [stage.said[1:], stage.mirror.whole] == [[("safe", 20), ("caught up",)], True]
    assert stage.copy.held == {8: True}
    # what it had may never have counted: until it is told which publishing ids count, none do
    removed = [("remove any", 7, 7), ("seen", b"", True)]
    assert stage.copy.told == [("begin",), *removed, ("returned", 8, 2), ("caught up",)]


def test_what_a_newcomer_had_before_may_not_be_flushed_so_it_waits_for_the_disk() -> None:
    stage = MirrorStage().following()
    stage.mirror.take(stored(2, 10, persistent=True))
    stage.end_turn()
    stage.mirror.follow(2)
    stage.mirror.start(2, 0, OriginMarks())
    stage.mirror.backfill_done()
    stage.end_turn()
    assert stage.said == [("has", [PositionSpan(10, 10)])]
    # the first answer is for what was written before, the second for all
    stage.flush()
    assert stage.said[1:] == [("safe", 2), ("caught up",)]


def test_a_persistent_message_is_safe_when_it_is_on_disk_and_a_transient_one_at_once() -> None:
    stage = MirrorStage().following()
    stage.mirror.take(stored(2, 10))
    stage.end_turn()
    assert stage.said == [("safe", 2)]
    stage.mirror.take(stored(3, 11, persistent=True))
    stage.end_turn()
    stage.mirror.take(stored(4, 12))
    stage.end_turn()
    assert stage.said == [("safe", 2)]
    stage.flush()
    assert stage.said == [("safe", 2), ("safe", 3), ("safe", 4)]


def test_several_steps_of_one_turn_are_answered_once() -> None:
    stage = MirrorStage().following()
    for number in (2, 3, 4):
        stage.mirror.take(stored(number, number))
    stage.end_turn()
    stage.end_turn()
    assert stage.said == [("safe", 4)]


def test_a_horizon_is_safe_when_it_is_on_disk() -> None:
    stage = MirrorStage().following()
    writer = ReplicationBatchWriter()
    writer.mark_delivered(99)
    stage.mirror.take(ReplicationBatch(2, 1, writer.finish()))
    stage.end_turn()
    assert [stage.said, stage.copy.lent] == [[], 99]
    stage.flush()
    assert stage.said == [("safe", 2)]


def test_removals_and_returns_wait_until_they_are_settled() -> None:
    stage = MirrorStage().following()
    stage.mirror.take(stored(2, 10, 11, 12))
    writer = ReplicationBatchWriter()
    writer.remove(0, 10, 11)
    writer.returned(12, 3)
    stage.mirror.take(ReplicationBatch(3, 1, writer.finish()))
    stage.mirror.commit(2)
    stage.end_turn()
    assert [sorted(stage.copy.held), stage.copy.told] == [[10, 11, 12], []]
    stage.mirror.commit(3)
    stage.end_turn()
    assert [sorted(stage.copy.held), stage.copy.told] == [[12], [("remove", 0, 10, 11), ("returned", 12, 3)]]
    assert [stage.mirror.committed, stage.mirror.batches] == [3, []]


def test_marks_are_those_of_settled_steps() -> None:
    stage = MirrorStage().following()
    writer = ReplicationBatchWriter()
    writer.origin("one", 1)
    writer.store(10, 0, 0, False, 5, PAYLOAD, 0)
    stage.mirror.take(ReplicationBatch(2, 1, writer.finish()))
    assert stage.mirror.marks.of("one", 1) == 0
    stage.mirror.commit(2)
    assert stage.mirror.marks.of("one", 1) == 5


@pytest.mark.parametrize("number", [1, 2, 4])
def test_a_step_that_does_not_follow_is_refused(number: int) -> None:
    stage = MirrorStage().following()
    stage.mirror.take(stored(2, 10))
    with pytest.raises(PeerFault):
        stage.mirror.take(stored(number, 11))


def test_a_step_of_a_later_epoch_than_the_one_it_follows_is_refused() -> None:
    stage = MirrorStage().following(epoch=3)
    stage.mirror.take(stored(2, 10, epoch=3))
    with pytest.raises(PeerFault):
        stage.mirror.take(stored(3, 11, epoch=4))


@pytest.mark.parametrize(("level", "first", "last"), [(3, 1, 2), (0, 0, 2), (0, 2, 1), (0, 1, 1 << 60)])
def test_a_removal_that_makes_no_sense_is_refused_before_it_is_held(level: int, first: int, last: int) -> None:
    stage = MirrorStage().following()
    stage.copy.max_priority = 2
    writer = ReplicationBatchWriter()
    writer.remove(level, first, last)
    with pytest.raises(PeerFault):
        stage.mirror.take(ReplicationBatch(2, 1, writer.finish()))
    assert stage.mirror.batches == []


def test_a_mirror_that_joins_or_is_alone_hears_no_steps() -> None:
    stage = MirrorStage().following()
    stage.mirror.leave()
    stage.mirror.take(stored(2, 10))
    stage.mirror.commit(2)
    stage.mirror.take_backfill(9, 0, 0, False, 0, PAYLOAD, 0)
    stage.mirror.remove_surplus(PositionSpan(1, 99))
    stage.mirror.backfill_done()
    stage.end_turn()
    assert [stage.mirror.state, stage.mirror.end, stage.copy.held, stage.said] == [ALONE, 1, {}, []]


def test_an_answer_to_a_question_it_has_taken_back_says_nothing() -> None:
    stage = MirrorStage().following()
    stage.mirror.take(stored(2, 10))
    stage.mirror.follow(2)
    stage.mirror.leave()
    stage.mirror.resume(1, 1)
    stage.mirror.start(9, 5, OriginMarks())
    stage.end_turn()
    assert [stage.mirror.state, stage.mirror.end, stage.copy.held, stage.copy.lent] == [ALONE, 2, {10: False}, 0]


def test_what_was_not_answered_when_it_left_is_not_answered_afterwards() -> None:
    stage = MirrorStage().following()
    stage.mirror.take(stored(2, 10, persistent=True))
    stage.end_turn()
    stage.mirror.leave()
    stage.flush()
    assert [stage.said, stage.mirror.end] == [[], 2]


def test_a_flush_asked_for_before_it_joined_anew_says_nothing_of_what_came_after() -> None:
    stage = MirrorStage().following()
    stage.mirror.take(stored(2, 10, persistent=True))
    stage.end_turn()
    stage.mirror.follow(1)
    stage.mirror.resume(2, 1)
    early, stage.turn.flush_waiters = stage.turn.flush_waiters, []
    stage.end_turn()
    for waiter in early:
        waiter.flushed()
    assert stage.said == []
    stage.flush()
    assert stage.said == [("safe", 2)]


def test_a_mirror_that_resumes_drops_what_the_new_master_has_not() -> None:
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
    # the step that was dropped is forgotten: what it removed stays
    stage.mirror.take(stored(3, 13, epoch=2))
    stage.mirror.commit(3)
    stage.end_turn()
    assert [sorted(stage.copy.held), stage.mirror.epochs.of(3)] == [[10, 13], 2]


def test_steps_of_earlier_epochs_come_again_from_a_new_master() -> None:
    stage = MirrorStage().following()
    stage.mirror.follow(5)
    stage.mirror.resume(1, 1)
    stage.mirror.take(stored(2, 10, epoch=1))
    stage.mirror.take(stored(3, 11, epoch=4))
    stage.mirror.take(stored(4, epoch=5))
    assert stage.mirror.epochs.beginnings == [(1, 1), (4, 3), (5, 4)]


@pytest.mark.parametrize(("common", "committed"), [(1, 1), (5, 2), (3, 4)])
def test_a_mirror_does_not_go_back_behind_what_is_settled_nor_beyond_its_end(common: int, committed: int) -> None:
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


def test_who_did_not_ask_is_told_neither_to_start_nor_to_resume() -> None:
    stage = MirrorStage().following()
    with pytest.raises(PeerFault):
        stage.mirror.resume(1, 1)
    with pytest.raises(PeerFault):
        stage.mirror.start(1, 0, OriginMarks())


def test_nothing_is_settled_that_a_mirror_has_not_got() -> None:
    stage = MirrorStage().following()
    with pytest.raises(PeerFault):
        stage.mirror.commit(2)


def test_a_mirror_that_contradicts_itself_says_so() -> None:
    stage = MirrorStage().following()
    stage.mirror.take(stored(2, 10))
    stage.mirror.batches.clear()
    with pytest.raises(InvariantBroken):
        stage.mirror.check()
