"""The messages of a master to its mirrors, and when a batch is committed."""

import pytest

from tests.unit.broker.replication.stage import MasterStage, empty_join_request, stored
from warren.broker.model.replica_contents import PositionSpan
from warren.broker.model.replica_set import ReplicaSet
from warren.broker.model.turn import SpareBuffers
from warren.broker.replication.batches import Epochs, OriginMarks, ReplicationBatch, ReplicationBatchWriter
from warren.broker.replication.mirror import MirrorJoinRequest
from warren.errors import InvariantBroken

ALONE = ReplicaSet(1, "a", ["a", "b", "c"], [("a", 1)])
BOTH = ReplicaSet(2, "a", ["a", "b"], [("a", 1), ("b", 1)])


def resumed(stage: MasterStage, node: str, end: int = 0, incarnation: int = 1) -> None:
    """A mirror joins that was in sync with the previous master, and has its batches up to `end`."""
    stage.master.joined(node, incarnation, MirrorJoinRequest(2, True, end, 0, [(1, 1)]))


def promoted(replica_set: ReplicaSet = BOTH, end: int = 3, committed: int = 1) -> MasterStage:
    """A new master that was a mirror before."""
    stage = MasterStage(replica_set, end)
    batches = [stored(number, number) for number in range(committed + 1, end + 1)]
    stage.master.inherit(batches, committed, Epochs([(1, 1)]), OriginMarks())
    return stage


# -- commits


def test_without_mirrors_a_batch_is_committed_when_it_is_flushed_here() -> None:
    stage = MasterStage(ALONE).opened()
    stage.write_batch(1)
    assert stage.committed_batches == [1, 2]
    stage.write_batch(2, flushed=True)
    stage.write_batch(3)
    assert stage.committed_batches == [1, 2]
    stage.flush()
    assert stage.committed_batches == [1, 2, 3, 4]
    assert stage.master.batches == []


def test_a_turn_without_changes_makes_no_batch() -> None:
    stage = MasterStage(ALONE).opened()
    stage.master.end_turn()
    assert stage.master.end == 1


def test_a_batch_is_committed_when_every_in_sync_mirror_has_flushed_it() -> None:
    stage = promoted().opened()
    resumed(stage, "b", 3)
    stage.master.flushed_to("b", 3)
    assert [stage.master.committed, stage.master.opened] == [3, False]
    stage.master.flushed_to("b", 4)
    assert [stage.master.committed, stage.master.opened, stage.committed_batches] == [4, True, [3, 4]]
    assert stage.sent[-2:] == [("commit", "b", 3), ("commit", "b", 4)]


def test_nothing_is_committed_while_an_in_sync_mirror_does_not_follow() -> None:
    stage = promoted().opened()
    stage.write_batch(9)
    assert stage.committed_batches == []


def test_another_incarnation_of_a_member_does_not_count_for_it() -> None:
    stage = promoted().opened()
    resumed(stage, "b", 3, incarnation=2)
    stage.master.flushed_to("b", 4)
    assert stage.committed_batches == []


def test_flush_reports_beyond_the_last_batch_or_from_strangers_are_ignored() -> None:
    stage = promoted().opened()
    resumed(stage, "b", 3)
    stage.master.flushed_to("b", 99)
    stage.master.flushed_to("x", 4)
    assert stage.committed_batches == []


# -- joining mirrors


def test_a_mirror_with_the_same_batches_resumes_and_gets_the_missing_ones() -> None:
    stage = promoted().opened()
    resumed(stage, "b", 2)
    assert stage.sent == [("resume", "b", 2, 1), ("batch", "b", 3, 1), ("batch", "b", 4, 2)]
    stage.write_batch(9)
    assert stage.sent[-1] == ("batch", "b", 5, 2)


def test_a_mirror_with_more_batches_resumes_after_the_last_common_one() -> None:
    stage = promoted().opened()
    resumed(stage, "b", 7)
    assert stage.sent[0] == ("resume", "b", 3, 1)


def test_a_dropped_mirror_with_all_committed_batches_resumes_too() -> None:
    stage = promoted(ReplicaSet(2, "a", ["a", "b"], [("a", 1)])).opened()
    stage.master.joined("b", 1, MirrorJoinRequest(2, True, 4, 4, [(2, 4)]))
    assert stage.sent == [("resume", "b", 4, 4)]


def test_a_mirror_that_is_not_whole_starts_again() -> None:
    stage = promoted().opened()
    stage.master.joined("b", 1, empty_join_request(2))
    assert stage.sent == [("start", "b", 4)]
    stage.write_batch(9)
    assert stage.sent[-1] == ("batch", "b", 5, 2)
    stage.master.contents_received("b", [PositionSpan(1, 1)])
    stage.master.contents_received("x", [PositionSpan(2, 2)])
    assert stage.lacking == {"b": [PositionSpan(1, 1)]}


def test_a_mirror_that_committed_more_than_is_common_starts_again() -> None:
    stage = promoted().opened()
    stage.master.joined("b", 1, MirrorJoinRequest(2, True, 9, 8, [(1, 1)]))
    assert stage.sent == [("start", "b", 4)]


def test_a_mirror_that_lacks_committed_batches_starts_again() -> None:
    stage = promoted(committed=3).opened()
    resumed(stage, "b", 2)
    assert stage.sent == [("start", "b", 4)]


def test_a_mirror_that_joins_within_a_turn_starts_after_its_batch() -> None:
    stage = MasterStage(ALONE).opened()
    stage.master.writer.mark_delivered(7)
    stage.master.joined("b", 1, empty_join_request())
    stage.master.joined("c", 1, empty_join_request())
    stage.master.lost("c")
    assert stage.sent == []
    stage.master.end_turn()
    assert stage.sent == [("start", "b", 2)]


def test_a_mirror_that_joins_before_the_epoch_is_open_starts_after_the_opening_batch() -> None:
    stage = MasterStage(ALONE)
    stage.master.joined("b", 1, empty_join_request())
    stage.master.open()
    stage.master.end_turn()
    assert stage.sent == [("start", "b", 1)]


def test_a_new_master_has_the_origin_marks_of_inherited_batches() -> None:
    writer = ReplicationBatchWriter(SpareBuffers())
    writer.origin("one", 1)
    writer.store(10, 0, 0, False, 5, b"", 0)
    stage = MasterStage(BOTH, 2)
    stage.master.inherit([ReplicationBatch(2, 1, writer.finish())], 1, Epochs([(1, 1)]), OriginMarks())
    assert stage.master.marks.of("one", 1) == 5


# -- invariants


def test_a_master_whose_batches_have_a_gap_is_broken() -> None:
    stage = promoted().opened()
    stage.master.check()
    del stage.master.batches[0]
    with pytest.raises(InvariantBroken, match="has batches"):
        stage.master.check()


def test_a_master_that_committed_more_than_it_flushed_is_broken() -> None:
    stage = MasterStage(ALONE).opened()
    stage.write_batch(1, flushed=True)
    stage.master.check()
    stage.master.committed = stage.master.end
    stage.master.batches.clear()
    with pytest.raises(InvariantBroken, match="is flushed"):
        stage.master.check()


def test_a_follower_that_flushed_batches_which_its_master_does_not_have_is_broken() -> None:
    stage = promoted().opened()
    resumed(stage, "b", 3)
    stage.master.check()
    stage.master.followers["b"].flushed_to = stage.master.end + 1
    with pytest.raises(InvariantBroken, match="b follows"):
        stage.master.check()
