"""Contents of mirrored queues when masters change: limits, deadlines, priorities and dead letters stay as they were."""

import pytest

from tests.simulation.cluster.mirrored import (
    AUTOMATIC,
    FOREVER_MS,
    declare,
    in_sync,
    mastered,
    numbers_in,
    published,
    replica_of,
    served,
    set_policy,
)
from tests.simulation.cluster.scenario import CHANNEL, ClusterScenario, Guest
from warren.broker.commands.requests import SyncMirrors
from warren.broker.model.events import CommandReceived
from warren.sim.cluster.invariants import local_replicas_of
from warren.sim.cluster.nodes import SimulatedClusterNode
from warren.wire.frames import content_frames
from warren.wire.methods import (
    BasicAck,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicReject,
    ConfirmSelect,
    QueueDeclare,
    QueueDelete,
    QueueDeleteOk,
)
from warren.wire.properties import Properties, encode_header_payload

PERSISTENT = Properties(delivery_mode=2)


def send(scenario: ClusterScenario, guest: Guest, name: str, text: str, properties: Properties) -> bool:
    """Publish something; whether it was confirmed."""
    body = text.encode()
    content = content_frames(encode_header_payload(properties, len(body)), body, CHANNEL, guest.frame_max)
    guest.answers.clear()
    guest.send(CHANNEL, BasicPublish("", name), content=content)
    scenario.until(lambda: isinstance(guest.answer(), BasicAck | BasicNack))
    return isinstance(guest.answer(), BasicAck)


def sender(scenario: ClusterScenario, node: SimulatedClusterNode) -> Guest:
    guest = scenario.guest(node)
    scenario.ask(guest, ConfirmSelect())
    return guest


def texts(scenario: ClusterScenario, node: SimulatedClusterNode, name: str = "work") -> list[str]:
    """All messages of a queue, in the order of their delivery."""
    guest, found = scenario.guest(node), []
    while isinstance(scenario.ask(guest, BasicGet(name, no_ack=True)), BasicGetOk):
        found.append(guest.answers[-1].body.decode())
    assert isinstance(guest.answer(), BasicGetEmpty)
    return found


def fail_over(scenario: ClusterScenario, node: SimulatedClusterNode) -> None:
    """Its master is lost for good, and another serves."""
    node.lose_power(FOREVER_MS)
    scenario.until(lambda: served(scenario, scenario.nodes))


def books_of(node: SimulatedClusterNode) -> int:
    """The number of queues that its journal has messages of."""
    journal = node.broker.control.journal
    assert journal is not None
    return len(journal.queue_indexes)


def held(node: SimulatedClusterNode, name: str = "work") -> int:
    replica = replica_of(node, name)
    return 0 if replica is None else replica.contents.count()


@pytest.mark.parametrize("durable", [True, False])
def test_priorities_and_their_order_stay(durable: bool) -> None:
    scenario = ClusterScenario()
    one, _two, three = scenario.nodes
    declare(scenario, one, durable=durable, arguments={"x-max-priority": 5})
    guest = sender(scenario, three)
    for number in range(9):
        assert send(scenario, guest, "work", f"{number % 3}-{number}", Properties(delivery_mode=2, priority=number % 3))
    fail_over(scenario, one)
    assert texts(scenario, three) == ["2-2", "2-5", "2-8", "1-1", "1-4", "1-7", "0-0", "0-3", "0-6"]


def test_deadlines_stay() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    declare(scenario, one, arguments={"x-message-ttl": 6_000})
    guest = sender(scenario, three)
    assert send(scenario, guest, "work", "early", Properties(delivery_mode=2, expiration="3000"))
    assert send(scenario, guest, "work", "late", PERSISTENT)
    scenario.elapse(1_000)
    one.kill(FOREVER_MS)
    scenario.until(lambda: served(scenario, [two, three]))
    scenario.elapse(2_500)
    assert [held(two), held(three)] == [1, 1]
    scenario.elapse(3_000)
    assert [held(two), held(three)] == [0, 0]
    assert texts(scenario, three) == []


def test_a_queue_of_limited_length_keeps_its_end() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    declare(scenario, one, arguments={"x-max-length": 4})
    numbers = published(scenario, scenario.publisher(three), 10)
    fail_over(scenario, one)
    scenario.until(lambda: [held(two), held(three)] == [4, 4])
    assert numbers_in(scenario, three) == numbers[-4:]


def test_a_queue_that_refuses_what_is_too_much_goes_on_to_do_so() -> None:
    scenario = ClusterScenario()
    one, _two, three = scenario.nodes
    declare(scenario, one, arguments={"x-max-length": 3, "x-overflow": "reject-publish"})
    guest = sender(scenario, three)
    assert [send(scenario, guest, "work", str(number), PERSISTENT) for number in range(3)] == [True] * 3
    assert not send(scenario, guest, "work", "3", PERSISTENT)
    fail_over(scenario, one)
    assert not send(scenario, guest, "work", "4", PERSISTENT)
    assert texts(scenario, three) == ["0", "1", "2"]
    assert send(scenario, guest, "work", "5", PERSISTENT)


@pytest.mark.parametrize("after_ms", [0, 5, 40])
def test_dead_letters_from_and_to_mirrored_queues_are_not_lost(after_ms: int) -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    declare(scenario, two, "dead")
    declare(scenario, one, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    guest = sender(scenario, three)
    for number in range(4):
        assert send(scenario, guest, "work", str(number), PERSISTENT)
    for _ in range(4):
        answer = scenario.ask(guest, BasicGet("work"))
        assert isinstance(answer, BasicGetOk)
        guest.send(CHANNEL, BasicReject(answer.delivery_tag, requeue=False))
    scenario.elapse(after_ms)
    one.lose_power(FOREVER_MS)
    scenario.until(lambda: mastered(two) is not None or mastered(three) is not None)
    scenario.elapse(3_000)
    # a message that was rejected and not yet dead-lettered when the master was lost is in its queue again
    assert sorted({*texts(scenario, three, "dead"), *texts(scenario, three)}) == ["0", "1", "2", "3"]


def test_a_queue_that_is_not_durable_survives_its_master() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    declare(scenario, one, durable=False)
    publisher = scenario.publisher(three)
    numbers = published(scenario, publisher, 5)
    fail_over(scenario, one)
    numbers += published(scenario, publisher, 5)
    assert numbers_in(scenario, two) == numbers


@pytest.mark.parametrize("durable", [True, False])
def test_a_mirror_that_was_away_gets_what_it_lacks_and_drops_what_is_gone(durable: bool) -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    set_policy(scenario, AUTOMATIC)
    declare(scenario, one, durable=durable)
    publisher, taker = scenario.publisher(one), scenario.guest(one)
    numbers = published(scenario, publisher, 30)
    three.kill(4_000)
    for _ in range(10):
        assert isinstance(scenario.ask(taker, BasicGet("work", no_ack=True)), BasicGetOk)
    numbers += published(scenario, publisher, 30)
    scenario.until(lambda: three.up and scenario.world.whole())
    # it serves meanwhile
    numbers += published(scenario, publisher, 5)
    scenario.until(lambda: in_sync(one) == ["one", "three", "two"])
    one.kill(FOREVER_MS)
    two.kill(FOREVER_MS)
    scenario.until(lambda: served(scenario, [three]))
    assert numbers_in(scenario, three) == numbers[10:]


def test_a_mirror_without_synchronisation_is_in_sync_when_the_messages_it_lacks_are_gone() -> None:
    scenario = ClusterScenario()
    one, _two, three = scenario.nodes
    set_policy(scenario, {"ha-mode": "all"})
    declare(scenario, one)
    publisher = scenario.publisher(one)
    three.kill(5_000)
    scenario.until(lambda: in_sync(one) == ["one", "two"])
    published(scenario, publisher, 20)
    scenario.until(lambda: three.up and scenario.world.whole())
    late = published(scenario, publisher, 5)
    scenario.elapse(10_000)
    assert in_sync(one) == ["one", "two"]
    assert held(three) == len(late)
    taker = scenario.guest(one)
    for _ in range(20):
        scenario.ask(taker, BasicGet("work", no_ack=True))
    scenario.until(lambda: in_sync(one) == ["one", "three", "two"])
    assert held(three) == len(late)


def test_an_operator_can_have_a_mirror_synchronised() -> None:
    scenario = ClusterScenario()
    one, _two, three = scenario.nodes
    set_policy(scenario, {"ha-mode": "all"})
    declare(scenario, one)
    three.kill(5_000)
    scenario.until(lambda: in_sync(one) == ["one", "two"])
    published(scenario, scenario.publisher(one), 20)
    scenario.until(lambda: three.up and scenario.world.whole())
    scenario.elapse(3_000)
    assert in_sync(one) == ["one", "two"]
    one.add(CommandReceived(4, SyncMirrors("/", "work")))
    scenario.until(lambda: in_sync(one) == ["one", "three", "two"])
    assert held(three) == 20


@pytest.mark.parametrize("after_ms", [0, 1, 3, 100, 320, 400, 1_500, 6_000])
@pytest.mark.parametrize("durable", [True, False])
def test_a_queue_can_be_deleted_at_any_moment_and_nothing_is_left_of_it(durable: bool, after_ms: int) -> None:
    scenario = ClusterScenario()
    one, _two, three = scenario.nodes
    queue_indexes = [books_of(node) for node in scenario.nodes]
    declare(scenario, one, durable=durable)
    published(scenario, scenario.publisher(three), 10)
    one.lose_power(4_000)
    scenario.elapse(after_ms)
    deleter = scenario.guest(three)
    assert isinstance(scenario.ask(deleter, QueueDelete("work")), QueueDeleteOk)
    scenario.until(lambda: one.up and scenario.world.whole())
    scenario.elapse(1_000)
    assert [local_replicas_of(node) for node in scenario.nodes] == [[], [], []]
    assert [books_of(node) for node in scenario.nodes] == queue_indexes
    assert [node.broker.turn.held_bytes for node in scenario.nodes] == [0, 0, 0]
    # the name is free, and the new queue has nothing of the old one
    scenario.ask(deleter, QueueDeclare("work", durable=True))
    assert numbers_in(scenario, three) == []
