"""Transactions as proposals: large ones are split into consistent parts."""

from tests.unit.broker.metadata.shared_cluster import Ending, Maker, SharingCluster
from warren.broker.metadata.access_definitions import UserDefinition, VhostDefinition
from warren.broker.metadata.backend import MetadataAppliers
from warren.broker.metadata.proposal import CHANGES_MAX, STANDING_MAX, VALUE_BYTES_MAX, Proposal
from warren.broker.metadata.shared_definitions import SharedDefinitions
from warren.broker.metadata.store import IDS_PER_REVISION, id_slot
from warren.broker.metadata.topology_definitions import QUEUES, BindingDefinition, ExchangeDefinition, QueueDefinition
from warren.broker.metadata.transaction import MetadataTransaction
from warren.broker.model.effects import ProposeTransaction
from warren.broker.model.journal import MetadataChange
from warren.broker.routing.topology_transactions import add_binding_definition, add_queue_definition

TRANSACTION_MAX = 128
ONE, SAME_PLACE = next(
    (f"q{first}", f"q{second}")
    for second in range(IDS_PER_REVISION)
    for first in range(second)
    if id_slot(f"queues/v/q{first}") == id_slot(f"queues/v/q{second}")
)
"""Two names of queues of which no revision may make both."""


def vhost(name: str) -> VhostDefinition:
    return VhostDefinition(name, "", [], {})


def user(name: str) -> UserDefinition:
    return UserDefinition(name, b"", "", [], {})


def queue(name: str) -> QueueDefinition:
    return QueueDefinition("v", name, True, False, False, {})


def binding(source: str, destination: str, key: str) -> BindingDefinition:
    return BindingDefinition("v", source, destination, True, key, {}, True)


def known(*keys: str, applied: int = 50) -> SharedDefinitions:
    """A node at revision 50 that knows these keys, created and changed by the revisions from 1 on."""
    appliers = MetadataAppliers()
    appliers.add(Maker([QUEUES]))
    definitions = SharedDefinitions(appliers)
    value = queue("").value()
    definitions.adopt(applied, {key: (place, place, value) for place, key in enumerate(keys, start=1)})
    return definitions


def parts_of(transaction: MetadataTransaction, definitions: SharedDefinitions) -> list[ProposeTransaction]:
    """All parts, each committed with the next revision."""
    proposal = Proposal(transaction, definitions)
    orders = [proposal.order(1)]
    while not proposal.done(definitions.applied + len(orders)):
        orders.append(proposal.order(len(orders) + 1))
    return orders


def test_a_transaction_of_ordinary_size_is_one_part_in_its_own_order() -> None:
    transaction = MetadataTransaction()
    transaction.delete("vhosts/old")
    transaction.put(user("u"))
    transaction.rely_on("vhosts/there")
    transaction.touch("vhosts/touched")
    transaction.rely_on_all("queues/old/")
    assert parts_of(transaction, known("vhosts/old", "vhosts/there", "vhosts/touched")) == [
        ProposeTransaction(
            1,
            [("vhosts/old", 1), ("users/u", 0), ("vhosts/there", 2), ("vhosts/touched", 3)],
            [("vhosts/old", None), ("users/u", user("u").value())],
            ["vhosts/touched"],
            [("queues/old/", 50)],
        )
    ]


def test_no_transaction_is_larger_than_a_store_takes() -> None:
    transaction = MetadataTransaction()
    for number in range(300):
        transaction.put(vhost(f"v{number}"))
        transaction.delete(f"users/u{number}")
        transaction.rely_on(f"permissions/p{number}/v")
        transaction.touch(f"vhosts/t{number}")
    touched = [f"vhosts/t{number}" for number in range(300)]
    orders = parts_of(transaction, known(*touched))
    assert max(len(order.compares) for order in orders) <= TRANSACTION_MAX
    assert max(len(order.changes) + len(order.touched) for order in orders) <= CHANGES_MAX
    assert sorted(key for order in orders for key, _value in order.changes) == sorted(transaction.changes)
    assert [key for order in orders for key in order.touched] == touched
    assert {key for order in orders for key, _revision in order.compares} == set(transaction.relied_on)
    for order in orders:
        compared = {key for key, _revision in order.compares}
        assert {key for key, _value in order.changes} | set(order.touched) <= compared


def test_no_transaction_has_more_bytes_than_a_store_takes() -> None:
    transaction = MetadataTransaction()
    for number in range(5):
        transaction.put(VhostDefinition(f"v{number}", "x" * (VALUE_BYTES_MAX // 2 - 1_000), [], {}))
    transaction.put(VhostDefinition("large", "x" * VALUE_BYTES_MAX, [], {}))
    parts = parts_of(transaction, known())
    assert [[key for key, _value in part.changes] for part in parts] == [
        ["vhosts/v0", "vhosts/v1"],
        ["vhosts/v2", "vhosts/v3"],
        ["vhosts/v4"],
        ["vhosts/large"],
    ]


def test_a_transaction_counts_the_changes_that_took_effect() -> None:
    transaction = MetadataTransaction()
    for number in range(CHANGES_MAX * 2 + 1):
        transaction.put(user(f"u{number}"))
    proposal = Proposal(transaction, known())
    made = []
    for revision in (51, 52, 53):
        made.append(transaction.made)
        proposal.done(revision)
    assert [*made, transaction.made] == [0, CHANGES_MAX, CHANGES_MAX * 2, CHANGES_MAX * 2 + 1]


def test_a_transaction_in_parts_creates_containers_first_and_deletes_them_last() -> None:
    transaction = MetadataTransaction()
    transaction.delete("vhosts/old")
    for number in range(CHANGES_MAX):
        transaction.delete(f"policies/old/p{number}")
    transaction.put(user("u"))
    transaction.put(vhost("new"))
    keys = [key for order in parts_of(transaction, known("vhosts/old")) for key, _value in order.changes]
    assert keys[:2] == ["vhosts/new", "users/u"]
    assert keys[-1] == "vhosts/old"


def test_conditions_are_checked_with_each_part() -> None:
    transaction = MetadataTransaction()
    transaction.rely_on("vhosts/there")
    for number in range(CHANGES_MAX * 2):
        transaction.put(user(f"u{number}"))
    orders = parts_of(transaction, known("vhosts/there"))
    assert [order.compares[0] for order in orders] == [("vhosts/there", 1)] * 2


def test_a_part_relies_on_the_state_after_the_parts_before_it() -> None:
    transaction = MetadataTransaction()
    transaction.touch("vhosts/touched")
    transaction.rely_on_all("users/")
    for number in range(CHANGES_MAX):
        transaction.put(user(f"u{number}"))
    first, second = parts_of(transaction, known("vhosts/touched"))
    assert (first.compares[0], first.unchanged_under) == (("vhosts/touched", 1), [("users/", 50)])
    assert (second.compares[0], second.unchanged_under) == (("vhosts/touched", 51), [("users/", 51)])


def test_a_new_key_under_a_relied_on_prefix_disproves_a_transaction() -> None:
    transaction = MetadataTransaction()
    transaction.delete("vhosts/v")
    transaction.rely_on_all("queues/v/")
    definitions = known("vhosts/v", "queues/v/old", "queues/w/old")
    proposal = Proposal(transaction, definitions)
    value = queue("").value()
    definitions.change(51, [MetadataChange(51, "queues/w/new", value)])
    assert not proposal.disproved(definitions)
    definitions.change(52, [MetadataChange(52, "queues/v/new", value)])
    assert proposal.disproved(definitions)


def test_conditions_beyond_the_limit_are_checked_before_any_change() -> None:
    transaction = MetadataTransaction()
    for number in range(STANDING_MAX * 2):
        transaction.rely_on(f"vhosts/v{number}")
    transaction.put(user("u"))
    check, change = parts_of(transaction, known())
    assert (len(check.compares), check.changes) == (STANDING_MAX, [])
    assert (len(change.compares), len(change.changes)) == (STANDING_MAX + 1, 1)


def test_a_part_never_creates_two_objects_with_the_same_id() -> None:
    transaction = MetadataTransaction()
    transaction.put(vhost("v"))
    transaction.put(queue(ONE))
    transaction.put(ExchangeDefinition("v", "two", "direct", True, False, False, {}))
    transaction.put(queue(SAME_PLACE))
    orders = parts_of(transaction, known())
    assert [[key for key, _value in order.changes] for order in orders] == [
        ["vhosts/v", "exchanges/v/two", f"queues/v/{ONE}"],
        [f"queues/v/{SAME_PLACE}"],
    ]


def test_existing_objects_may_share_a_part_with_any_other() -> None:
    transaction = MetadataTransaction()
    transaction.put(queue(ONE))
    transaction.put(queue(SAME_PLACE))
    assert len(parts_of(transaction, known(f"queues/v/{ONE}"))) == 1


def test_a_binding_touches_the_ends_that_an_earlier_part_created() -> None:
    transaction = MetadataTransaction()
    transaction.put(vhost("v"))
    for name in (ONE, SAME_PLACE):
        add_queue_definition(transaction, queue(name))
    bound = binding("amq.direct", ONE, "k")
    add_binding_definition(transaction, bound)
    first, second = parts_of(transaction, known())
    assert [key for key, _value in second.changes] == [f"queues/v/{SAME_PLACE}", bound.key()]
    assert second.touched == [f"queues/v/{ONE}"]
    assert {(f"queues/v/{ONE}", 51), ("vhosts/v", 51)} <= set(second.compares)
    assert first.touched == []


def test_every_part_that_binds_a_queue_touches_it() -> None:
    transaction = MetadataTransaction()
    for number in range(CHANGES_MAX * 2):
        add_binding_definition(transaction, binding("amq.direct", "there", f"k{number}"))
    orders = parts_of(transaction, known("vhosts/v", "queues/v/there"))
    assert [order.touched for order in orders] == [["queues/v/there"]] * len(orders)
    revisions = [dict(order.compares)["queues/v/there"] for order in orders]
    assert revisions == [2, *range(51, 50 + len(orders))]


def test_a_queue_that_is_deleted_while_it_is_bound_in_parts_leaves_no_binding_behind() -> None:
    for wait_ms in range(0, 200, 5):
        cluster = SharingCluster("a", "b")
        node, other = cluster.nodes["a"], cluster.nodes["b"]
        transaction = MetadataTransaction()
        for number in range(8):
            add_queue_definition(transaction, queue(f"q{number}"))
        for number in range(CHANGES_MAX * 3):
            add_binding_definition(transaction, binding("amq.direct", "q0", f"k{number}"))
        node.backend.submit(transaction, Ending())
        node.end_turn()
        cluster.clock.pass_ms(wait_ms)
        theirs = MetadataTransaction()
        made = [key for key in other.maker.made if key.startswith("bindings/")]
        for key in made + [key for key in other.maker.made if key == "queues/v/q0"]:
            theirs.delete(key)
        other.backend.submit(theirs, Ending())
        other.end_turn()
        cluster.clock.pass_ms(5_000)
        left = [key for key in node.maker.made if key.startswith("bindings/")]
        assert "queues/v/q0" in node.maker.made or not left


def test_many_new_queues_are_created_on_all_nodes_each_with_its_own_id() -> None:
    cluster = SharingCluster("a", "b")
    transaction = MetadataTransaction()
    transaction.put(vhost("v"))
    for number in range(200):
        transaction.put(queue(f"q{number}"))
    ending = Ending()
    node = cluster.nodes["a"]
    node.backend.submit(transaction, ending)
    node.end_turn()
    cluster.clock.pass_ms(2_000)
    assert ending.outcomes == ["committed"]
    for each in cluster.nodes.values():
        ids = [created for key, (created, _value) in each.maker.made.items() if key.startswith("queues/")]
        assert len(set(ids)) == 200


def test_a_transaction_in_parts_that_another_interrupts_is_outdated_once_and_can_be_proposed_again() -> None:
    cluster = SharingCluster("a", "b")
    node, other = cluster.nodes["a"], cluster.nodes["b"]
    transaction = MetadataTransaction()
    for number in range(500):
        transaction.put(queue(f"q{number}"))
    ending, others = Ending(), Ending()
    node.backend.submit(transaction, ending)
    node.end_turn()
    cluster.clock.pass_ms(5)
    theirs = MetadataTransaction()
    theirs.put(queue("q499"))
    other.backend.submit(theirs, others)
    other.end_turn()
    cluster.clock.pass_ms(2_000)
    assert (ending.outcomes, others.outcomes) == (["outdated"], ["committed"])
    made = len(node.maker.made)
    assert 1 < made <= 500
    rest = MetadataTransaction()
    for number in range(made - 1, 500):
        rest.put(queue(f"q{number}"))
    again = Ending()
    node.backend.submit(rest, again)
    node.end_turn()
    cluster.clock.pass_ms(2_000)
    assert again.outcomes == ["committed"]
    assert len(other.maker.made) == 500
