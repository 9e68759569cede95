"""Clients of mirrored queues when the master is lost: consumers on other nodes go on; unacked messages come again."""

import pytest

from tests.simulation.cluster.mirrored import FOREVER_MS, declare, mastered, published, replica_of, served
from tests.simulation.cluster.scenario import ClusterScenario, Guest
from warren.wire.field_tables import Table
from warren.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicQos,
    BasicQosOk,
    ConfirmSelect,
    QueueDeclare,
    QueueDeclareOk,
    QueuePurge,
    QueuePurgeOk,
)


def consuming(scenario: ClusterScenario, guest: Guest, prefetch: int = 0, arguments: Table | None = None) -> Guest:
    if prefetch:
        assert isinstance(scenario.ask(guest, BasicQos(prefetch_count=prefetch)), BasicQosOk)
    consume = BasicConsume("work", "c", arguments=arguments or {})
    assert isinstance(scenario.ask(guest, consume), BasicConsumeOk)
    guest.answers.clear()
    return guest


def deliveries(guest: Guest) -> list[tuple[int, bool]]:
    """Its deliveries, in order: the number of each message, and whether it was redelivered."""
    return [
        (int(heard.body[:10]), heard.method.redelivered)
        for heard in guest.answers
        if isinstance(heard.method, BasicDeliver)
    ]


def cancelled(guest: Guest) -> bool:
    return any(isinstance(heard.method, BasicCancel) for heard in guest.answers)


def test_consumers_at_other_nodes_go_on_and_notice_nothing() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    declare(scenario, one)
    consumers = [consuming(scenario, scenario.guest(node)) for node in (two, three)]
    one.kill(FOREVER_MS)
    scenario.until(lambda: served(scenario, [two, three]))
    numbers = published(scenario, scenario.publisher(three), 6)
    scenario.until(lambda: sum(len(deliveries(guest)) for guest in consumers) == 6)
    assert sorted(number for guest in consumers for number, _marked in deliveries(guest)) == numbers
    assert not any(cancelled(guest) or guest.faults for guest in consumers)


def test_a_consumer_that_asked_for_it_is_cancelled_when_the_master_changes() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    declare(scenario, one)
    told = consuming(scenario, scenario.guest(two), arguments={"x-cancel-on-ha-failover": True})
    untold = consuming(scenario, scenario.guest(three))
    one.kill(FOREVER_MS)
    scenario.until(lambda: cancelled(told))
    scenario.until(lambda: served(scenario, [two, three]))
    numbers = published(scenario, scenario.publisher(three), 3)
    scenario.until(lambda: len(deliveries(untold)) == 3)
    assert deliveries(untold) == [(number, False) for number in numbers]
    assert deliveries(told) == []


def test_only_unacked_messages_come_back_and_are_marked() -> None:
    scenario = ClusterScenario()
    one, _two, three = scenario.nodes
    declare(scenario, one)
    numbers = published(scenario, scenario.publisher(three), 6)
    taker = consuming(scenario, scenario.guest(three), prefetch=2)
    scenario.until(lambda: len(deliveries(taker)) == 2)
    assert deliveries(taker) == [(number, False) for number in numbers[:2]]
    taker.answers.clear()
    one.lose_power(FOREVER_MS)
    # it still has two unacked messages, so it gets others when it has acked them
    scenario.until(lambda: served(scenario, scenario.nodes[1:]))
    scenario.elapse(4_000)
    assert deliveries(taker) == []
    taker.send(1, BasicNack(2, multiple=True))
    seen: list[tuple[int, bool]] = []
    while len(seen) < 6:
        scenario.until(lambda: bool(deliveries(taker)))
        seen += deliveries(taker)
        last = max(heard.method.delivery_tag for heard in taker.answers if isinstance(heard.method, BasicDeliver))
        taker.answers.clear()
        taker.send(1, BasicAck(last, multiple=True))
    assert seen[:2] == [(number, True) for number in numbers[:2]]
    assert [number for number, _marked in seen] == numbers
    assert seen[-1] == (numbers[-1], False)


@pytest.mark.parametrize("question", [QueueDeclare("work", passive=True), BasicGet("work"), QueuePurge("work")])
def test_a_request_pending_when_the_master_was_lost_is_answered_by_the_next(question: QueueDeclare) -> None:
    scenario = ClusterScenario()
    one, _two, three = scenario.nodes
    declare(scenario, one)
    published(scenario, scenario.publisher(three), 3)
    guest = scenario.guest(three)
    one.kill(FOREVER_MS)
    answer = scenario.ask(guest, question)
    assert isinstance(answer, QueueDeclareOk | BasicGetOk | QueuePurgeOk)
    assert getattr(answer, "message_count", 3) in (2, 3)


def test_a_queue_without_a_master_refuses_after_a_while_and_accepts_again_later() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    declare(scenario, one)
    publisher = scenario.publisher(two)
    published(scenario, publisher, 3)
    scenario.isolate(two)
    two.cut_off_from_store(True)
    refused = scenario.publish(publisher, "work", 2)
    scenario.until(publisher.done)
    assert scenario.confirmed(refused) == []
    scenario.isolate(two, False)
    two.cut_off_from_store(False)
    scenario.until(lambda: scenario.world.whole() and replica_of(two) is not None)
    scenario.elapse(3_000)
    published(scenario, publisher, 3)
    scenario.consumer(three, "work")
    scenario.finish()


def test_a_master_that_was_deposed_delivers_nothing_more() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    declare(scenario, one)
    numbers = published(scenario, scenario.publisher(three), 4)
    # it receives nothing, and goes on by itself
    scenario.isolate(one)
    one.cut_off_from_store(True)
    scenario.until(lambda: mastered(two) is not None or mastered(three) is not None)
    scenario.elapse(2_500)
    assert mastered(one) is not None, "it does not know"
    lonely = scenario.guest(one)
    lonely.ask(BasicGet("work", no_ack=True))
    scenario.elapse(3_000)
    assert not isinstance(lonely.answer(), BasicGetOk)
    other = consuming(scenario, scenario.guest(three))
    scenario.until(lambda: len(deliveries(other)) == 4)
    assert [number for number, _marked in deliveries(other)] == numbers


def test_a_publisher_on_a_deposed_master_gets_no_confirms() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    declare(scenario, one)
    publisher = scenario.guest(one)
    scenario.ask(publisher, ConfirmSelect())
    scenario.isolate(one)
    one.cut_off_from_store(True)
    scenario.until(lambda: mastered(two) is not None or mastered(three) is not None)
    publisher.answers.clear()
    publisher.publish("", "work", {})
    scenario.elapse(20_000)
    assert not any(isinstance(heard.method, BasicAck) for heard in publisher.answers)
    scenario.isolate(one, False)
    one.cut_off_from_store(False)
    scenario.until(scenario.world.whole)
    scenario.until(lambda: any(isinstance(heard.method, BasicAck | BasicNack) for heard in publisher.answers))
    confirmed = any(isinstance(heard.method, BasicAck) for heard in publisher.answers)
    found = scenario.ask(scenario.guest(three), BasicGet("work", no_ack=True))
    assert isinstance(found, BasicGetOk) or not confirmed
    assert isinstance(found, BasicGetOk | BasicGetEmpty)


def test_two_masters_never_deliver_at_once() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    declare(scenario, one)
    published(scenario, scenario.publisher(three), 200)
    lonely, other = scenario.guest(one), scenario.guest(three)
    # after a large grant it may deliver some more without asking
    for _ in range(30):
        assert isinstance(scenario.ask(lonely, BasicGet("work")), BasicGetOk)
    # the other nodes see their links end, the master does not
    scenario.isolate(one)
    one.cut_off_from_store(True)
    for node in (two, three):
        scenario.world.peer_links.between("one", node.name).drop(node, "it seems to be gone")
    other.ask(BasicConsume("work", "c"))
    last_ms = 0
    while not deliveries(other):
        lonely.ask(BasicGet("work"))
        scenario.elapse(200)
        if isinstance(lonely.answer(), BasicGetOk):
            last_ms = scenario.world.now_ms
            assert not deliveries(other)
    assert 0 < last_ms < scenario.world.now_ms


def test_messages_delivered_before_the_master_was_restarted_come_back_marked() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    declare(scenario, one)
    numbers = published(scenario, scenario.publisher(three), 3)
    assert isinstance(scenario.ask(scenario.guest(three), BasicGet("work")), BasicGetOk)
    for node in (two, three):
        node.lose_power(FOREVER_MS)
    one.lose_power(500)
    scenario.until(lambda: one.up and served(scenario, [one]))
    taker = consuming(scenario, scenario.guest(one))
    scenario.until(lambda: len(deliveries(taker)) == 3)
    assert deliveries(taker) == [(numbers[0], True), (numbers[1], False), (numbers[2], False)]


def test_a_message_is_delivered_when_all_in_sync_have_it() -> None:
    scenario = ClusterScenario()
    one, two, _three = scenario.nodes
    declare(scenario, one)
    publisher = scenario.publisher(one)
    published(scenario, publisher, 20)
    # having taken these at once it may take some more without asking
    taker = consuming(scenario, scenario.guest(one))
    scenario.until(lambda: len(deliveries(taker)) == 20)
    taker.answers.clear()
    # what the master sends does not arrive, and it takes a while until it is told
    wire = scenario.world.peer_links.between("one", "two")
    wire.set_cut(0, True)
    number = scenario.publish(publisher, "work", 1)[0]
    scenario.elapse(1_000)
    assert deliveries(taker) == []
    wire.mend()
    scenario.until(lambda: deliveries(taker) == [(number, False)])
    assert replica_of(two) is not None
