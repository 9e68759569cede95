"""Publishers that repeat messages to a mirrored queue: each message is kept once, also by the next master."""

import pytest

from tests.simulation.cluster.mirrored import (
    AUTOMATIC,
    FOREVER_MS,
    declare,
    in_sync,
    mastered,
    masters,
    replica_of,
    set_policy,
)
from tests.simulation.cluster.repeating import (
    ALL_IDS,
    confirmed,
    drain,
    intake_of,
    knows,
    lose,
    message_of,
    publish,
    publisher,
    remember,
    remembered,
    send,
)
from tests.simulation.cluster.scenario import ClusterScenario
from warren.broker.model.deduplication import DeduplicationWindow
from warren.broker.model.reader_positions import NO_OFFSET
from warren.wire.methods import QueueDeclare, QueueDeclareOk


@pytest.mark.parametrize("delay_ms", [0, 1, 2, 3, 4, 6, 9, 15])
@pytest.mark.parametrize("durable", [True, False])
def test_a_publisher_that_repeats_everything_after_its_master_was_lost_finds_each_message_once(
    durable: bool, delay_ms: int
) -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    declare(scenario, one, durable=durable)
    first = publisher(scenario, one)
    send(first, ALL_IDS[:6])
    scenario.elapse(delay_ms)
    send(first, ALL_IDS[6:])
    scenario.elapse(delay_ms)
    lose(scenario, one)
    publish(scenario, three, ALL_IDS)
    assert sorted(drain(scenario, two)) == sorted(ALL_IDS)
    publish(scenario, two, ALL_IDS)
    assert drain(scenario, three) == []


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("durable", [True, False])
def test_ids_are_known_after_their_messages_are_gone(durable: bool, persistent: bool) -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    declare(scenario, one, durable=durable)
    publish(scenario, two, ALL_IDS, persistent)
    assert drain(scenario, three) == ALL_IDS
    lose(scenario, one)
    publish(scenario, two, ALL_IDS, persistent)
    assert drain(scenario, three) == []


def test_a_repetition_is_not_confirmed_before_the_first_one_is_committed() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    declare(scenario, one)
    scenario.isolate(two)
    first, second = publisher(scenario, one), publisher(scenario, three)
    send(first, ALL_IDS)
    scenario.elapse(5)
    send(second, ALL_IDS)
    scenario.elapse(50)
    assert (confirmed(first), confirmed(second)) == (0, 0)
    scenario.isolate(two, False)
    scenario.until(lambda: confirmed(first) == confirmed(second) == len(ALL_IDS))
    assert drain(scenario, one) == ALL_IDS


def test_a_joining_mirror_knows_earlier_ids_and_offsets() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    set_policy(scenario, AUTOMATIC)
    declare(scenario, one)
    three.lose_power(20_000)
    scenario.until(lambda: in_sync(one) == ["one", "two"])
    publish(scenario, two, ALL_IDS)
    assert drain(scenario, two) == ALL_IDS
    remember(one, "reader", 17)
    scenario.until(lambda: in_sync(one) == ["one", "three", "two"])
    # it restarts with what it has on disk, alone
    for node in (one, two, three):
        node.lose_power(FOREVER_MS if node is not three else 500)
    scenario.until(lambda: three.up and masters(scenario) == ["three"])
    publish(scenario, three, ALL_IDS)
    assert drain(scenario, three) == []
    assert remembered(three) == {"reader": 17}


def test_a_joining_mirror_does_not_get_ids_of_messages_that_are_in_no_batch_yet() -> None:
    scenario = ClusterScenario()
    one = scenario.nodes[0]
    declare(scenario, one)
    publish(scenario, one, ALL_IDS[:3])
    replica = replica_of(one)
    assert replica is not None
    master_replica = replica.master_replica
    assert master_replica is not None
    intake_of(master_replica).publish(99, 1, message_of(ALL_IDS[3]), True)
    assert knows(one, ALL_IDS[3])
    told = DeduplicationWindow()
    told.load(b"".join(master_replica.publishing_ids_in_batches()), False)
    assert [told.has((b"p", number)) for number in ALL_IDS[2:4]] == [True, False]
    assert knows(one, ALL_IDS[3])


def test_ids_are_known_after_everything_stopped_at_once() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    declare(scenario, one)
    publish(scenario, two, ALL_IDS)
    assert drain(scenario, two) == ALL_IDS
    # the last messages are flushed by then
    scenario.elapse(1_000)
    for node in (one, two, three):
        node.lose_power(500)
    scenario.until(lambda: all(node.up for node in scenario.nodes) and len(masters(scenario)) == 1)
    scenario.elapse(2_000)
    publish(scenario, three, [*ALL_IDS, b"new"])
    assert drain(scenario, one) == [b"new"]


@pytest.mark.parametrize("stop", [True, False])
def test_a_message_that_a_master_could_not_commit_is_no_repetition_when_it_comes_again(stop: bool) -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    set_policy(scenario, AUTOMATIC)
    declare(scenario, one)
    publish(scenario, one, ALL_IDS[:3])
    lonely = publisher(scenario, one)
    scenario.isolate(one)
    one.cut_off_from_store(True)
    send(lonely, ALL_IDS[3:])
    scenario.until(lambda: mastered(two) is not None or mastered(three) is not None)
    assert knows(one, ALL_IDS[-1])
    lonely.node = two
    if stop:
        one.kill(3_000)
    scenario.isolate(one, False)
    one.cut_off_from_store(False)
    scenario.until(lambda: scenario.world.whole() and in_sync(one) == in_sync(two) == ["one", "three", "two"])
    # unless it was killed, its proxy has sent them again by itself
    assert knows(one, ALL_IDS[-1]) != stop
    if stop:
        # with the ids that it knows from its disk
        for node in (one, two, three):
            node.lose_power(500 if node is one else FOREVER_MS)
    else:
        for node in (two, three):
            node.lose_power(FOREVER_MS)
    scenario.until(lambda: one.up and masters(scenario) == ["one"])
    scenario.elapse(2_000)
    publish(scenario, one, ALL_IDS)
    assert sorted(drain(scenario, one)) == sorted(ALL_IDS)


@pytest.mark.parametrize(("restarts", "durable"), [(True, True), (False, True), (False, False)])
def test_a_master_that_was_deposed_forgets_the_ids_of_what_it_drops(restarts: bool, durable: bool) -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    declare(scenario, one, durable=durable)
    publish(scenario, one, ALL_IDS[:3])
    elsewhere = publisher(scenario, three)
    scenario.elapse(200)
    wire = scenario.world.peer_links.between("one", "two")
    for place in (0, 1):
        wire.set_cut(place, True)
    send(elsewhere, ALL_IDS[3:])
    scenario.until(lambda: knows(one, ALL_IDS[-1]))
    # their publisher is gone, and the next master has not received them
    scenario.isolate(one)
    one.cut_off_from_store(True)
    three.lose_power(FOREVER_MS)
    scenario.until(lambda: mastered(two) is not None)
    assert not knows(two, ALL_IDS[-1])
    scenario.isolate(one, False)
    one.cut_off_from_store(False)
    scenario.until(lambda: in_sync(one) == in_sync(two) == ["one", "two"])
    assert not knows(one, ALL_IDS[-1])
    scenario.elapse(1_000)
    if restarts:
        one.lose_power(500)
    two.lose_power(FOREVER_MS)
    scenario.until(lambda: one.up and masters(scenario) == ["one"])
    assert not knows(one, ALL_IDS[-1])
    publish(scenario, one, ALL_IDS)
    assert drain(scenario, one) == ALL_IDS


@pytest.mark.parametrize(("restarts", "durable"), [(True, True), (False, True), (False, False)])
def test_a_mirror_that_was_ahead_of_the_next_master_forgets_the_ids_of_what_it_drops(
    restarts: bool, durable: bool
) -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    declare(scenario, one, durable=durable)
    publish(scenario, one, ALL_IDS[:3])
    first = publisher(scenario, one)
    scenario.elapse(200)
    wire = scenario.world.peer_links.between("one", "two")
    for place in (0, 1):
        wire.set_cut(place, True)
    send(first, ALL_IDS[3:])
    scenario.until(lambda: knows(three, ALL_IDS[-1]))
    first.node = two
    one.lose_power(FOREVER_MS)
    scenario.until(lambda: mastered(two) is not None)
    scenario.until(lambda: in_sync(two) == in_sync(three) == ["three", "two"])
    assert not knows(two, ALL_IDS[-1])
    scenario.until(lambda: not knows(three, ALL_IDS[-1]))
    scenario.elapse(1_000)
    if restarts:
        three.lose_power(500)
    two.lose_power(FOREVER_MS)
    scenario.until(lambda: three.up and masters(scenario) == ["three"])
    publish(scenario, three, ALL_IDS)
    assert drain(scenario, three) == ALL_IDS


def test_every_member_remembers_as_much_as_a_policy_says() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    declare(scenario, one, arguments={"x-warren-dedup-window": 6})
    publish(scenario, two, ALL_IDS)
    scenario.elapse(100)
    assert [[known for known in ALL_IDS if knows(node, known)] for node in scenario.nodes] == [ALL_IDS[-6:]] * 3
    set_policy(scenario, {**AUTOMATIC, "dedup-window": 2})
    assert [[known for known in ALL_IDS if knows(node, known)] for node in scenario.nodes] == [ALL_IDS[-2:]] * 3
    lose(scenario, one)
    publish(scenario, three, ALL_IDS[-2:])
    assert drain(scenario, three) == ALL_IDS


def test_a_queue_of_another_node_keeps_the_first_of_two() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    assert isinstance(scenario.ask(scenario.guest(one), QueueDeclare("work", durable=True)), QueueDeclareOk)
    scenario.elapse(200)
    publish(scenario, two, ALL_IDS)
    publish(scenario, three, ALL_IDS)
    assert drain(scenario, two) == ALL_IDS


def test_offsets_are_known_to_the_next_master() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    declare(scenario, one)
    for offset in (3, 9):
        remember(one, "reader", offset)
        scenario.elapse(100)
    lose(scenario, one)
    leader = two if masters(scenario) == ["two"] else three
    assert remembered(leader) == remembered(two) == remembered(three) == {"reader": 9}


def test_a_joining_mirror_drops_stored_offsets_that_the_master_dropped_meanwhile() -> None:
    scenario = ClusterScenario()
    one, _two, three = scenario.nodes
    set_policy(scenario, AUTOMATIC)
    declare(scenario, one)
    remember(one, "gone", 17)
    remember(one, "there", 4)
    scenario.until(lambda: remembered(three) == {"gone": 17, "there": 4})
    three.kill(4_000)
    scenario.until(lambda: in_sync(one) == ["one", "two"])
    remember(one, "gone", NO_OFFSET)
    remember(one, "late", 1)
    scenario.until(lambda: in_sync(one) == ["one", "three", "two"])
    assert remembered(three) == {"there": 4, "late": 1}
