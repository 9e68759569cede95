"""The homes of queues, and the queues that end with an incarnation of their node."""

from warren.broker.metadata.shared_definitions import QueueHomes
from warren.broker.metadata.topology_definitions import QueueDefinition
from warren.broker.model.replica_set import ReplicaSet


def queue(name: str, node: str, incarnation: int = 0) -> QueueDefinition:
    return QueueDefinition("/", name, not incarnation, False, False, {}, node, 0, incarnation)


def test_queues_are_counted_by_the_node_they_live_on() -> None:
    homes = QueueHomes()
    homes.put(queue("one", "a"))
    homes.put(queue("two", "a", 3))
    homes.put(queue("three", "b"))
    homes.put(queue("one", "a"))
    assert [homes.count(node) for node in "abc"] == [2, 1, 0]
    homes.delete(queue("one", "a").key())
    homes.delete(queue("one", "a").key())
    assert homes.count("a") == 1


def test_a_queue_that_moved_counts_where_it_lives() -> None:
    homes = QueueHomes()
    homes.put(queue("one", "a"))
    homes.put(queue("one", "b"))
    assert (homes.count("a"), homes.count("b")) == (0, 1)


def test_an_incarnation_is_forgotten_with_its_last_queue() -> None:
    homes = QueueHomes()
    homes.put(queue("lasting", "a"))
    assert homes.transient_homes() == []
    homes.put(queue("one", "a", 3))
    homes.put(queue("one", "a", 3))
    assert (homes.transient_homes(), homes.transient(("a", 3))) == ([("a", 3)], [("/", "one")])
    homes.delete(queue("one", "a", 3).key())
    assert (homes.transient_homes(), homes.transient(("a", 3))) == ([], [])


def test_the_queues_of_a_node_are_those_that_live_there() -> None:
    homes = QueueHomes()
    homes.put(queue("one", "a"))
    homes.put(queue("two", "a", 3))
    homes.put(queue("three", "b"))
    assert (homes.nodes(), homes.of_node_alone("a")) == (["a", "b"], [("/", "one"), ("/", "two")])
    homes.delete(queue("three", "b").key())
    assert (homes.nodes(), homes.of_node_alone("b")) == (["a"], [])


def test_a_mirrored_queue_lives_on_its_master_and_not_there_alone() -> None:
    homes = QueueHomes()
    replica_set = ReplicaSet(1, "a", ["a", "b"], [("a", 1), ("b", 1)])
    homes.put(queue("one", "a").with_replica_set(replica_set))
    assert (homes.count("a"), homes.of_node_alone("a")) == (1, [])
    assert [(mirrored.queue, mirrored.replica_set) for mirrored in homes.mirrored()] == [(("/", "one"), replica_set)]
    homes.delete(queue("one", "a").key())
    assert homes.mirrored() == []
