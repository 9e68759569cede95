"""What a master sends, and when a step is settled."""

from tests.unit.broker.replication.stage import MasterStage, newcomer, stored
from warren.broker.model.replica_contents import PositionSpan
from warren.broker.model.replica_set import ReplicaSet
from warren.broker.replication.batches import Epochs, OriginMarks, ReplicationBatch, ReplicationBatchWriter
from warren.broker.replication.mirror import MirrorJoinRequest

ALONE = ReplicaSet(1, "a", ["a", "b", "c"], [("a", 1)])
BOTH = ReplicaSet(2, "a", ["a", "b"], [("a", 1), ("b", 1)])


def resumed(stage: MasterStage, node: str, end: int = 0, incarnation: int = 1) -> None:
    """That one was in sync with the master before, and has as many steps of it."""
    stage.master.joined(node, incarnation, MirrorJoinRequest(2, True, end, 0, [(1, 1)]))


def promoted(replica_set: ReplicaSet = BOTH, end: int = 3, committed: int = 1) -> MasterStage:
    """A new master that was a mirror before."""
    stage = MasterStage(replica_set, end)
    batches = [stored(number, number) for number in range(committed + 1, end + 1)]
    stage.master.inherit(batches, committed, Epochs([(1, 1)]), OriginMarks())
    return stage


# -- settling


def test_alone_a_step_is_settled_when_it_is_on_its_own_disk() -> None:
    stage = MasterStage(ALONE).opened()
    stage.step_of(1)
    assert stage.settled_steps == [1, 2]
    stage.step_of(2, flushed=True)
    stage.step_of(3)
    assert stage.settled_steps == [1, 2]
    stage.flush()
    assert stage.settled_steps == [1, 2, 3, 4]
    assert stage.master.batches == []


def test_a_turn_that_did_nothing_is_no_step() -> None:
    stage = MasterStage(ALONE).opened()
    stage.master.end_turn()
    assert stage.master.end == 1


def test_a_step_is_settled_when_all_who_are_in_sync_have_it() -> None:
    stage = promoted().opened()
    resumed(stage, "b", 3)
    stage.master.flushed_to("b", 3)
    assert [stage.master.committed, stage.master.opened] == [3, False]
    stage.master.flushed_to("b", 4)
    assert [stage.master.committed, stage.master.opened, stage.settled_steps] == [4, True, [3, 4]]
    assert stage.said[-2:] == [("settle", "b", 3), ("settle", "b", 4)]


def test_nothing_is_settled_as_long_as_one_who_is_in_sync_does_not_follow() -> None:
    stage = promoted().opened()
    stage.step_of(9)
    assert stage.settled_steps == []


def test_another_run_of_a_member_is_another_member() -> None:
    stage = promoted().opened()
    resumed(stage, "b", 3, incarnation=2)
    stage.master.flushed_to("b", 4)
    assert stage.settled_steps == []


def test_what_is_safe_beyond_the_last_step_or_with_a_stranger_counts_for_nothing() -> None:
    stage = promoted().opened()
    resumed(stage, "b", 3)
    stage.master.flushed_to("b", 99)
    stage.master.flushed_to("x", 4)
    assert stage.settled_steps == []


# -- who comes


def test_one_that_has_the_same_steps_goes_on_and_gets_what_it_lacks() -> None:
    stage = promoted().opened()
    resumed(stage, "b", 2)
    assert stage.said == [("resume", "b", 2, 1), ("step", "b", 3, 1), ("step", "b", 4, 2)]
    stage.step_of(9)
    assert stage.said[-1] == ("step", "b", 5, 2)


def test_one_that_has_more_is_told_how_much_is_common() -> None:
    stage = promoted().opened()
    resumed(stage, "b", 7)
    assert stage.said[0] == ("resume", "b", 3, 1)


def test_one_that_was_dropped_and_has_all_that_is_settled_goes_on_too() -> None:
    stage = promoted(ReplicaSet(2, "a", ["a", "b"], [("a", 1)])).opened()
    stage.master.joined("b", 1, MirrorJoinRequest(2, True, 4, 4, [(2, 4)]))
    assert stage.said == [("resume", "b", 4, 4)]


def test_one_that_is_not_whole_starts_anew() -> None:
    stage = promoted().opened()
    stage.master.joined("b", 1, newcomer(2))
    assert stage.said == [("start", "b", 4)]
    stage.step_of(9)
    assert stage.said[-1] == ("step", "b", 5, 2)
    stage.master.told("b", [PositionSpan(1, 1)])
    stage.master.told("x", [PositionSpan(2, 2)])
    assert stage.lacking == {"b": [PositionSpan(1, 1)]}


def test_one_that_knows_more_to_be_settled_than_is_common_starts_anew() -> None:
    stage = promoted().opened()
    stage.master.joined("b", 1, MirrorJoinRequest(2, True, 9, 8, [(1, 1)]))
    assert stage.said == [("start", "b", 4)]


def test_one_that_lacks_what_is_settled_starts_anew() -> None:
    stage = promoted(committed=3).opened()
    resumed(stage, "b", 2)
    assert stage.said == [("start", "b", 4)]


def test_whoever_comes_in_the_middle_of_a_step_begins_behind_it() -> None:
    stage = MasterStage(ALONE).opened()
    stage.master.writer.mark_delivered(7)
    stage.master.joined("b", 1, newcomer())
    stage.master.joined("c", 1, newcomer())
    stage.master.lost("c")
    assert stage.said == []
    stage.master.end_turn()
    assert stage.said == [("start", "b", 2)]


def test_whoever_comes_before_the_epoch_is_open_begins_behind_its_opening() -> None:
    stage = MasterStage(ALONE)
    stage.master.joined("b", 1, newcomer())
    stage.master.open()
    stage.master.end_turn()
    assert stage.said == [("start", "b", 1)]


def test_a_new_master_knows_what_the_steps_it_inherits_stored() -> None:
    writer = ReplicationBatchWriter()
    writer.origin("one", 1)
    writer.store(10, 0, 0, False, 5, b"", 0)
    stage = MasterStage(BOTH, 2)
    stage.master.inherit([ReplicationBatch(2, 1, writer.finish())], 1, Epochs([(1, 1)]), OriginMarks())
    assert stage.master.marks.of("one", 1) == 5
