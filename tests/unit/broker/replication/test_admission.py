"""Whom a master counts, admits and drops, and what it makes of proposals of which it hears nothing."""

from tests.unit.broker.replication.stage import MasterStage, newcomer
from tests.unit.broker.replication.test_master import ALONE, BOTH, promoted, resumed
from warren.broker.model.replica_set import ReplicaSet
from warren.broker.replication.master import JOIN_TIMEOUT_MS, PROPOSAL_RETRY_MS
from warren.broker.replication.mirror import MirrorJoinRequest

WITH_B = ALONE.admitting([("b", 1)])


def caught_up(stage: MasterStage, node: str = "b") -> None:
    """A newcomer that has all there is."""
    stage.master.joined(node, 1, newcomer())
    stage.master.flushed_to(node, stage.master.end)
    stage.master.caught_up(node)


def test_a_newcomer_is_admitted_when_it_has_caught_up() -> None:
    stage = MasterStage(ALONE).opened()
    stage.master.joined("b", 1, newcomer())
    stage.master.flushed_to("b", 1)
    assert stage.proposed == []
    stage.master.caught_up("b")
    assert stage.proposed == [WITH_B]


def test_a_newcomer_counts_from_when_it_is_proposed() -> None:
    stage = MasterStage(ALONE).opened()
    caught_up(stage)
    assert stage.master.counted() == [("a", 1), ("b", 1)]
    stage.step_of(5)
    assert stage.master.committed == 1
    stage.master.flushed_to("b", 2)
    assert stage.master.committed == 2


def test_a_newcomer_is_waited_for_until_it_has_all_that_is_settled_and_then_proposed() -> None:
    stage = MasterStage(ALONE).opened()
    stage.master.joined("b", 1, newcomer())
    stage.master.flushed_to("b", 1)
    stage.step_of(5)
    stage.step_of(6)
    stage.master.caught_up("b")
    # it lacks steps 2 and 3, which are settled
    assert [stage.master.committed, stage.proposed] == [3, []]
    stage.step_of(7)
    assert stage.master.committed == 3
    stage.master.flushed_to("b", 3)
    assert [stage.master.committed, stage.proposed] == [3, [WITH_B]]
    stage.master.flushed_to("b", 4)
    assert stage.master.committed == 4


def test_a_mirror_that_was_dropped_is_not_admitted_without_what_its_master_inherited() -> None:
    """The master before may have settled steps 2 and 3 without it."""
    stage = promoted(BOTH.with_members(["a", "b", "c"])).opened()
    resumed(stage, "c", 1)
    assert ("resume", "c", 1, 1) in stage.said
    stage.master.flushed_to("c", 1)
    resumed(stage, "b", 3)
    stage.master.flushed_to("b", 4)
    assert [stage.master.committed, stage.proposed] == [4, []]
    stage.master.flushed_to("c", 3)
    assert stage.proposed == []
    stage.master.flushed_to("c", 4)
    assert [replica_set.synced_names() for replica_set in stage.proposed] == [["a", "b", "c"]]


def test_a_newcomer_is_not_admitted_before_the_step_it_began_behind_is_settled() -> None:
    stage = promoted(BOTH.with_members(["a", "b", "c"])).opened()
    resumed(stage, "b", 3)
    stage.master.joined("c", 1, newcomer(2))
    stage.master.flushed_to("c", 4)
    stage.master.caught_up("c")
    assert stage.proposed == []
    stage.master.flushed_to("b", 4)
    assert [replica_set.in_sync for replica_set in stage.proposed] == [[("a", 1), ("b", 1), ("c", 1)]]


def test_who_is_no_member_is_neither_admitted_nor_waited_for() -> None:
    stage = MasterStage(ALONE).opened()
    caught_up(stage, "x")
    stage.step_of(5)
    assert [stage.proposed, stage.master.committed] == [[], 2]


def test_a_newcomer_that_is_lost_before_it_was_proposed_counts_no_more() -> None:
    stage = MasterStage(ALONE).opened()
    stage.master.joined("b", 1, newcomer())
    stage.step_of(5)
    stage.master.flushed_to("b", 1)
    stage.master.caught_up("b")
    stage.step_of(6)
    assert stage.master.committed == 2
    stage.master.lost("b")
    assert [stage.master.committed, stage.proposed] == [3, []]


def test_one_that_is_lost_counts_until_it_is_known_to_be_dropped() -> None:
    stage = promoted().opened()
    resumed(stage, "b", 3)
    stage.unreached.add("b")
    stage.master.lost("b")
    alone = BOTH.dropping(["b"])
    assert [stage.proposed, stage.master.committed] == [[alone], 1]
    stage.master.changed(alone)
    assert stage.master.committed == 4


def test_a_new_master_waits_for_those_who_are_reached_and_not_for_others() -> None:
    replica_set = ReplicaSet(2, "a", ["a", "b", "c"], [("a", 1), ("b", 1), ("c", 1)])
    stage = promoted(replica_set)
    stage.unreached.add("c")
    stage.opened()
    stage.master.lost("c")
    assert stage.proposed == [replica_set.dropping(["c"])]
    stage.master.changed(replica_set.dropping(["c"]))
    stage.elapse(JOIN_TIMEOUT_MS - 1)
    assert len(stage.proposed) == 1
    stage.elapse(1)
    assert stage.proposed[1:] == [BOTH.with_members(["a", "b", "c"]).dropping(["b"])]


def test_what_was_proposed_counts_until_the_ring_is_seen_to_change() -> None:
    stage = MasterStage(ALONE).opened()
    caught_up(stage)
    stage.master.refused()
    stage.master.lost("b")
    stage.step_of(5)
    assert [stage.master.committed, stage.master.counted()] == [1, [("a", 1), ("b", 1)]]
    stage.master.changed(ALONE)
    assert stage.master.committed == 2


def test_the_same_ring_is_proposed_again_to_be_sure_of_it() -> None:
    stage = MasterStage(ALONE).opened()
    caught_up(stage)
    stage.master.refused()
    stage.master.lost("b")
    stage.elapse(JOIN_TIMEOUT_MS)
    assert stage.proposed == [WITH_B, ALONE]
    stage.master.changed(ALONE)
    stage.elapse(JOIN_TIMEOUT_MS)
    assert stage.proposed == [WITH_B, ALONE]


def test_what_came_to_nothing_is_proposed_again_after_a_while_and_not_at_once() -> None:
    stage = MasterStage(ALONE).opened()
    stage.elapse(JOIN_TIMEOUT_MS)
    caught_up(stage)
    stage.master.refused()
    stage.step_of(5)
    stage.master.flushed_to("b", 2)
    stage.elapse(PROPOSAL_RETRY_MS - 1)
    assert stage.proposed == [WITH_B]
    stage.elapse(1)
    assert stage.proposed == [WITH_B, WITH_B]


def test_one_proposal_is_under_way_at_a_time() -> None:
    stage = MasterStage(ALONE).opened()
    caught_up(stage, "b")
    caught_up(stage, "c")
    assert stage.proposed == [WITH_B]
    stage.master.changed(WITH_B)
    assert stage.proposed[1:] == [WITH_B.admitting([("c", 1)])]


def test_members_that_are_wanted_are_added_and_others_go_when_these_are_in_sync() -> None:
    stage = promoted().opened()
    resumed(stage, "b", 3)
    stage.master.flushed_to("b", 4)
    stage.master.want(["a", "c"])
    with_c = BOTH.with_members(["a", "b", "c"])
    assert stage.proposed == [with_c]
    stage.master.changed(with_c)
    assert len(stage.proposed) == 1
    stage.master.joined("c", 1, newcomer(2))
    stage.master.flushed_to("c", 4)
    stage.master.caught_up("c")
    assert stage.proposed[1].in_sync == [("a", 1), ("c", 1)]
    stage.master.changed(stage.proposed[1])
    assert [stage.master.replica_set.members, sorted(stage.master.followers)] == [["a", "c"], ["c"]]


def test_a_member_that_is_not_reached_is_not_waited_for_before_others_go() -> None:
    stage = promoted().opened()
    resumed(stage, "b", 3)
    stage.unreached.add("c")
    stage.master.changed(BOTH.with_members(["a", "b", "c"]))
    stage.master.want(["a", "c"])
    assert [replica_set.members for replica_set in stage.proposed] == [["a", "c"]]


def test_an_order_of_members_is_as_good_as_another() -> None:
    """Of two that were worked out while the first was under way each would take the other's place for ever."""
    stage = MasterStage(ALONE.with_members(["a"])).opened()
    stage.master.want(["a", "b", "c"])
    stage.master.want(["a", "c", "b"])
    stage.master.changed(stage.proposed[0])
    assert [replica_set.members for replica_set in stage.proposed] == [["a", "b", "c"]]


def test_members_that_stay_keep_their_order_when_others_go() -> None:
    stage = promoted(BOTH.with_members(["a", "b", "c", "d"])).opened()
    resumed(stage, "b", 3)
    stage.unreached |= {"c", "d"}
    stage.master.want(["a", "d", "b"])
    assert [replica_set.members for replica_set in stage.proposed] == [["a", "b", "d"]]


def taken_in_again(known: int) -> MasterStage:
    """One that was taken out with version 7, and taken in again with 8, asks to follow and says what it knows."""
    stage = MasterStage(ALONE).opened()
    stage.master.changed(ALONE.with_members(["a", "c"]), 7)
    stage.master.changed(ALONE, 8)
    stage.master.joined("b", 1, MirrorJoinRequest(1, True, 1, 1, [(1, 1)], known))
    return stage


def test_one_that_was_taken_out_and_in_again_is_not_heard_before_it_knows_of_that() -> None:
    """It is about to drop what it has."""
    stage = taken_in_again(known=6)
    assert [stage.said, list(stage.master.followers)] == [[], []]
    stage = taken_in_again(known=8)
    assert stage.said == [("resume", "b", 1, 1)]


def test_one_that_asks_before_its_master_knows_it_to_be_a_member_is_heard_when_it_does() -> None:
    alone = ALONE.with_members(["a"])
    stage = MasterStage(alone).opened()
    stage.master.joined("b", 1, newcomer())
    assert stage.said == []
    stage.master.changed(ALONE, 5)
    assert stage.said == [("start", "b", 1)]
    stage = MasterStage(alone).opened()
    stage.master.joined("b", 1, newcomer())
    stage.master.lost("b")
    stage.master.changed(ALONE, 5)
    assert stage.said == []


def test_a_master_hands_over_when_its_epoch_is_open() -> None:
    """Before it is not certain of what it has; it would be in sync without the whole queue."""
    stage = promoted().opened()
    stage.master.want_master("b")
    resumed(stage, "b", 3)
    assert stage.proposed == []
    stage.master.flushed_to("b", 4)
    assert stage.proposed == [BOTH.handing_over(("b", 1))]


def test_a_master_that_leaves_does_not_wait_for_that() -> None:
    stage = promoted().opened()
    stage.master.want_master("b", stopping=True)
    resumed(stage, "b", 3)
    assert stage.proposed == [BOTH.promoting(("b", 1))]


def test_one_that_came_before_it_was_taken_out_is_not_welcomed_when_it_is_in_again() -> None:
    stage = MasterStage(ALONE).opened()
    master = stage.master
    master.writer.store(5, 0, 0, True, 0, b"x", 0)
    master.must_be_flushed()
    master.joined("b", 1, MirrorJoinRequest(1, True, 1, 1, [(1, 1)], 6))
    master.changed(ALONE.with_members(["a", "c"]), 7)
    master.end_turn()
    master.changed(ALONE, 8)
    master.flushed_to("b", 2)
    stage.flush()
    master.flushed_to("b", 2)
    assert stage.proposed == [], "it is about to drop the copy it came with"
