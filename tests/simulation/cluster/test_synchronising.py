"""Mirrors catch up at an operator's word, and no more at another; what they have got they keep."""

from itertools import pairwise

from tests.simulation.cluster.mirrored import in_sync, mastered, part_of, set_policy
from tests.simulation.cluster.scenario import ClusterScenario, Guest
from warren.broker.commands import StopSynchronising, SynchroniseMirrors
from warren.broker.mirrors.catching_up import SLICE_BYTES, CatchingUp
from warren.model.events import Commanded
from warren.wire.methods import QueueDeclare, QueueDeclareOk
from warren.wire.values import Table

MESSAGES = 120
PIECE = "x" * 3_000
OUTAGE_MS = 20_000


def placed_on(*names: str) -> Table:
    return {"ha-mode": "nodes", "ha-params": list(names)}


def lagging(scenario: ClusterScenario) -> Guest:
    """The first node has a queue of many messages, of which its mirror on the second has none."""
    one = scenario.nodes[0]
    set_policy(scenario, placed_on(one.name))
    guest = scenario.guest(one)
    assert isinstance(scenario.ask(guest, QueueDeclare("work", durable=True)), QueueDeclareOk)
    fill(scenario, guest, MESSAGES)
    set_policy(scenario, placed_on(one.name, scenario.nodes[1].name))
    scenario.until(lambda: newcomers(scenario) != [])
    return guest


def fill(scenario: ClusterScenario, guest: Guest, count: int) -> None:
    queue = mastered(scenario.nodes[0])
    assert queue is not None
    wanted = queue.ready_count() + count
    for _ in range(count):
        guest.publish("", "work", {"piece": PIECE})
    scenario.until(lambda: queue.ready_count() == wanted)


def newcomers(scenario: ClusterScenario) -> list[CatchingUp]:
    part = part_of(scenario.nodes[0])
    return [] if part is None or part.mastery is None else part.mastery.newcomers.all()


def synced(scenario: ClusterScenario) -> bool:
    return in_sync(scenario.nodes[0]) == sorted(node.name for node in scenario.nodes[:2])


def test_a_new_mirror_waits_until_it_is_let() -> None:
    scenario = ClusterScenario()
    lagging(scenario)
    scenario.elapse(3_000)
    (newcomer,) = newcomers(scenario)
    assert (newcomer.is_under_way(), newcomer.sent_count, synced(scenario)) == (False, 0, False)
    scenario.nodes[0].add(Commanded(7, SynchroniseMirrors("/", "work")))
    scenario.until(lambda: synced(scenario))
    assert newcomers(scenario) == []


def test_a_mirror_that_is_stopped_keeps_what_it_has_and_gets_the_rest_when_it_is_let_again() -> None:
    scenario = ClusterScenario()
    one, two, _three = scenario.nodes
    guest = lagging(scenario)
    (newcomer,) = newcomers(scenario)
    one.add(Commanded(7, SynchroniseMirrors("/", "work")))
    scenario.until(lambda: newcomer.sent_count > 0)
    one.add(Commanded(8, StopSynchronising("/", "work")))
    scenario.until(lambda: not newcomer.is_under_way())
    sent = newcomer.sent_count
    assert (newcomer.wanted_count, 0 < sent < MESSAGES) == (MESSAGES, True)
    fill(scenario, guest, 5)
    scenario.elapse(3_000)
    assert (newcomer.sent_count, synced(scenario)) == (sent, False)
    one.add(Commanded(9, SynchroniseMirrors("/", "work")))
    scenario.until(newcomer.is_under_way)
    assert newcomer.wanted_count == MESSAGES - sent
    scenario.until(lambda: synced(scenario))
    one.kill(OUTAGE_MS)
    scenario.until(lambda: mastered(two) is not None)
    queue = mastered(two)
    assert queue is not None
    assert queue.ready_count() == MESSAGES + 5
    queue.check()


def test_what_was_lost_and_who_took_over_is_told_by_those_who_are_left() -> None:
    scenario = ClusterScenario()
    one, two, _three = scenario.nodes
    lagging(scenario)
    one.add(Commanded(7, SynchroniseMirrors("/", "work")))
    scenario.until(lambda: synced(scenario))
    one.kill(OUTAGE_MS)
    scenario.until(lambda: mastered(two) is not None)
    part = part_of(two)
    assert part is not None
    told = [(happening.name, happening.facts["node"]) for happening in part.story.happenings]
    assert told == [("mirror.in_sync", two.name), ("mirror.dropped", one.name), ("mirror.promoted", two.name)]
    promoted = part.story.happenings[-1].facts
    assert promoted["reason"] in (f"{one.name} has stopped", f"{one.name} is not reached")
    assert promoted["epoch"] == part.ring.epoch


def test_a_policy_says_how_many_messages_a_mirror_gets_at_once() -> None:
    scenario = ClusterScenario()
    one, two, _three = scenario.nodes
    lagging(scenario)
    set_policy(scenario, {**placed_on(one.name, two.name), "ha-sync-mode": "automatic", "ha-sync-batch-size": 7})
    (newcomer,) = newcomers(scenario)
    counts = [0]
    one.add(Commanded(7, SynchroniseMirrors("/", "work")))

    def over() -> bool:
        counts.append(int(newcomer.sent_count))
        return synced(scenario)

    scenario.until(over)
    assert counts[-1] == MESSAGES
    assert max(after - before for before, after in pairwise(counts)) == 7


def test_mirrors_catch_up_no_faster_than_the_settings_allow() -> None:
    scenario = ClusterScenario(together=False)
    for node in scenario.nodes:
        node.settings.sync_bytes_per_s = 100_000
    scenario.come_together()
    guest = lagging(scenario)
    (newcomer,) = newcomers(scenario)
    began_ms = scenario.world.now_ms
    scenario.nodes[0].add(Commanded(7, SynchroniseMirrors("/", "work")))
    scenario.until(lambda: newcomer.sent_count > 0)
    fill(scenario, guest, 5)
    assert not synced(scenario)
    scenario.until(lambda: synced(scenario))
    took_ms = scenario.world.now_ms - began_ms
    size_bytes = MESSAGES * len(PIECE)
    # the first slice is paid for by waiting with the second
    assert (size_bytes - SLICE_BYTES) / 100 < took_ms < 1.5 * size_bytes / 100
