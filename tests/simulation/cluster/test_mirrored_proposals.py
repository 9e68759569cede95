"""A ring that was proposed counts only upon the version that it was made of."""

from tests.simulation.cluster.mirrored import declare, part_of
from tests.simulation.cluster.scenario import ClusterScenario
from warren.broker.moves.proposals import RingProposal


def test_a_proposal_falls_as_soon_as_its_node_knows_of_a_later_version() -> None:
    """Else it would be proposed upon that version, and an earlier epoch take the place of a later one."""
    scenario = ClusterScenario()
    one = scenario.nodes[0]
    declare(scenario, one)
    part = part_of(one)
    clustering = one.broker.clustering
    assert part is not None
    assert clustering is not None
    rings = clustering.rings
    assert rings is not None
    proposal = RingProposal(part, part.ring.dropping(["two", "three"]))
    assert proposal.stands()
    # the part itself is told when everything that came with it is known
    rings.put(part.definition.with_ring(part.ring.promoting(("two", 1))), part.queue_id)
    assert not proposal.stands()
    rings.act()
    assert part.ring.epoch == 2
    assert not proposal.stands()
    assert RingProposal(part, part.ring).stands()
