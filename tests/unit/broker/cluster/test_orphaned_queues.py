"""Orphaned queues are removed once, by any node."""

from random import Random

import pytest

from tests.unit.broker.metadata.shared_cluster import Ending, SharingCluster, SharingNode
from warren.broker.appliers import TopologyApplier
from warren.broker.cluster.orphaned_queues import OrphanedQueues
from warren.broker.membership import ClusterMembership
from warren.broker.metadata.cluster_definitions import LivenessDefinition, NodeDefinition, node_key
from warren.broker.metadata.store import Definition
from warren.broker.metadata.topology_definitions import BindingDefinition, ExchangeDefinition, QueueDefinition
from warren.broker.metadata.transaction import MetadataTransaction
from warren.broker.model.effects import ProposeTransaction
from warren.broker.model.replica_set import ReplicaSet
from warren.broker.network_partitions import PartitionHandling
from warren.broker.routing.topology_transactions import (
    add_binding_definition,
    add_exchange_definition,
    add_queue_definition,
)
from warren.broker.vhost import Vhost
from warren.sim.cluster.metadata_store import LEASE_MS

LONG_MS = 4 * LEASE_MS


class Living:
    """A node's objects besides its backend."""

    def __init__(self, node: SharingNode, incarnation: int) -> None:
        self.node = node
        self.vhosts = {"/": Vhost("/", node.turn, node.backend)}
        self.membership = ClusterMembership(node.name, incarnation, PartitionHandling(), node.turn)
        node.appliers.add(TopologyApplier(self.vhosts, node.turn.stats))
        node.appliers.add(self.membership)
        self.orphaned_queues = OrphanedQueues(node.turn, node.backend, self.membership, node.backend.homes, self.vhosts)
        self.membership.listener = self.orphaned_queues

    def queues(self) -> list[str]:
        return sorted(self.vhosts["/"].topology.queues)

    def exchanges(self) -> list[str]:
        return sorted(name for name in self.vhosts["/"].topology.exchanges if name and not name.startswith("amq."))


class World:
    """Nodes that live and die."""

    def __init__(self, *names: str) -> None:
        self.cluster = SharingCluster()
        self.runs: dict[str, int] = {}
        self.living: dict[str, Living] = {}
        for name in names:
            self.start(name)

    def start(self, name: str) -> Living:
        self.runs[name] = self.runs.get(name, 0) + 1
        node = self.cluster.start(name, self._equip)
        living = self.living[name]
        alive = LivenessDefinition(name, self.runs[name])
        node.seat.hold(alive.key(), alive.value())
        self.submit(name, NodeDefinition(name, "disc", ""))
        living.orphaned_queues.node_started()
        node.end_turn()
        self.pass_ms(100)
        return living

    def _equip(self, node: SharingNode) -> None:
        self.living[node.name] = Living(node, self.runs[node.name])

    def kill(self, name: str) -> None:
        self.cluster.lose(self.cluster.nodes[name])
        del self.living[name]

    def forget(self, name: str) -> None:
        """Remove a node from the members."""
        transaction = MetadataTransaction()
        transaction.delete(node_key(name), kept=True)
        node = self.cluster.nodes[next(iter(self.living))]
        node.backend.submit(transaction, None)
        node.end_turn()

    def pass_ms(self, milliseconds: int) -> None:
        self.cluster.clock.pass_ms(milliseconds)

    def submit(self, name: str, *definitions: Definition) -> None:
        ending = Ending()
        transaction = MetadataTransaction()
        for definition in definitions:
            if isinstance(definition, QueueDefinition):
                add_queue_definition(transaction, definition)
            elif isinstance(definition, ExchangeDefinition):
                add_exchange_definition(transaction, definition)
            elif isinstance(definition, BindingDefinition):
                add_binding_definition(transaction, definition)
            else:
                transaction.put(definition)
        node = self.cluster.nodes[name]
        node.backend.submit(transaction, ending)
        node.end_turn()
        for _ in range(1_000):
            if ending.outcomes:
                break
            self.pass_ms(5)
        assert ending.outcomes == ["committed"]

    def fleeting(self, home: str, *names: str) -> None:
        """Declare transient queues on a node, each bound to an auto-delete fanout exchange."""
        for name in names:
            self.submit(home, QueueDefinition("/", name, False, False, False, {}, home, 0, self.runs[home]))
            if f"exchanges/%2F/{home}.x" not in self.cluster.store.snapshot()[1]:
                self.submit(home, ExchangeDefinition("/", f"{home}.x", "fanout", False, True, False, {}))
            self.submit(home, BindingDefinition("/", f"{home}.x", name, True, "", {}, False))


@pytest.fixture
def world() -> World:
    return World("a", "b", "c")


def keys(world: World) -> list[str]:
    kinds = ("queues/", "exchanges/", "bindings/")
    return sorted(key for key in world.cluster.store.snapshot()[1] if key.startswith(kinds))


def test_transient_queues_of_a_dead_node_are_removed_with_their_bindings(world: World) -> None:
    world.submit("c", QueueDefinition("/", "kept", True, False, False, {}, "c"))
    world.fleeting("c", "one", "two")
    world.fleeting("b", "theirs")
    assert world.living["a"].queues() == ["kept", "one", "theirs", "two"]
    assert world.living["a"].orphaned_queues.clear
    world.kill("c")
    world.pass_ms(LONG_MS)
    for living in world.living.values():
        assert living.queues() == ["kept", "theirs"]
        assert living.exchanges() == ["b.x"]
        assert living.orphaned_queues.clear
    assert keys(world) == ["bindings/%2F/b.x/q/theirs//-", "exchanges/%2F/b.x", "queues/%2F/kept", "queues/%2F/theirs"]


def test_all_queues_of_a_forgotten_node_are_removed(world: World) -> None:
    world.submit("c", *[QueueDefinition("/", f"q{number}", True, False, False, {}, "c") for number in range(3)])
    world.submit("c", BindingDefinition("/", "amq.fanout", "q1", True, "", {}, True))
    world.submit("b", QueueDefinition("/", "theirs", True, False, False, {}, "b"))
    world.kill("c")
    world.pass_ms(LONG_MS)
    assert world.living["a"].orphaned_queues.clear
    world.forget("c")
    world.pass_ms(LONG_MS)
    for living in world.living.values():
        assert living.queues() == ["theirs"]
        assert living.orphaned_queues.clear
    assert keys(world) == ["queues/%2F/theirs"]


def mirrored(name: str, durable: bool, members: list[str], in_sync: list[str]) -> QueueDefinition:
    replica_set = ReplicaSet(1, in_sync[0], members, [(node, 1) for node in in_sync])
    return QueueDefinition("/", name, durable, False, False, {}).with_replica_set(replica_set)


def test_a_mirrored_queue_of_a_forgotten_node_stays_on_the_other_replicas(world: World) -> None:
    world.submit("c", mirrored("ours", True, ["c", "b"], ["c", "b"]), mirrored("theirs", True, ["c"], ["c"]))
    world.kill("c")
    world.pass_ms(LONG_MS)
    assert world.living["a"].queues() == ["ours", "theirs"]
    world.forget("c")
    world.pass_ms(LONG_MS)
    for living in world.living.values():
        assert living.queues() == ["ours"]
        assert living.orphaned_queues.clear


def test_a_transient_mirrored_queue_ends_with_the_last_in_sync_incarnation(world: World) -> None:
    world.submit("c", mirrored("ours", False, ["c", "b"], ["c", "b"]), mirrored("theirs", False, ["c", "b"], ["c"]))
    world.kill("c")
    world.pass_ms(LONG_MS)
    assert world.living["a"].queues() == ["ours"]
    world.kill("b")
    world.start("b")
    world.pass_ms(LONG_MS)
    assert world.living["a"].queues() == []


def test_an_incarnation_with_a_lower_number_is_another_incarnation(world: World) -> None:
    """A node that was reset counts its incarnations from 1 again."""
    world.start("c")
    world.fleeting("c", "old")
    world.kill("c")
    world.runs["c"] = 0
    back = world.start("c")
    world.pass_ms(LONG_MS)
    assert back.queues() == []


def test_no_queue_is_removed_while_its_node_may_live(world: World) -> None:
    world.fleeting("c", "one")
    world.kill("c")
    world.pass_ms(LEASE_MS // 2)
    assert world.living["a"].queues() == ["one"]


def test_the_living_node_with_the_lowest_rank_removes_orphans_alone(world: World) -> None:
    world.fleeting("a", *[f"q{number}" for number in range(50)])
    before = {name: len(living.node.proposed) for name, living in world.living.items()}
    world.kill("a")
    world.pass_ms(LONG_MS)
    proposed = {name: len(living.node.proposed) - before[name] for name, living in world.living.items()}
    # two full batches, the rest, and the exchange that was deleted with the last of them
    assert proposed == {"b": 3, "c": 0}
    assert keys(world) == []


def test_when_the_first_node_cannot_remove_orphans_the_next_one_does(world: World) -> None:
    world.fleeting("c", "one", "two")
    world.cluster.nodes["a"].seat.cut()
    world.kill("c")
    world.pass_ms(LONG_MS * 2)
    assert keys(world) == []
    assert world.living["b"].orphaned_queues.clear


def test_without_a_majority_no_orphan_is_removed(world: World) -> None:
    world.fleeting("c", "one")
    world.kill("c")
    world.cluster.store.set_majority(False)
    world.pass_ms(LONG_MS)
    assert world.living["a"].queues() == ["one"]
    world.cluster.store.set_majority(True)
    world.pass_ms(LONG_MS)
    assert keys(world) == []


def test_a_failed_removal_is_tried_again(world: World) -> None:
    world.fleeting("c", "one")
    survivors = [world.cluster.nodes[name] for name in "ab"]
    world.kill("c")
    # the lease ends and all nodes hear of it, but their proposals are lost
    for node in survivors:
        node.losing = True
    world.pass_ms(LONG_MS)
    assert "queues/%2F/one" in keys(world)
    for node in survivors:
        node.losing = False
    world.pass_ms(LONG_MS)
    assert keys(world) == []


def test_a_restarted_node_removes_the_orphans_of_its_earlier_incarnation() -> None:
    world = World("a")
    world.fleeting("a", "one")
    world.kill("a")
    again = world.start("a")
    world.pass_ms(LONG_MS)
    assert again.queues() == []
    assert keys(world) == []


def test_a_node_that_restarts_within_its_lease_has_lost_its_transient_queues(world: World) -> None:
    world.fleeting("c", "one")
    world.kill("c")
    back = world.start("c")
    world.pass_ms(500)
    world.fleeting("c", "new")
    world.pass_ms(LONG_MS)
    assert back.queues() == ["new"]


def test_transient_exchanges_are_removed_when_all_nodes_were_down() -> None:
    world = World("a", "b")
    world.submit("a", ExchangeDefinition("/", "kept", "direct", True, False, False, {}))
    world.submit("a", ExchangeDefinition("/", "passing", "direct", False, False, False, {}))
    world.submit("a", BindingDefinition("/", "kept", "passing", False, "k", {}, False))
    world.kill("a")
    world.pass_ms(LONG_MS)
    world.start("a")
    assert world.living["a"].exchanges() == ["kept", "passing"]
    world.kill("a")
    world.kill("b")
    world.pass_ms(LONG_MS)
    world.start("b")
    assert world.living["b"].exchanges() == ["kept"]
    assert world.living["b"].orphaned_queues.clear
    assert keys(world) == ["exchanges/%2F/kept"]


def test_a_queue_declared_too_late_for_its_node_is_found_by_the_timer() -> None:
    world = World("a", "b")
    world.kill("b")
    world.start("b")
    world.pass_ms(LONG_MS)
    world.submit("a", QueueDefinition("/", "late", False, False, False, {}, "b", 0, world.runs["b"] - 1))
    world.pass_ms(LONG_MS)
    for living in world.living.values():
        assert living.queues() == ["late"]
        living.orphaned_queues.look()
        living.node.end_turn()
    world.pass_ms(LONG_MS)
    assert [living.queues() for living in world.living.values()] == [[], []]
    assert keys(world) == []


@pytest.mark.parametrize("home", ["a", "b", ""])
def test_a_node_that_does_not_know_itself_as_a_member_removes_nothing(home: str) -> None:
    cluster = SharingCluster()
    made: list[Living] = []
    node = cluster.start("a", lambda starting: made.append(Living(starting, 1)))
    lasting = QueueDefinition("/", "lasting", True, False, False, {}, home)
    cluster.store.commit(ProposeTransaction(1, [], [(lasting.key(), lasting.value())], [], []))
    alive = LivenessDefinition("a", 1)
    node.seat.hold(alive.key(), alive.value())
    made[0].orphaned_queues.node_started()
    node.end_turn()
    cluster.clock.pass_ms(LONG_MS)
    assert made[0].queues() == ["lasting"]
    assert node.proposed == []


def test_a_queue_without_a_home_is_no_orphan() -> None:
    world = World("a")
    world.submit("a", QueueDefinition("/", "old", True, False, False, {}))
    world.pass_ms(LONG_MS)
    world.kill("a")
    world.start("a")
    world.pass_ms(LONG_MS)
    assert world.living["a"].queues() == ["old"]


@pytest.mark.parametrize("seed", range(12))
def test_after_random_deaths_all_orphans_are_removed_and_nothing_else(seed: int) -> None:
    chance = Random(seed)
    world = World("a", "b", "c", "d")
    expected: dict[str, tuple[str, int]] = {}
    for number in range(25):
        names = sorted(world.living)
        name = chance.choice(names)
        action = chance.random()
        if action < 0.5:
            world.fleeting(name, f"q{number}")
            expected[f"q{number}"] = (name, world.runs[name])
        elif action < 0.75 and len(names) > 1:
            world.kill(name)
        elif len(names) < 4:
            world.start(chance.choice([missing for missing in "abcd" if missing not in names]))
        world.pass_ms(chance.choice((0, 20, 500, 3_000, LEASE_MS + 500)))
        living = {(name, world.runs[name]) for name in world.living}
        mine = [queue for queue, home in expected.items() if home in living]
        for each in world.living.values():
            assert set(mine) <= set(each.queues())
    world.pass_ms(LONG_MS)
    living = {(name, world.runs[name]) for name in world.living}
    kept = sorted(queue for queue, home in expected.items() if home in living)
    for each in world.living.values():
        assert each.queues() == kept
        assert each.orphaned_queues.clear
