"""Queues that several nodes hold: what is confirmed survives any one of them, and clients elsewhere do not notice."""

from tests.simulation.cluster.scenario import ClusterScenario
from warren.queue.queue import Queue
from warren.sim.cluster.member import Member
from warren.wire.methods import QueueDeclare, QueueDeclareOk

ALL = {"x-ha-mode": "all"}


def declare(scenario: ClusterScenario, node: Member, name: str = "work", durable: bool = True) -> None:
    answer = scenario.ask(scenario.guest(node), QueueDeclare(name, durable=durable, arguments=ALL))
    assert isinstance(answer, QueueDeclareOk)


def master_of(scenario: ClusterScenario, name: str = "work") -> list[str]:
    return [node.name for node in scenario.nodes if node.up and mastered(node, name) is not None]


def mastered(node: Member, name: str) -> Queue | None:
    return node.broker.vhosts["/"].own_queue(name)


def delivered(scenario: ClusterScenario, numbers: list[int]) -> bool:
    attempts = scenario.world.promises.attempts
    return all("work" in attempts[number].copies for number in numbers)


def in_sync(node: Member) -> list[str]:
    """Who is in sync, as a member knows it."""
    clustering = node.broker.clustering
    assert clustering is not None
    assert clustering.rings is not None
    part = clustering.rings.named("/", "work")
    return [] if part is None else sorted(part.ring.synced_names())


def test_a_mirrored_queue_takes_and_gives_messages() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    declare(scenario, two)
    scenario.until(lambda: master_of(scenario) == ["two"])
    publisher = scenario.publisher(one)
    numbers = scenario.publish(publisher, "work", 10)
    scenario.until(publisher.done)
    assert scenario.confirmed(numbers) == numbers
    scenario.consumer(three, "work")
    scenario.finish()
    assert delivered(scenario, numbers)


def test_what_is_confirmed_is_there_when_the_master_is_lost() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    declare(scenario, two)
    publisher = scenario.publisher(one)
    numbers = scenario.publish(publisher, "work", 10)
    scenario.until(publisher.done)
    assert scenario.confirmed(numbers) == numbers
    two.lose_power(down_ms=60_000)
    scenario.until(lambda: len(master_of(scenario)) == 1)
    more = scenario.publish(publisher, "work", 5)
    scenario.until(publisher.done)
    assert scenario.confirmed(more) == more
    scenario.consumer(three, "work")
    scenario.until(lambda: delivered(scenario, numbers + more))


def test_a_lost_master_comes_back_as_a_mirror_and_can_be_master_again() -> None:
    scenario = ClusterScenario()
    one, two, _three = scenario.nodes
    declare(scenario, two)
    publisher = scenario.publisher(one)
    numbers = scenario.publish(publisher, "work", 10)
    scenario.until(publisher.done)
    two.lose_power(down_ms=3_000)
    scenario.until(lambda: two.up and scenario.world.whole() and len(master_of(scenario)) == 1)
    scenario.until(lambda: in_sync(one) == ["one", "three", "two"])
    numbers += scenario.publish(publisher, "work", 10)
    scenario.until(publisher.done)
    assert scenario.confirmed(numbers) == numbers
