"""The metadata backend of a cluster: outcomes of transactions, and when waiters get them."""

from random import Random

import pytest

from tests.unit.broker.metadata.shared_cluster import Ending, SharingCluster, SharingNode
from warren.broker.metadata.access_definitions import VhostDefinition, vhost_key
from warren.broker.metadata.shared_backend import STALE_AFTER_MS
from warren.broker.metadata.store import COMMITTED, IDS_PER_REVISION
from warren.broker.metadata.transaction import MetadataTransaction
from warren.broker.model.effects import ProposeTransaction
from warren.broker.model.events import DefinitionsChanged, DefinitionsCurrent, DefinitionsReplaced, TransactionDecided
from warren.broker.model.journal import MetadataChange
from warren.errors import StoreError

LATER = 1000 * IDS_PER_REVISION


def vhost(name: str, description: str = "") -> VhostDefinition:
    return VhostDefinition(name, description, [], {})


def putting(*names: str, description: str = "") -> MetadataTransaction:
    transaction = MetadataTransaction()
    for name in names:
        transaction.put(vhost(name, description))
    return transaction


def submit(node: SharingNode, transaction: MetadataTransaction) -> Ending:
    ending = Ending()
    assert not node.backend.submit(transaction, ending)
    node.end_turn()
    assert ending.outcomes == []
    return ending


@pytest.fixture
def cluster() -> SharingCluster:
    return SharingCluster("a", "b", "c")


def test_a_committed_change_is_applied_on_every_node_before_the_waiter_is_notified(cluster: SharingCluster) -> None:
    ending = submit(cluster.nodes["a"], putting("v"))
    while not ending.outcomes:
        cluster.clock.pass_ms(1)
    assert ending.outcomes == ["committed"]
    assert [list(node.maker.made) for node in cluster.nodes.values()] == [["vhosts/v"]] * 3


def test_a_proposal_alone_applies_nothing(cluster: SharingCluster) -> None:
    node = cluster.nodes["a"]
    submit(node, putting("v"))
    assert node.maker.made == {}
    assert node.proposed == [ProposeTransaction(1, [("vhosts/v", 0)], [("vhosts/v", vhost("v").value())], [], [])]


def test_an_empty_transaction_takes_effect_at_once(cluster: SharingCluster) -> None:
    node = cluster.nodes["a"]
    transaction = MetadataTransaction()
    transaction.rely_on("vhosts/v")
    assert node.backend.submit(transaction, None)
    assert not node.backend.is_immediate()
    assert node.turn.effects == []


def test_of_two_conflicting_transactions_one_takes_effect_and_one_is_proposed_again(
    cluster: SharingCluster,
) -> None:
    first = submit(cluster.nodes["a"], putting("v", description="first"))
    second = submit(cluster.nodes["b"], putting("v", description="second"))
    cluster.clock.pass_ms(100)
    assert sorted(first.outcomes + second.outcomes) == ["committed", "outdated"]
    again = submit(cluster.nodes["b"], putting("v", description="third"))
    cluster.clock.pass_ms(100)
    assert again.outcomes == ["committed"]
    assert {node.maker.made["vhosts/v"][1] for node in cluster.nodes.values()} == {vhost("v", "third").value()}


def test_a_waiter_gets_outdated_once_the_newer_state_is_applied(cluster: SharingCluster) -> None:
    node, store = cluster.nodes["a"], cluster.store
    ending = submit(node, putting("v"))
    node.backend.decided(TransactionDecided(1, "outdated", store.revision + 1))
    assert ending.outcomes == []
    node.backend.changed(
        DefinitionsChanged(store.revision + 1, [MetadataChange(store.revision + 1, "vhosts/v", vhost("v").value())])
    )
    assert ending.outcomes == ["outdated"]
    assert "vhosts/v" in node.maker.made


def test_a_slow_node_is_waited_for_and_an_ended_incarnation_is_not(cluster: SharingCluster) -> None:
    slow = cluster.nodes["c"]
    slow.seat.cut()
    ending = submit(cluster.nodes["a"], putting("v"))
    cluster.clock.pass_ms(1_000)
    assert ending.outcomes == []
    cluster.lose(slow)
    assert ending.outcomes == ["committed"]


def test_a_node_whose_link_is_lost_is_waited_for_until_it_knows_itself_that_it_is_stale(
    cluster: SharingCluster,
) -> None:
    node, parted = cluster.nodes["a"], cluster.nodes["c"]
    parted.seat.cut()
    cluster.part(node, parted)
    ending = submit(node, putting("v"))
    while not ending.outcomes:
        assert [run[:2] for run in node.backend.lost_incarnations()] == [("c", 1)]
        cluster.clock.pass_ms(100)
    assert ending.outcomes == ["committed"]
    assert parted.backend.is_stale(cluster.clock.now_ms)
    quick = submit(node, putting("w"))
    cluster.clock.pass_ms(100)
    assert quick.outcomes == ["committed"]


def test_two_nodes_that_lost_their_link_take_themselves_to_be_behind_until_it_is_back(cluster: SharingCluster) -> None:
    node, parted = cluster.nodes["a"], cluster.nodes["c"]
    cluster.part(node, parted)
    cluster.clock.pass_ms(20_000)
    now_ms = cluster.clock.now_ms
    assert [one.backend.may_be_behind(now_ms) for one in cluster.nodes.values()] == [True, False, True]
    assert not any(one.backend.is_stale(now_ms) for one in cluster.nodes.values())
    node.backend.peer_connected("c", 1)
    parted.backend.peer_over("a")
    assert [one.backend.may_be_behind(now_ms) for one in cluster.nodes.values()] == [False] * 3


def test_a_reconnected_node_ends_the_waiting_with_its_first_report(cluster: SharingCluster) -> None:
    node, parted = cluster.nodes["a"], cluster.nodes["c"]
    cluster.part(node, parted)
    node.backend.peer_applied("c", 1_000_000)
    ending = submit(node, putting("v"))
    cluster.clock.pass_ms(1_000)
    assert ending.outcomes == []
    node.backend.peer_connected("c", 1)
    assert node.backend.lost_incarnations() == []
    node.backend.peer_applied("c", parted.backend.applied)
    assert ending.outcomes == ["committed"]


def test_a_node_is_as_current_as_the_question_however_long_the_answer_took(cluster: SharingCluster) -> None:
    backend = cluster.nodes["a"].backend
    asked_ms = cluster.clock.now_ms + 10_000
    backend.current(DefinitionsCurrent(backend.applied, asked_ms))
    # an answer to an earlier question is older
    backend.current(DefinitionsCurrent(backend.applied, asked_ms - 2_000))
    assert [backend.is_stale(asked_ms + after_ms) for after_ms in (STALE_AFTER_MS, STALE_AFTER_MS + 1)] == [
        False,
        True,
    ]


def test_a_snapshot_does_not_make_a_node_current(cluster: SharingCluster) -> None:
    node = cluster.nodes["a"]
    node.seat.cut()
    cluster.clock.pass_ms(STALE_AFTER_MS + 1)
    node.take(DefinitionsReplaced(*cluster.store.snapshot()))
    assert node.backend.is_stale(cluster.clock.now_ms)


def test_a_slow_node_that_gets_there_ends_the_waiting(cluster: SharingCluster) -> None:
    slow = cluster.nodes["c"]
    slow.seat.cut()
    ending = submit(cluster.nodes["a"], putting("v"))
    cluster.clock.pass_ms(1_000)
    slow.seat.mend()
    cluster.clock.pass_ms(100)
    assert ending.outcomes == ["committed"]
    assert "vhosts/v" in slow.maker.made


def test_a_node_that_is_cut_off_from_the_store_alone_is_left_behind_when_it_knows_itself_that_it_is_stale(
    cluster: SharingCluster,
) -> None:
    behind, node = cluster.nodes["c"], cluster.nodes["a"]
    behind.seat.cut()
    ending = submit(node, putting("v"))
    while not ending.outcomes:
        cluster.clock.pass_ms(100)
    assert ending.outcomes == ["committed"]
    assert behind.backend.is_stale(cluster.clock.now_ms)
    assert not node.backend.is_stale(cluster.clock.now_ms)
    assert [note.name for note in node.notes] == ["peer.behind"]
    quick = submit(node, putting("w"))
    cluster.clock.pass_ms(100)
    assert quick.outcomes == ["committed"]
    behind.seat.mend()
    cluster.clock.pass_ms(100)
    assert [note.name for note in node.notes] == ["peer.behind", "peer.caught_up"]
    behind.seat.cut()
    slow = submit(node, putting("x"))
    cluster.clock.pass_ms(1_000)
    assert slow.outcomes == []


def test_without_a_majority_a_transaction_fails_and_nothing_is_applied(cluster: SharingCluster) -> None:
    cluster.store.set_majority(False)
    ending = submit(cluster.nodes["a"], putting("v"))
    cluster.clock.pass_ms(20_000)
    assert ending.outcomes == ["failed: the store cannot be reached"]
    assert all(node.backend.is_stale(cluster.clock.now_ms) for node in cluster.nodes.values())
    cluster.store.set_majority(True)
    cluster.clock.pass_ms(2_000)
    assert all(node.maker.made == {} for node in cluster.nodes.values())
    assert not cluster.nodes["a"].backend.is_stale(cluster.clock.now_ms)


def test_a_store_that_never_answers_is_given_up_after_ten_seconds(cluster: SharingCluster) -> None:
    node = cluster.nodes["a"]
    ending = Ending()
    node.backend.submit(putting("v"), ending)
    ticket = next(effect.ticket for effect in node.turn.effects if isinstance(effect, ProposeTransaction))
    node.turn.effects = []
    node.end_turn()
    cluster.clock.pass_ms(9_000)
    assert ending.outcomes == []
    cluster.clock.pass_ms(2_000)
    assert ending.outcomes == ["failed: the cluster's metadata store did not answer within 10 seconds"]
    node.backend.decided(TransactionDecided(ticket, COMMITTED, 5))
    assert len(ending.outcomes) == 1


def test_an_unknown_outcome_is_reported_as_a_failure(cluster: SharingCluster) -> None:
    node = cluster.nodes["a"]
    ending = submit(node, putting("v"))
    # the request arrives after one millisecond, its answer is lost
    cluster.clock.pass_ms(1)
    node.seat.cut()
    cluster.clock.pass_ms(5_000)
    assert ending.outcomes == ["failed: the store did not answer"]
    node.seat.mend()
    cluster.clock.pass_ms(100)
    assert "vhosts/v" in node.maker.made


def test_a_change_that_this_node_has_not_applied_is_no_success(cluster: SharingCluster) -> None:
    node = cluster.nodes["a"]
    ending = submit(node, putting("v"))
    node.backend.decided(TransactionDecided(1, COMMITTED, 1_000_000))
    cluster.clock.pass_ms(20_000)
    assert ending.outcomes == [
        "failed: the cluster's metadata store agreed, but this node has not heard of the change in time"
    ]


def test_a_node_that_still_applies_changes_is_waited_for(cluster: SharingCluster) -> None:
    """A large import is committed faster than it is applied."""
    node = cluster.nodes["a"]
    ending = submit(node, putting("v"))
    node.backend.decided(TransactionDecided(1, COMMITTED, LATER + 10))
    for heard in range(10):
        node.take(DefinitionsCurrent(LATER + heard, cluster.clock.now_ms))
        cluster.clock.pass_ms(5_000)
        assert ending.outcomes == []
    cluster.clock.pass_ms(12_000)
    assert [outcome[:6] for outcome in ending.outcomes] == ["failed"]


def test_transactions_are_held_while_a_node_joins(cluster: SharingCluster) -> None:
    node = cluster.nodes["a"]
    node.backend.hold()
    fresh = submit(node, putting("v"))
    outdated = submit(node, putting("w"))
    cluster.clock.pass_ms(100)
    assert node.proposed == []
    submit(cluster.nodes["b"], putting("w"))
    cluster.clock.pass_ms(100)
    node.backend.begin()
    node.end_turn()
    cluster.clock.pass_ms(100)
    assert (fresh.outcomes, outdated.outcomes) == (["committed"], ["outdated"])


def test_a_held_transaction_that_timed_out_is_not_proposed(cluster: SharingCluster) -> None:
    node = cluster.nodes["a"]
    node.backend.hold()
    ending = submit(node, putting("v"))
    cluster.clock.pass_ms(11_000)
    node.backend.begin()
    node.end_turn()
    assert [outcome[:6] for outcome in ending.outcomes] == ["failed"]
    assert node.proposed == []


def test_an_object_keeps_the_revision_that_created_it(cluster: SharingCluster) -> None:
    node = cluster.nodes["a"]
    submit(node, putting("v"))
    cluster.clock.pass_ms(100)
    created = node.maker.made["vhosts/v"][0]
    submit(node, putting("v", description="changed"))
    cluster.clock.pass_ms(100)
    assert node.maker.made["vhosts/v"] == (created, vhost("v", "changed").value())
    assert node.backend.modified("vhosts/v") > created


def test_touching_a_key_outdates_transactions_that_rely_on_it(cluster: SharingCluster) -> None:
    submit(cluster.nodes["a"], putting("v"))
    cluster.clock.pass_ms(100)
    touching = putting("w")
    touching.touch(vhost_key("v"))
    deleting = MetadataTransaction()
    deleting.delete(vhost_key("v"))
    first = submit(cluster.nodes["a"], touching)
    second = submit(cluster.nodes["b"], deleting)
    cluster.clock.pass_ms(100)
    assert (first.outcomes, second.outcomes) == (["committed"], ["outdated"])
    assert cluster.nodes["b"].maker.made["vhosts/v"][1] == vhost("v").value()


def test_a_missing_key_cannot_be_touched_and_must_stay_missing(cluster: SharingCluster) -> None:
    transaction = putting("w")
    transaction.touch(vhost_key("v"))
    node = cluster.nodes["a"]
    ending = submit(node, transaction)
    assert (node.proposed[0].touched, sorted(node.proposed[0].compares)) == ([], [("vhosts/v", 0), ("vhosts/w", 0)])
    cluster.clock.pass_ms(100)
    assert ending.outcomes == ["committed"]


def test_a_new_key_under_a_prefix_outdates_transactions_that_rely_on_it(cluster: SharingCluster) -> None:
    deleting = MetadataTransaction()
    deleting.rely_on_all("vhosts/")
    deleting.put(vhost("mark"))
    submit(cluster.nodes["b"], putting("v"))
    ending = submit(cluster.nodes["a"], deleting)
    cluster.clock.pass_ms(100)
    assert ending.outcomes == ["outdated"]
    again = MetadataTransaction()
    again.rely_on_all("vhosts/")
    again.put(vhost("mark"))
    ended = submit(cluster.nodes["a"], again)
    cluster.clock.pass_ms(100)
    assert ended.outcomes == ["committed"]
    assert "vhosts/mark" in cluster.store.snapshot()[1]


def test_the_applied_revision_is_reported_once(cluster: SharingCluster) -> None:
    node = cluster.nodes["a"]
    assert node.backend.take_unreported() == 0
    node.backend.changed(DefinitionsChanged(LATER, []))
    assert (node.backend.take_unreported(), node.backend.take_unreported()) == (LATER, 0)


def test_a_damaged_definition_stops_the_node(cluster: SharingCluster) -> None:
    node = cluster.nodes["a"]
    with pytest.raises(StoreError, match="knows nothing of that kind"):
        node.backend.changed(DefinitionsChanged(LATER, [MetadataChange(LATER, "rings/a", b"")]))
    with pytest.raises(StoreError, match="damaged"):
        node.backend.replaced(DefinitionsReplaced(LATER, {"vhosts/v": (LATER, LATER, b"?")}))


@pytest.mark.parametrize("seed", range(20))
def test_nodes_converge_and_no_waiter_is_notified_twice(seed: int) -> None:
    chance = Random(seed)
    cluster = SharingCluster("a", "b", "c", delay_ms=lambda: chance.choice((0, 1, 5, 40)))
    nodes = list(cluster.nodes.values())
    endings: list[tuple[Ending, str, bytes]] = []
    for number in range(150):
        node = chance.choice(nodes)
        name = f"v{chance.randrange(6)}"
        transaction = MetadataTransaction()
        if chance.random() < 0.3:
            transaction.delete(vhost_key(name))
        else:
            transaction.put(vhost(name, str(number)))
        ending = Ending()
        node.backend.submit(transaction, ending)
        node.end_turn()
        endings.append((ending, name, vhost(name, str(number)).value()))
        if chance.random() < 0.1:
            chance.choice((node.seat.cut, node.seat.mend, cluster.store.forget_history))()
        cluster.clock.pass_ms(chance.choice((0, 1, 10, 300)))
    for node in nodes:
        node.seat.mend()
    cluster.clock.pass_ms(20_000)
    _revision, snapshot = cluster.store.snapshot()
    wanted = {key: (created, value) for key, (created, _modified, value) in snapshot.items()}
    assert [node.maker.made for node in nodes] == [wanted] * 3
    assert [len(ending.outcomes) for ending, _name, _value in endings] == [1] * 150
    assert {"committed", "outdated"} <= {ending.outcomes[0] for ending, _name, _value in endings}
