"""How clusters are founded, and how nodes leave and return."""

import pytest

from tests.simulation.cluster.scenario import ClusterScenario, QuietPublisher
from warren.sim.clients import CONFIRM, TRANSACTION
from warren.wire.methods import QueueDeclare, QueueDeclareOk


def publish_on(scenario: ClusterScenario, publishers: list[QuietPublisher], rounds: int) -> list[int]:
    """Every publisher publishes a little, again and again."""
    numbers: list[int] = []
    for _ in range(rounds):
        for publisher in publishers:
            if publisher.channel_open:
                numbers += scenario.publish(publisher, "work", 2)
        scenario.elapse(40)
    return numbers


def test_rolling_restart_loses_nothing() -> None:
    scenario = ClusterScenario()
    scenario.ask(scenario.guest(scenario.nodes[1]), QueueDeclare("work", durable=True))
    publishers = [scenario.publisher(node) for node in scenario.nodes]
    numbers: list[int] = []
    for node in scenario.nodes:
        lives = node.lives
        node.stop(down_ms=3_000)
        numbers += publish_on(scenario, publishers, 30)
        scenario.until(lambda one=node, before=lives: one.lives > before and scenario.world.whole())
        numbers += publish_on(scenario, publishers, 10)
    scenario.consumer(scenario.nodes[0], "work")
    scenario.finish()
    confirmed = scenario.confirmed(numbers)
    assert len(confirmed) > 100
    assert all(scenario.world.ledger.deliveries[number, "work"].count for number in confirmed)


@pytest.mark.parametrize("mode", [CONFIRM, TRANSACTION])
def test_founding_a_cluster_while_clients_work_loses_nothing(mode: str) -> None:
    scenario = ClusterScenario(together=False)
    one, _two, three = scenario.nodes
    guest = scenario.guest(one)
    scenario.ask(guest, QueueDeclare("work", durable=True))
    scenario.ask(guest, QueueDeclare("passing"))
    publisher = scenario.publisher(one, mode)
    numbers = publish_on(scenario, [publisher], 5)
    one.found()
    # requests made meanwhile wait, and are carried out
    guest.ask(QueueDeclare("late", durable=True))
    numbers += publish_on(scenario, [publisher], 5)
    scenario.until(lambda: one.is_member and guest.answer() is not None)
    assert isinstance(guest.answer(), QueueDeclareOk)
    scenario.world.join()
    numbers += publish_on(scenario, [publisher], 5)
    scenario.until(scenario.world.whole)
    for node in scenario.nodes:
        assert [scenario.knows(node, name) for name in ("work", "passing", "late")] == [True] * 3
    scenario.until(publisher.done)
    assert scenario.confirmed(numbers) == numbers
    one.lose_power(1_000)
    scenario.until(lambda: one.lives == 2 and scenario.world.whole())
    scenario.consumer(three, "work")
    scenario.finish()


def test_interrupted_founding_stays_alone() -> None:
    scenario = ClusterScenario(together=False)
    one = scenario.nodes[0]
    guest = scenario.guest(one)
    scenario.ask(guest, QueueDeclare("work", durable=True))
    one.found(interrupted=True)
    guest.ask(QueueDeclare("late", durable=True))
    scenario.until(lambda: guest.answer() is not None)
    assert not one.is_member
    assert one.broker.cluster is None
    one.kill()
    scenario.until(lambda: one.lives == 2 and one.up)
    assert [scenario.knows(one, name) for name in ("work", "late")] == [True, True]
    assert not one.is_member


def test_a_node_that_dies_while_it_founds_stays_alone_and_can_found_again() -> None:
    scenario = ClusterScenario(together=False)
    one = scenario.nodes[0]
    guest = scenario.guest(one)
    scenario.ask(guest, QueueDeclare("work", durable=True))
    one.found()
    scenario.elapse(20)
    one.kill()
    scenario.until(lambda: one.lives == 2 and one.up)
    scenario.elapse(100)
    assert not one.is_member
    scenario.come_together()
    assert all(scenario.knows(node, "work") for node in scenario.nodes)


def test_a_cluster_comes_back_when_all_nodes_lost_their_power() -> None:
    scenario = ClusterScenario(nodes=4)
    scenario.ask(scenario.guest(scenario.nodes[2]), QueueDeclare("work", durable=True))
    publisher = scenario.publisher(scenario.nodes[1])
    numbers = scenario.publish(publisher, "work", 10)
    scenario.until(publisher.done)
    for node in scenario.nodes:
        node.lose_power(2_000)
    scenario.until(lambda: all(node.lives == 2 for node in scenario.nodes) and scenario.world.whole())
    scenario.consumer(scenario.nodes[0], "work")
    scenario.finish()
    assert scenario.confirmed(numbers) == numbers


def test_a_node_that_starts_waits_for_the_store() -> None:
    scenario = ClusterScenario()
    three = scenario.nodes[2]
    three.cut_off_from_store(True)
    three.kill()
    scenario.elapse(5_000)
    assert not three.up
    three.cut_off_from_store(False)
    scenario.until(lambda: three.up and scenario.world.whole())
    scenario.finish()


def test_a_node_that_pauses_serves_no_client_and_loses_no_durable_message() -> None:
    scenario = ClusterScenario(handling="pause_minority")
    one, two, three = scenario.nodes
    scenario.ask(scenario.guest(two), QueueDeclare("work", durable=True))
    publisher = scenario.publisher(two)
    numbers = scenario.publish(publisher, "work", 5)
    scenario.until(publisher.done)
    scenario.isolate(two)
    two.cut_off_from_store(True)
    scenario.until(lambda: two.paused)
    scenario.elapse(2_000)
    assert two.broker.connections == {}
    assert not one.paused
    assert not three.paused
    scenario.isolate(two, False)
    two.cut_off_from_store(False)
    scenario.until(lambda: not two.paused and publisher.channel_open)
    assert scenario.confirmed(numbers) == numbers
    scenario.consumer(three, "work")
    scenario.finish()


def test_a_stopping_node_closes_its_links_before_its_last_batch_is_flushed() -> None:
    scenario = ClusterScenario()
    one, two, _three = scenario.nodes
    scenario.ask(scenario.guest(two), QueueDeclare("work", durable=True))
    cluster = one.broker.cluster
    assert cluster is not None
    # its last batch takes a while
    one.disk.slow = True
    one.stop()
    scenario.until(lambda: one.lives == 2 or not cluster.links.nodes())
    assert one.lives == 1
    scenario.until(lambda: one.lives == 2)
    scenario.finish()
