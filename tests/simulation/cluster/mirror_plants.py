"""Bugs to plant in how nodes play their parts in rings, and in their seats at mirrored queues.

A bug is a change of the sources. It is noticed in clusters drawn by chance, or by a scenario that must fail.

Not here: that they are caught (`test_planted_mirror_bugs`), bugs in the ring itself (`tests.simulation.rings.plants`).
"""

import importlib
from typing import NamedTuple

from tests.simulation.fresh import CLUSTERS, Edit, freshly_loaded

STEPS = 2_500
SEEDS = 40
NODES = 3

MASTERY, LOG = "broker.mirrors.mastery", "broker.mirrors.mirrored_log"
LENDING, SERVING = "broker.mirrors.lending", "broker.mirrors.serving"
PART, CATCHING_UP = "broker.mirrors.part", "broker.mirrors.catching_up"
SEAT = "remote.seat"
SUCCESSION, DEFINITIONS = "mirroring.succession", "store.cluster_definitions"

LOST = "nothing confirmed is lost"


class Plant(NamedTuple):
    """A bug, how it is planted, and what notices it: a scenario, or one of these rules in clusters drawn by chance."""

    bug: str
    edit: Edit
    scenario: str = ""
    arguments: tuple[object, ...] = ()
    rules: tuple[str, ...] = ()


def hunt(plant: Plant, first: int = 0) -> tuple[int, str]:
    """The first seed in which a rule objects, and that rule; -1 if none does."""
    with freshly_loaded([plant.edit], CLUSTERS):
        run_cluster = importlib.import_module("warren.sim.cluster.run").run_cluster
        for seed in range(first, first + SEEDS):
            outcome = run_cluster(seed, STEPS, NODES)
            if not outcome.good:
                return seed, outcome.complaints[0].rule
    return -1, ""


def play(plant: Plant) -> None:
    """Play the scenario that must notice it."""
    module, _dot, name = plant.scenario.partition(".")
    with freshly_loaded([plant.edit], CLUSTERS):
        getattr(importlib.import_module(f"tests.simulation.cluster.{module}"), name)(*plant.arguments)


PLANTS = (
    Plant(
        "publishes are confirmed before they are settled",
        (MASTERY, "            self._waiters.append(waiter)\n", "            waiter.flushed()\n"),
        rules=("what is confirmed is there", LOST),
    ),
    Plant(
        "what is not settled is delivered",
        (MASTERY, "        self._entries.append(entry)\n", "        queue.arrive([entry])\n"),
        "test_mirrored_clients.test_a_message_is_delivered_when_all_in_sync_have_it",
    ),
    Plant(
        "a master does not flush what it takes in",
        (MASTERY, "        if persistent and queue.durable:\n", "        if queue.deleted:\n"),
        "test_mirrored_queues.test_what_is_confirmed_is_on_the_masters_disk",
    ),
    Plant(
        "a seat does not send again what the lost master had not settled",
        (SEAT, "        for kept in self._kept.to_send(mark):\n", "        for kept in []:\n"),
        rules=(LOST, "nobody waits for ever"),
    ),
    Plant(
        "a seat sends again what the new master has",
        (SEAT, "        for kept in self._kept.to_send(mark):\n", "        for kept in self._kept.to_send(0):\n"),
        rules=("a second delivery is marked", "one holder at a time"),
    ),
    Plant(
        "consumers do not go on at the new master",
        (
            SEAT,
            "        for seated in list(self._seated.values()):\n            seated.attach(self._run)\n",
            "",
        ),
        "test_mirrored_clients.test_consumers_elsewhere_go_on_and_are_told_nothing",
    ),
    Plant(
        "nobody looks again when deliveries of a lost master are settled",
        (SEAT, "that\n        self._run.wake()\n", "that\n"),
        "test_late_acks.test_what_a_consumer_acks_after_the_master_was_lost_does_not_come_again",
    ),
    Plant(
        "what may have been handed out is not told before",
        (LENDING, "        if position <= self.settled:\n", "        if position > 0:\n"),
        "test_mirrored_clients.test_what_was_held_comes_back_marked_and_nothing_else_does",
    ),
    Plant(
        "a master forgets what it handed out when it restarts",
        (LOG, "            self._mastery.copy.lend(lent)\n", ""),
        "test_mirrored_clients.test_what_a_master_delivered_before_it_was_restarted_comes_back_marked",
    ),
    Plant(
        "a master goes on handing out though it hears from nobody",
        (
            SERVING,
            "        self.look()\n        return self._turn.now_ms < self._until_ms\n",
            "        self.look()\n        return self._predecessor is None\n",
        ),
        "test_mirrored_clients.test_two_masters_never_hand_out_at_once",
    ),
    Plant(
        "a new master hands out while the one before may still do so",
        (SERVING, "            if self._turn.now_ms < over_ms and not", "            if over_ms < 0 and not"),
        "test_mirrored_clients.test_two_masters_never_hand_out_at_once",
    ),
    Plant(
        "a master keeps what is gone",
        (MASTERY, "                self.copy.remove(level, first, last)\n", "                pass\n"),
        "test_mirrored_queues.test_what_is_confirmed_is_there_whoever_was_lost",
        ((0,), "killed"),
    ),
    Plant(
        "a newcomer is not sent what it lacks",
        (CATCHING_UP, "        if not lacking:\n", "        if lacking or not lacking:\n"),
        "test_mirrored_contents.test_a_mirror_that_was_away_gets_what_it_lacks_and_drops_what_is_gone",
        (True,),
    ),
    Plant(
        "a newcomer keeps what is gone",
        (CATCHING_UP, "        if surplus:\n", "        if not self.node:\n"),
        "test_mirrored_queues.test_one_that_returns_later_from_a_full_stop_drops_what_is_gone",
    ),
    Plant(
        "a copy is left behind when its queue is deleted",
        (PART, "        self.copy.close()\n        if", "        if"),
        "test_mirrored_contents.test_a_queue_can_be_deleted_at_any_moment_and_nothing_is_left_of_it",
        (True, 0),
    ),
    Plant(
        "a node with an empty disk is trusted for its name",
        (SUCCESSION, "    if born is not None:\n", "    if False:\n"),
        scenario="test_lost_disks.test_a_node_with_an_empty_disk_does_not_take_the_place_of_one_that_has_everything",
    ),
    Plant(
        "an old state of a disk is taken for the latest",
        (DEFINITIONS, "self.data == data and run > self.run", "self.data == data"),
        scenario="test_lost_disks.test_an_old_state_of_a_disk_is_as_good_as_an_empty_one",
    ),
    Plant(
        "runs are counted by the disk alone",
        (DEFINITIONS, "max(run, self.run + 1)", "run"),
        scenario="test_lost_disks."
        "test_what_a_node_publishes_after_it_lost_its_disk_is_not_taken_for_what_it_published_before",
    ),
)
