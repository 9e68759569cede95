"""An operator starts and cancels the backfill of mirrors; they keep the messages they have got."""

from itertools import pairwise

from tests.simulation.cluster.mirrored import FOREVER_MS, declare, in_sync, mastered, replica_of, set_policy
from tests.simulation.cluster.scenario import ClusterScenario, Guest
from warren.broker.commands.requests import CancelSync, SyncMirrors
from warren.broker.model.events import CommandReceived
from warren.broker.replication.backfill import SLICE_BYTES, Backfill
from warren.wire.field_tables import Table
from warren.wire.methods import QueueDeclare, QueueDeclareOk

MESSAGES = 120
PIECE = "x" * 3_000
OUTAGE_MS = 20_000


def placed_on(*names: str) -> Table:
    return {"ha-mode": "nodes", "ha-params": list(names)}


def lagging(scenario: ClusterScenario) -> Guest:
    """A queue of many messages on the first node, and an empty mirror on the second."""
    one = scenario.nodes[0]
    set_policy(scenario, placed_on(one.name))
    guest = scenario.guest(one)
    assert isinstance(scenario.ask(guest, QueueDeclare("work", durable=True)), QueueDeclareOk)
    fill(scenario, guest, MESSAGES)
    set_policy(scenario, placed_on(one.name, scenario.nodes[1].name))
    scenario.until(lambda: joining_mirrors(scenario) != [])
    return guest


def fill(scenario: ClusterScenario, guest: Guest, count: int) -> None:
    queue = mastered(scenario.nodes[0])
    assert queue is not None
    wanted = queue.ready_count() + count
    for _ in range(count):
        guest.publish("", "work", {"piece": PIECE})
    scenario.until(lambda: queue.ready_count() == wanted)


def joining_mirrors(scenario: ClusterScenario) -> list[Backfill]:
    replica = replica_of(scenario.nodes[0])
    return [] if replica is None or replica.master_replica is None else replica.master_replica.joining_mirrors.all()


def synced(scenario: ClusterScenario) -> bool:
    return in_sync(scenario.nodes[0]) == sorted(node.name for node in scenario.nodes[:2])


def test_a_new_mirror_waits_for_the_sync_command() -> None:
    scenario = ClusterScenario()
    lagging(scenario)
    scenario.elapse(3_000)
    (joining,) = joining_mirrors(scenario)
    assert (joining.is_under_way(), joining.sent_count, synced(scenario)) == (False, 0, False)
    scenario.nodes[0].add(CommandReceived(7, SyncMirrors("/", "work")))
    scenario.until(lambda: synced(scenario))
    assert joining_mirrors(scenario) == []


def test_a_cancelled_backfill_keeps_its_messages_and_the_next_one_gets_the_rest() -> None:
    scenario = ClusterScenario()
    one, two, _three = scenario.nodes
    guest = lagging(scenario)
    (joining,) = joining_mirrors(scenario)
    one.add(CommandReceived(7, SyncMirrors("/", "work")))
    scenario.until(lambda: joining.sent_count > 0)
    one.add(CommandReceived(8, CancelSync("/", "work")))
    scenario.until(lambda: not joining.is_under_way())
    sent = joining.sent_count
    assert (joining.wanted_count, 0 < sent < MESSAGES) == (MESSAGES, True)
    fill(scenario, guest, 5)
    scenario.elapse(3_000)
    assert (joining.sent_count, synced(scenario)) == (sent, False)
    one.add(CommandReceived(9, SyncMirrors("/", "work")))
    scenario.until(joining.is_under_way)
    assert joining.wanted_count == MESSAGES - sent
    scenario.until(lambda: synced(scenario))
    one.kill(OUTAGE_MS)
    scenario.until(lambda: mastered(two) is not None)
    queue = mastered(two)
    assert queue is not None
    assert queue.ready_count() == MESSAGES + 5
    queue.check()


def test_the_remaining_nodes_report_the_lost_node_and_the_new_master() -> None:
    scenario = ClusterScenario()
    one, two, _three = scenario.nodes
    lagging(scenario)
    one.add(CommandReceived(7, SyncMirrors("/", "work")))
    scenario.until(lambda: synced(scenario))
    one.kill(OUTAGE_MS)
    scenario.until(lambda: mastered(two) is not None)
    replica = replica_of(two)
    assert replica is not None
    told = [(happening.name, happening.facts["node"]) for happening in replica.history.events]
    assert told == [("mirror.in_sync", two.name), ("mirror.dropped", one.name), ("mirror.promoted", two.name)]
    promoted = replica.history.events[-1].facts
    assert promoted["reason"] in (f"{one.name} has stopped", f"{one.name} is not reached")
    assert promoted["epoch"] == replica.replica_set.epoch


def test_a_policy_sets_the_batch_size_of_a_backfill() -> None:
    scenario = ClusterScenario()
    one, two, _three = scenario.nodes
    lagging(scenario)
    set_policy(scenario, {**placed_on(one.name, two.name), "ha-sync-mode": "automatic", "ha-sync-batch-size": 7})
    (joining,) = joining_mirrors(scenario)
    counts = [0]
    one.add(CommandReceived(7, SyncMirrors("/", "work")))

    def over() -> bool:
        counts.append(int(joining.sent_count))
        return synced(scenario)

    scenario.until(over)
    assert counts[-1] == MESSAGES
    assert max(after - before for before, after in pairwise(counts)) == 7


def test_a_backfill_is_no_faster_than_the_settings_allow() -> None:
    scenario = ClusterScenario(together=False)
    for node in scenario.nodes:
        node.settings.sync_bytes_per_s = 100_000
    scenario.come_together()
    guest = lagging(scenario)
    (joining,) = joining_mirrors(scenario)
    began_ms = scenario.world.now_ms
    scenario.nodes[0].add(CommandReceived(7, SyncMirrors("/", "work")))
    scenario.until(lambda: joining.sent_count > 0)
    fill(scenario, guest, 5)
    assert not synced(scenario)
    scenario.until(lambda: synced(scenario))
    took_ms = scenario.world.now_ms - began_ms
    size_bytes = MESSAGES * len(PIECE)
    # the second slice waits for the rate limit
    assert (size_bytes - SLICE_BYTES) / 100 < took_ms < 1.5 * size_bytes / 100


def test_the_history_says_why_a_mirror_was_dropped() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    declare(scenario, one)
    two.kill(FOREVER_MS)
    scenario.until(lambda: in_sync(one) == sorted([one.name, three.name]))
    scenario.isolate(three)
    scenario.until(lambda: in_sync(one) == [one.name])
    replica = replica_of(one)
    assert replica is not None
    reasons = [said.facts["reason"] for said in replica.history.events if said.name == "mirror.dropped"]
    assert reasons[0] in (f"{two.name} has stopped", f"{two.name} is not reached")
    assert reasons[1:] == [f"{three.name} is not reached"]
