"""A master sends its mirrors few notices of commits, and none of them late."""

from tests.simulation.cluster.mirrored import declare, published, replica_of
from tests.simulation.cluster.scenario import ClusterScenario
from warren.broker.replication.master import Master
from warren.sim.cluster.nodes import SimulatedClusterNode
from warren.wire.methods import BasicAck, BasicGet, BasicGetOk

A_MOMENT_MS = 100


def master_of(node: SimulatedClusterNode) -> Master:
    replica = replica_of(node)
    assert replica is not None
    assert replica.master_replica is not None
    return replica.master_replica.master


def counts(scenario: ClusterScenario) -> list[int]:
    replicas = [replica_of(node) for node in scenario.nodes]
    return [replica.contents.count() for replica in replicas if replica is not None]


def test_mirrors_learn_of_commits_without_another_batch() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    declare(scenario, one)
    published(scenario, scenario.publisher(three), 3)
    scenario.elapse(A_MOMENT_MS)
    for node in (two, three):
        replica = replica_of(node)
        assert replica is not None
        assert (replica.mirror.committed, replica.mirror.batches) == (master_of(one).end, [])
    assert not scenario.checkers.complaints


def test_removals_during_a_replication_batch_are_sent_together_after_its_commit() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    declare(scenario, one)
    publisher = scenario.publisher(three)
    published(scenario, publisher, 9)
    taker = scenario.guest(one)
    tags: list[int] = []
    for _ in range(4):
        answer = scenario.ask(taker, BasicGet("work"))
        assert isinstance(answer, BasicGetOk)
        tags.append(answer.delivery_tag)
    scenario.elapse(A_MOMENT_MS)
    master = master_of(one)
    two.freeze(500)
    scenario.publish(publisher, "work", 1)
    scenario.until(lambda: len(master.batches) > 0)
    scenario.elapse(20)
    before = master.end
    for tag in tags:
        taker.send(1, BasicAck(tag))
        scenario.elapse(20)
    assert master.end == before
    scenario.until(publisher.done)
    scenario.elapse(A_MOMENT_MS)
    assert master.end == before + 1
    assert counts(scenario) == [6, 6, 6]
    assert not scenario.checkers.complaints
