"""A new queue gets its home by arguments, policy or setting, among the reachable nodes."""

import pytest

from warren.broker.cluster.placement import PlacingMetadataBackend, QueuePlacer
from warren.broker.membership import ClusterMembership
from warren.broker.metadata.backend import MetadataAppliers
from warren.broker.metadata.cluster_definitions import LivenessDefinition, NodeDefinition
from warren.broker.metadata.shared_backend import SharedMetadataBackend
from warren.broker.metadata.shared_definitions import QueueHomes
from warren.broker.metadata.topology_definitions import QueueDefinition
from warren.broker.metadata.transaction import MetadataTransaction, TransactionWaiter
from warren.broker.model.names import NameGenerator
from warren.broker.model.turn import Turn
from warren.broker.network_partitions import PartitionHandling
from warren.broker.policies.policies import Policies, Policy
from warren.wire.field_tables import Table

MIN_MASTERS: Table = {"x-queue-master-locator": "min-masters"}
RANDOM: Table = {"x-queue-master-locator": "random"}


@pytest.fixture
def membership() -> ClusterMembership:
    """Node b of four: a and c are reached and live, d lives and is not reached."""
    made = ClusterMembership("b", 5, PartitionHandling(), Turn())
    for place, name in enumerate("abcd"):
        made.put(NodeDefinition(name, "disc", ""), 1)
        made.put(LivenessDefinition(name, 4 + place), 2)
    made.peer_connected("a", 4)
    made.peer_connected("c", 6)
    return made


@pytest.fixture
def homes() -> QueueHomes:
    """Two queues on a and b each, one on c, none on d."""
    made = QueueHomes()
    for place, node in enumerate("aabbc"):
        made.put(QueueDefinition("/", f"q{place}", True, False, False, {}, node))
    return made


@pytest.fixture
def policies() -> Policies:
    return Policies()


@pytest.fixture
def placer(membership: ClusterMembership, homes: QueueHomes, policies: Policies) -> QueuePlacer:
    return QueuePlacer("client-local", membership, homes, policies, NameGenerator(b"seed"))


def policy(definition: Table) -> Policy:
    return Policy("/", "p", "^q", "all", definition, 0)


def test_a_queue_lives_on_the_clients_node_unless_something_else_is_said(placer: QueuePlacer) -> None:
    assert placer.home_for("/", "q", True, False, {}) == ("b", 0)


def test_a_transient_queue_ends_with_the_incarnation_of_its_node(placer: QueuePlacer) -> None:
    assert placer.home_for("/", "q", False, False, {}) == ("b", 5)
    assert placer.home_for("/", "q", False, False, MIN_MASTERS) == ("c", 6)


def test_the_node_with_the_fewest_is_one_that_is_reached(placer: QueuePlacer) -> None:
    assert placer.home_for("/", "q", True, False, MIN_MASTERS) == ("c", 0)


def test_a_node_without_a_lease_gets_no_queue(placer: QueuePlacer, membership: ClusterMembership) -> None:
    membership.delete(["alive", "c"])
    assert placer.home_for("/", "q", True, False, MIN_MASTERS) == ("b", 0)


def test_a_policy_decides_where_the_arguments_say_nothing(placer: QueuePlacer, policies: Policies) -> None:
    policies.set_policy(policy({"queue-master-locator": "min-masters"}), operator=False)
    assert placer.home_for("/", "q", True, False, {}) == ("c", 0)
    assert placer.home_for("/", "other", True, False, {}) == ("b", 0)
    assert placer.home_for("/", "q", True, False, {"x-queue-master-locator": "client-local"}) == ("b", 0)


def test_a_policy_that_lists_nodes_bounds_the_choice(placer: QueuePlacer, policies: Policies) -> None:
    policies.set_policy(policy({"ha-mode": "nodes", "ha-params": ["a", "d"]}), operator=False)
    assert placer.home_for("/", "q", True, False, MIN_MASTERS) == ("a", 0)
    assert {placer.home_for("/", "q", True, False, RANDOM) for _ in range(20)} == {("a", 0)}


def test_the_setting_decides_without_argument_and_policy(
    membership: ClusterMembership, homes: QueueHomes, policies: Policies
) -> None:
    placer = QueuePlacer("min-masters", membership, homes, policies, NameGenerator(b"seed"))
    assert placer.home_for("/", "q", True, False, {}) == ("c", 0)


def test_an_exclusive_queue_lives_with_its_client_and_ends_with_that_node(placer: QueuePlacer) -> None:
    assert placer.home_for("/", "q", True, True, MIN_MASTERS) == ("b", 5)


def test_chance_reaches_every_node_and_is_the_same_with_the_same_seed(
    membership: ClusterMembership, homes: QueueHomes, policies: Policies
) -> None:
    rows = []
    for _ in range(2):
        placer = QueuePlacer("random", membership, homes, policies, NameGenerator(b"seed"))
        rows.append([placer.home_for("/", "q", True, False, {})[0] for _ in range(30)])
    assert rows[0] == rows[1]
    assert set(rows[0]) == {"a", "b", "c"}


def test_queues_of_one_transaction_are_spread_like_single_declares(placer: QueuePlacer) -> None:
    transaction = MetadataTransaction()
    queues = [QueueDefinition("/", f"new{number}", True, False, False, MIN_MASTERS) for number in range(7)]
    for queue in queues:
        transaction.put(queue)
    turn = Turn()
    PlacingMetadataBackend(turn, SharedMetadataBackend(turn, MetadataAppliers()), placer, None).submit(
        transaction, None
    )
    # with the two, two and one existing queues: four each
    assert sorted(queue.node for queue in queues) == ["a", "a", "b", "b", "c", "c", "c"]


def test_a_witness_gets_no_queue_but_the_exclusive_ones_of_its_clients(
    placer: QueuePlacer, membership: ClusterMembership
) -> None:
    for name in "bc":
        membership.put(NodeDefinition(name, "disc", "", witness=True), 3)
    for arguments in ({}, MIN_MASTERS, RANDOM, {"x-ha-mode": "nodes", "x-ha-params": ["c", "b"]}):
        assert placer.home_for("/", "q", True, False, arguments) == ("a", 0)
    assert placer.home_for("/", "q", True, True, {}) == ("b", 5)


class Answers(TransactionWaiter):
    """Records the reason of a failure."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def committed(self) -> None:
        self.reasons.append("")

    def outdated(self) -> None:
        self.reasons.append("")

    def failed(self, reason: str) -> None:
        self.reasons.append(reason)


def test_a_queue_that_no_node_can_have_is_refused(placer: QueuePlacer, membership: ClusterMembership) -> None:
    for name in "abc":
        membership.put(NodeDefinition(name, "disc", "", witness=True), 3)
    transaction, turn, answers = MetadataTransaction(), Turn(), Answers()
    transaction.put(QueueDefinition("/", "q", True, False, False, {}))
    assert not PlacingMetadataBackend(turn, SharedMetadataBackend(turn, MetadataAppliers()), placer, None).submit(
        transaction, answers
    )
    assert answers.reasons == []
    turn.fire_timers()
    assert answers.reasons == ["this node is a witness, and reaches no node that holds queues"]
    assert turn.effects == []
