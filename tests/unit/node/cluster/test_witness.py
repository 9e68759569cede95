"""A node that holds queues cannot become a witness; the refusal lists them."""

import pytest

from warren.broker.metadata.topology_definitions import QueueDefinition
from warren.broker.model.events import MetadataSnapshot
from warren.broker.model.replica_set import ReplicaSet
from warren.errors import ConfigError
from warren.node.cluster.cluster_file import ClusterFacts
from warren.node.cluster.refusals import refuse_witness_with_queues

FACTS = ClusterFacts("some cluster", "disc")


def known(*queues: QueueDefinition) -> MetadataSnapshot:
    return {queue.key(): (1, 1, queue.value()) for queue in queues}


def queue(name: str, node: str, durable: bool = True, incarnation: int = 0) -> QueueDefinition:
    return QueueDefinition("/", name, durable, False, False, {}, node, incarnation)


def mirrored(name: str, master: str, members: list[str], in_sync: list[str]) -> QueueDefinition:
    return queue(name, master).with_replica_set(ReplicaSet(3, master, members, [(one, 1) for one in in_sync]))


def test_a_node_that_is_home_to_nothing_lasting_may_be_a_witness() -> None:
    refuse_witness_with_queues("b", FACTS, known(queue("x", "a"), queue("y", "b", durable=False, incarnation=7)))


def test_a_mirror_that_is_behind_is_no_hindrance() -> None:
    refuse_witness_with_queues("b", FACTS, known(mirrored("x", "a", ["a", "b"], ["a"])))


@pytest.mark.parametrize(
    "held",
    [
        queue("x", "b"),
        mirrored("x", "b", ["b", "a"], ["b", "a"]),
        mirrored("x", "a", ["a", "b"], ["a", "b"]),
    ],
)
def test_a_queue_that_it_may_have_alone_is_named(held: QueueDefinition) -> None:
    with pytest.raises(ConfigError, match="b cannot be a witness while it holds queues: 'x' in vhost '/'; start it "):
        refuse_witness_with_queues("b", FACTS, known(held, queue("other", "a")))


def test_many_queues_are_counted() -> None:
    with pytest.raises(ConfigError, match="'q2' in vhost '/' and 2 more; "):
        refuse_witness_with_queues("b", FACTS, known(*[queue(f"q{number}", "b") for number in range(5)]))


def test_a_ram_node_cannot_be_a_witness() -> None:
    with pytest.raises(ConfigError, match="b is a RAM node, and a witness must be a disc node"):
        refuse_witness_with_queues("b", ClusterFacts("some cluster", "ram"), {})
