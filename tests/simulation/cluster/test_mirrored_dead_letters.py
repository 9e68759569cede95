"""A dead letter stays in its source queue until it is committed in its target queue."""

from tests.simulation.cluster.mirrored import FOREVER_MS, in_sync, mastered
from tests.simulation.cluster.scenario import CHANNEL, ClusterScenario
from tests.simulation.cluster.test_mirrored_contents import PERSISTENT, send, sender, texts
from warren.sim.cluster.nodes import SimulatedClusterNode
from warren.wire.field_tables import Table
from warren.wire.methods import BasicGet, BasicGetOk, BasicReject, QueueDeclare, QueueDeclareOk

LETTERS: Table = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


def declare_on(scenario: ClusterScenario, name: str, nodes: list[SimulatedClusterNode], arguments: Table) -> None:
    """A queue on these nodes, all of them in sync; the first is its master."""
    names = [node.name for node in nodes]
    mirrored: Table = {"x-ha-mode": "nodes", "x-ha-params": list(names), **arguments}
    declared = QueueDeclare(name, durable=True, arguments=mirrored)
    assert isinstance(scenario.ask(scenario.guest(nodes[0]), declared), QueueDeclareOk)
    scenario.until(lambda: in_sync(nodes[0], name) == sorted(names))


def test_a_dead_letter_is_not_lost_with_the_master_of_either_queue() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    declare_on(scenario, "work", [one, three], LETTERS)
    declare_on(scenario, "dead", [two, three], {})
    guest = sender(scenario, three)
    assert send(scenario, guest, "work", "0", PERSISTENT)
    answer = scenario.ask(guest, BasicGet("work"))
    assert isinstance(answer, BasicGetOk)
    # records from one do not arrive at two
    scenario.world.peer_links.between("one", "two").set_cut(0, True)
    guest.send(CHANNEL, BasicReject(answer.delivery_tag, requeue=False))
    scenario.elapse(100)
    one.lose_power(FOREVER_MS)
    scenario.until(lambda: mastered(three, "work") is not None)
    scenario.elapse(3_000)
    assert sorted({*texts(scenario, three, "dead"), *texts(scenario, three)}) == ["0"]
