"""The state of a master that becomes a mirror."""

from tests.unit.broker.replication.stage import PAYLOAD, MasterStage, MirrorStage
from warren.broker.model.replica_set import ReplicaSet
from warren.broker.replication.master import step_down


def test_a_master_that_steps_down_keeps_its_batches_and_drops_unsent_messages() -> None:
    master = MasterStage(ReplicaSet(1, "a", ["a", "b"], [("a", 1), ("b", 1)])).opened().master
    for position, count in ((10, 4), (11, 5), (12, 6)):
        master.writer.origin("one", 1)
        master.writer.store(position, 0, 0, False, count, PAYLOAD, 0)
        master.marks.record("one", 1, count)
        if position != 12:
            master.end_turn()
    stage = MirrorStage()
    stage.copy.held = {10: False, 11: False, 12: False}
    step_down(master, stage.mirror)
    mirror = stage.mirror
    mirror.check()
    assert [mirror.whole, mirror.committed, mirror.end, sorted(stage.copy.held)] == [True, 0, 3, [10, 11]]
    # uncommitted messages may be dropped, so they do not count in the origin marks
    assert mirror.marks.of("one", 1) == 3
    mirror.follow(2)
    mirror.resume(2, 2)
    assert [mirror.end, sorted(stage.copy.held), mirror.marks.of("one", 1)] == [2, [10], 4]
