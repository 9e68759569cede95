"""A proposed replica set is valid only on top of the version it was made from."""

from tests.simulation.cluster.mirrored import declare, replica_of
from tests.simulation.cluster.scenario import ClusterScenario
from warren.broker.replication.proposals import ReplicaSetProposal


def test_a_proposal_is_dropped_when_its_node_learns_of_a_later_version() -> None:
    """Otherwise it would be proposed on top of that version, and an earlier epoch would replace a later one."""
    scenario = ClusterScenario()
    one = scenario.nodes[0]
    declare(scenario, one)
    replica = replica_of(one)
    cluster = one.broker.cluster
    assert replica is not None
    assert cluster is not None
    replica_sets = cluster.replica_sets
    assert replica_sets is not None
    proposal = ReplicaSetProposal(replica, replica.replica_set.dropping(["two", "three"]))
    assert proposal.is_valid()
    # the replica is told when everything that came with it is applied
    replica_sets.put(replica.definition.with_replica_set(replica.replica_set.promoting(("two", 1))), replica.queue_id)
    assert not proposal.is_valid()
    replica_sets.act()
    assert replica.replica_set.epoch == 2
    assert not proposal.is_valid()
    assert ReplicaSetProposal(replica, replica.replica_set).is_valid()
