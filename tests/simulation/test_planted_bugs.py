"""Every rule catches a planted bug.

A bug is planted between the node and its world. One rule alone is checked: it must break, and hold without the bug.
"""

from collections.abc import Callable

import pytest

from tests.simulation import plants
from tests.simulation.disk_plants import AnotherName, EarlyReports, NothingDropped, OtherKind, SwappedBatches
from tests.simulation.plants import InputPlant, OutputPlant
from tests.simulation.scenario import Scenario
from warren.broker.journal.records import MESSAGE, PAGED, REMOVED, RETURNED, WATERMARK
from warren.sim import invariants
from warren.sim.history import QueueSpec
from warren.sim.observer import Invariant
from warren.sim.process import Interceptor
from warren.sim.run import run_node
from warren.wire.field_tables import Table
from warren.wire.methods import BasicAck, BasicDeliver, BasicNack, BasicReturn

STEPS = 800
DISK_STEPS = 2_000
"""A node needs some kills and restarts before its disk matters."""

SEEDS = 80


def output(rewrite: plants.RewriteParts, after: int = 3) -> Callable[[], Interceptor]:
    return lambda: OutputPlant(rewrite, after)


def inputs(rewrite: Callable[[bytes], bytes]) -> Callable[[], Interceptor]:
    return lambda: InputPlant(rewrite, always=True)


NO_DELIVERY = output(plants.without_first(BasicDeliver))
NO_CONFIRM = output(plants.without_last(BasicAck))
NO_TTL = inputs(plants.without_argument(b"x-message-ttl"))
NO_LENGTH = inputs(plants.without_argument(b"x-max-length"))
NO_DELAY = inputs(plants.delay_hidden)
NO_DELIVERY_LIMIT = inputs(plants.without_argument(b"x-delivery-limit"))
NO_DEAD_LETTERS = inputs(plants.without_argument(b"x-dead-letter-"))

PLANTS: list[tuple[str, Callable[[], Interceptor], type[Invariant] | None]] = [
    ("a delivery is swallowed", NO_DELIVERY, invariants.DenseTags),
    ("a delivery is swallowed", NO_DELIVERY, invariants.NothingConfirmedLost),
    ("a delivery is doubled", output(plants.first_twice), invariants.OneHolder),
    ("two deliveries are swapped", output(plants.two_swapped), invariants.OrderKept),
    ("a redelivery is not marked", output(plants.mark_cleared), invariants.MarkedRedelivered),
    ("a body is changed", output(plants.body_changed), invariants.OnlyPublished),
    ("a confirm goes too far", output(plants.one_confirm_too_many), invariants.ConfirmsAnswerPublishes),
    ("a confirm is swallowed", NO_CONFIRM, invariants.EveryClientProgresses),
    ("a return is swallowed", output(plants.without_first(BasicReturn)), invariants.ReturnsAreDue),
    ("a closed channel gets more", output(plants.one_more_after_close, after=1), None),
    ("a frame is broken", output(plants.frame_end_missing), None),
    ("bytes go to nobody", plants.StrayBytes, None),
    ("the core breaks down", plants.Falling, None),
    ("a channel is closed for nothing", output(plants.closed_for_nothing), None),
    ("prefetch is exceeded", inputs(plants.larger_prefetch), invariants.WithinPrefetch),
    ("a confirmed message is lost", lambda: InputPlant(plants.misrouted), invariants.ContentsAgree),
    ("a confirmed message is lost", lambda: InputPlant(plants.misrouted), invariants.NothingConfirmedLost),
    ("acked messages stay", inputs(plants.acks_ignored), invariants.ContentsAgree),
    ("acked messages come back", inputs(plants.acks_ignored), invariants.OneHolder),
    ("a TTL is ignored", NO_TTL, invariants.LimitsKept),
    ("a length is ignored", NO_LENGTH, invariants.LimitsKept),
    ("a delay is ignored", NO_DELAY, invariants.LimitsKept),
    ("dead letters vanish", NO_DEAD_LETTERS, invariants.NothingConfirmedLost),
    ("a slow reader is flooded", plants.NeverPaused, invariants.BoundedBuffers),
    ("a first delivery is marked", output(plants.mark_set), invariants.FirstDeliveriesUnmarked),
    ("a delivery limit is ignored", NO_DELIVERY_LIMIT, invariants.ReturnsAreCounted),
]

DISK_PLANTS: list[tuple[str, Callable[[], Interceptor], type[Invariant] | None]] = [
    ("batches are reported before they are flushed", EarlyReports, invariants.AnswersAreOnDisk),
    ("batches are written in another order", SwappedBatches, invariants.ContentsAgree),
    ("a queue is written down wrongly", AnotherName, invariants.DurableObjectsSurvive),
    ("acks are not written down", lambda: OtherKind(REMOVED, RETURNED), invariants.OneHolder),
    ("acks are not written down", lambda: OtherKind(REMOVED, RETURNED), invariants.NothingComesBack),
    ("segments stay", NothingDropped, invariants.NothingComesBack),
    ("messages are not written down", lambda: OtherKind(MESSAGE, PAGED), invariants.NothingConfirmedLost),
    ("deliveries are not written down", lambda: OtherKind(WATERMARK, RETURNED), invariants.MarkedRedelivered),
]
ALL_PLANTS = [(STEPS, *plant) for plant in PLANTS] + [(DISK_STEPS, *plant) for plant in DISK_PLANTS]
NAMES = [bug if rule is None else f"{bug}, says {rule.__name__}" for _steps, bug, _plant, rule in ALL_PLANTS]

BY_THE_WITNESS = {
    "a closed channel gets more": "nothing for closed channels",
    "a frame is broken": "whole frames",
    "bytes go to nobody": "no effects for closed connections",
    "the core breaks down": "the node lives",
    "a channel is closed for nothing": "no fault without cause",
}


@pytest.mark.parametrize(("steps", "bug", "plant", "rule"), ALL_PLANTS, ids=NAMES)
def test_a_planted_bug_is_caught(
    steps: int, bug: str, plant: Callable[[], Interceptor], rule: type[Invariant] | None
) -> None:
    expected = BY_THE_WITNESS[bug] if rule is None else rule.rule
    for seed in range(SEEDS):
        if _objects(seed, steps, expected, rule, plant()):
            assert not _objects(seed, steps, expected, rule, Interceptor())
            return
    pytest.fail(f"{bug}, and no checker noticed it in {SEEDS} runs")


def _objects(seed: int, steps: int, expected: str, rule: type[Invariant] | None, interceptor: Interceptor) -> bool:
    outcome = run_node(seed, steps, interceptor=interceptor, rules=[] if rule is None else [rule()])
    return bool(outcome.complaints) and outcome.complaints[0].rule == expected


@pytest.mark.parametrize(
    ("taken_away", "rule"),
    [(10**9, invariants.NodeChecksItself), (-100, invariants.NoMemoryWithoutMessages)],
)
def test_wrong_counts_of_held_memory_are_noticed(taken_away: int, rule: type[Invariant]) -> None:
    spec = QueueSpec("work")
    scenario = Scenario(spec, rules=[rule()])
    publisher, consumer = scenario.publisher(), scenario.consumer(spec)
    scenario.node.broker.turn.held_bytes -= taken_away
    scenario.publish(publisher, spec, 1)
    scenario.world.run_until(lambda: consumer.received_count == 1 and not scenario.world.history.living, 1_000)
    scenario.checkers.ended(scenario.world.node.observer)
    assert [complaint.rule for complaint in scenario.checkers.complaints][:1] == [rule.rule]


def test_a_confirm_ahead_of_the_flush_is_known_by_what_the_loss_of_power_takes() -> None:
    spec = QueueSpec("work", durable=True)
    scenario = Scenario(spec, interceptor=EarlyReports(), rules=[invariants.NothingConfirmedLost()])
    publisher = scenario.publisher()
    publisher.persistent = True
    scenario.elapse(50)
    scenario.node.disk.slow = True
    scenario.publish(publisher, spec, 10)
    scenario.until(publisher.done)
    scenario.node.lose_power()
    scenario.elapse(1_000)
    scenario.checkers.ended(scenario.world.node.observer)
    assert [complaint.rule for complaint in scenario.checkers.complaints] == ["nothing confirmed is lost"]


@pytest.mark.parametrize("written", [True, False])
def test_requeues_that_were_not_written_are_missed_after_a_restart(written: bool) -> None:
    arguments: Table = {"x-delivery-limit": 1}
    spec = QueueSpec("work", arguments, durable=True, delivery_limit=1)
    interceptor = Interceptor() if written else OtherKind(RETURNED, WATERMARK)
    scenario = Scenario(spec, interceptor=interceptor, rules=[invariants.ReturnsAreCounted()])
    publisher, consumer = scenario.publisher(), scenario.consumer(spec)
    publisher.persistent, consumer.diligent = True, False
    scenario.publish(publisher, spec, 1)
    scenario.until(lambda: bool(consumer.held))
    consumer.send(1, BasicNack(consumer.held.pop(), requeue=True))
    scenario.elapse(500)
    scenario.node.lose_power()
    scenario.until(lambda: consumer.connections == 2 and bool(consumer.held))
    consumer.send(1, BasicNack(consumer.held.pop(), requeue=True))
    scenario.world.run_until(lambda: False, 500)
    complaints = [complaint.rule for complaint in scenario.checkers.complaints]
    assert complaints == ([] if written else ["returns are counted"])


def test_no_rule_is_without_a_bug_that_it_catches() -> None:
    proven = {rule.rule for _steps, _bug, _plant, rule in ALL_PLANTS if rule is not None}
    proven |= {invariants.NodeChecksItself.rule, invariants.NoMemoryWithoutMessages.rule}
    assert proven == {
        rule.rule
        for rule in [*invariants.step_invariants(), *invariants.durability_invariants(), *invariants.final_invariants()]
    }
