"""Which mirrors a master counts, admits and drops, and how it repeats proposals without an answer."""

from tests.unit.broker.replication.stage import MasterStage, empty_join_request
from tests.unit.broker.replication.test_master import ALONE, BOTH, promoted, resumed
from warren.broker.model.replica_set import ReplicaSet
from warren.broker.replication.master import JOIN_TIMEOUT_MS, PROPOSAL_RETRY_MS
from warren.broker.replication.mirror import MirrorJoinRequest

WITH_B = ALONE.admitting([("b", 1)])


def caught_up(stage: MasterStage, node: str = "b") -> None:
    """A joining mirror that has caught up."""
    stage.master.joined(node, 1, empty_join_request())
    stage.master.flushed_to(node, stage.master.end)
    stage.master.caught_up(node)


def test_a_joining_mirror_is_admitted_when_it_has_caught_up() -> None:
    stage = MasterStage(ALONE).opened()
    stage.master.joined("b", 1, empty_join_request())
    stage.master.flushed_to("b", 1)
    assert stage.proposed == []
    stage.master.caught_up("b")
    assert stage.proposed == [WITH_B]


def test_a_joining_mirror_is_counted_as_soon_as_it_is_proposed() -> None:
    stage = MasterStage(ALONE).opened()
    caught_up(stage)
    assert stage.master.counted() == [("a", 1), ("b", 1)]
    stage.write_batch(5)
    assert stage.master.committed == 1
    stage.master.flushed_to("b", 2)
    assert stage.master.committed == 2


def test_a_mirror_that_caught_up_holds_commits_back_and_is_proposed_when_it_has_all_committed_batches() -> None:
    stage = MasterStage(ALONE).opened()
    stage.master.joined("b", 1, empty_join_request())
    stage.master.flushed_to("b", 1)
    stage.write_batch(5)
    stage.write_batch(6)
    stage.master.caught_up("b")
    # it lacks batches 2 and 3, which are committed
    assert [stage.master.committed, stage.proposed] == [3, []]
    stage.write_batch(7)
    assert stage.master.committed == 3
    stage.master.flushed_to("b", 3)
    assert [stage.master.committed, stage.proposed] == [3, [WITH_B]]
    stage.master.flushed_to("b", 4)
    assert stage.master.committed == 4


def test_a_dropped_mirror_is_not_admitted_without_the_batches_its_master_inherited() -> None:
    """The previous master may have committed batches 2 and 3 without it."""
    stage = promoted(BOTH.with_members(["a", "b", "c"])).opened()
    resumed(stage, "c", 1)
    assert ("resume", "c", 1, 1) in stage.sent
    stage.master.flushed_to("c", 1)
    resumed(stage, "b", 3)
    stage.master.flushed_to("b", 4)
    assert [stage.master.committed, stage.proposed] == [4, []]
    stage.master.flushed_to("c", 3)
    assert stage.proposed == []
    stage.master.flushed_to("c", 4)
    assert [replica_set.synced_names() for replica_set in stage.proposed] == [["a", "b", "c"]]


def test_a_joining_mirror_is_not_admitted_before_the_batch_it_started_after_is_committed() -> None:
    stage = promoted(BOTH.with_members(["a", "b", "c"])).opened()
    resumed(stage, "b", 3)
    stage.master.joined("c", 1, empty_join_request(2))
    stage.master.flushed_to("c", 4)
    stage.master.caught_up("c")
    assert stage.proposed == []
    stage.master.flushed_to("b", 4)
    assert [replica_set.in_sync for replica_set in stage.proposed] == [[("a", 1), ("b", 1), ("c", 1)]]


def test_a_node_that_is_no_member_is_neither_admitted_nor_waited_for() -> None:
    stage = MasterStage(ALONE).opened()
    caught_up(stage, "x")
    stage.write_batch(5)
    assert [stage.proposed, stage.master.committed] == [[], 2]


def test_a_joining_mirror_that_is_lost_before_its_proposal_is_no_longer_counted() -> None:
    stage = MasterStage(ALONE).opened()
    stage.master.joined("b", 1, empty_join_request())
    stage.write_batch(5)
    stage.master.flushed_to("b", 1)
    stage.master.caught_up("b")
    stage.write_batch(6)
    assert stage.master.committed == 2
    stage.master.lost("b")
    assert [stage.master.committed, stage.proposed] == [3, []]


def test_a_lost_mirror_is_counted_until_it_is_dropped_from_the_replica_set() -> None:
    stage = promoted().opened()
    resumed(stage, "b", 3)
    stage.unreached.add("b")
    stage.master.lost("b")
    alone = BOTH.dropping(["b"])
    assert [stage.proposed, stage.master.committed] == [[alone], 1]
    stage.master.changed(alone)
    assert stage.master.committed == 4


def test_a_new_master_waits_for_reachable_mirrors_only() -> None:
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


def test_a_proposed_mirror_is_counted_until_the_replica_set_changes() -> None:
    stage = MasterStage(ALONE).opened()
    caught_up(stage)
    stage.master.refused()
    stage.master.lost("b")
    stage.write_batch(5)
    assert [stage.master.committed, stage.master.counted()] == [1, [("a", 1), ("b", 1)]]
    stage.master.changed(ALONE)
    assert stage.master.committed == 2


def test_the_current_replica_set_is_proposed_again_after_a_proposal_without_an_answer() -> None:
    stage = MasterStage(ALONE).opened()
    caught_up(stage)
    stage.master.refused()
    stage.master.lost("b")
    stage.elapse(JOIN_TIMEOUT_MS)
    assert stage.proposed == [WITH_B, ALONE]
    stage.master.changed(ALONE)
    stage.elapse(JOIN_TIMEOUT_MS)
    assert stage.proposed == [WITH_B, ALONE]


def test_a_refused_proposal_is_repeated_after_a_pause() -> None:
    stage = MasterStage(ALONE).opened()
    stage.elapse(JOIN_TIMEOUT_MS)
    caught_up(stage)
    stage.master.refused()
    stage.write_batch(5)
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


def test_wanted_members_are_added_and_unwanted_ones_leave_when_those_are_in_sync() -> None:
    stage = promoted().opened()
    resumed(stage, "b", 3)
    stage.master.flushed_to("b", 4)
    stage.master.want(["a", "c"])
    with_c = BOTH.with_members(["a", "b", "c"])
    assert stage.proposed == [with_c]
    stage.master.changed(with_c)
    assert len(stage.proposed) == 1
    stage.master.joined("c", 1, empty_join_request(2))
    stage.master.flushed_to("c", 4)
    stage.master.caught_up("c")
    assert stage.proposed[1].in_sync == [("a", 1), ("c", 1)]
    stage.master.changed(stage.proposed[1])
    assert [stage.master.replica_set.members, sorted(stage.master.followers)] == [["a", "c"], ["c"]]


def test_an_unreachable_wanted_member_does_not_delay_the_removal_of_others() -> None:
    stage = promoted().opened()
    resumed(stage, "b", 3)
    stage.unreached.add("c")
    stage.master.changed(BOTH.with_members(["a", "b", "c"]))
    stage.master.want(["a", "c"])
    assert [replica_set.members for replica_set in stage.proposed] == [["a", "c"]]


def test_another_order_of_the_same_members_is_not_proposed() -> None:
    """Two orders, computed while the first proposal is pending, would replace each other for ever."""
    stage = MasterStage(ALONE.with_members(["a"])).opened()
    stage.master.want(["a", "b", "c"])
    stage.master.want(["a", "c", "b"])
    stage.master.changed(stage.proposed[0])
    assert [replica_set.members for replica_set in stage.proposed] == [["a", "b", "c"]]


def test_remaining_members_keep_their_order_when_others_leave() -> None:
    stage = promoted(BOTH.with_members(["a", "b", "c", "d"])).opened()
    resumed(stage, "b", 3)
    stage.unreached |= {"c", "d"}
    stage.master.want(["a", "d", "b"])
    assert [replica_set.members for replica_set in stage.proposed] == [["a", "b", "d"]]


def added_again(known: int) -> MasterStage:
    """A member removed in version 7 and added again in version 8 asks to join; `known` is its version."""
    stage = MasterStage(ALONE).opened()
    stage.master.changed(ALONE.with_members(["a", "c"]), 7)
    stage.master.changed(ALONE, 8)
    stage.master.joined("b", 1, MirrorJoinRequest(1, True, 1, 1, [(1, 1)], known))
    return stage


def test_a_member_added_again_joins_only_when_it_knows_that_it_was_removed() -> None:
    """Before that, it has contents that it must drop."""
    stage = added_again(known=6)
    assert [stage.sent, list(stage.master.followers)] == [[], []]
    stage = added_again(known=8)
    assert stage.sent == [("resume", "b", 1, 1)]


def test_a_join_request_before_the_master_knows_the_member_is_answered_later() -> None:
    alone = ALONE.with_members(["a"])
    stage = MasterStage(alone).opened()
    stage.master.joined("b", 1, empty_join_request())
    assert stage.sent == []
    stage.master.changed(ALONE, 5)
    assert stage.sent == [("start", "b", 1)]
    stage = MasterStage(alone).opened()
    stage.master.joined("b", 1, empty_join_request())
    stage.master.lost("b")
    stage.master.changed(ALONE, 5)
    assert stage.sent == []


def test_a_master_hands_over_when_its_epoch_is_open() -> None:
    """Before that it may lack messages, and would be in sync without them after the handover."""
    stage = promoted().opened()
    stage.master.want_master("b")
    resumed(stage, "b", 3)
    assert stage.proposed == []
    stage.master.flushed_to("b", 4)
    assert stage.proposed == [BOTH.handing_over(("b", 1))]


def test_a_stopping_master_hands_over_before_its_epoch_is_open() -> None:
    stage = promoted().opened()
    stage.master.want_master("b", stopping=True)
    resumed(stage, "b", 3)
    assert stage.proposed == [BOTH.promoting(("b", 1))]


def test_a_join_request_from_before_a_removal_does_not_count_after_the_member_is_added_again() -> None:
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
    assert stage.proposed == [], "it must drop its contents first"
