"""Bugs to plant in the replicas of whole nodes, and in their proxies of mirrored queues.

A bug is a change of the sources. It is found by random clusters, or by a scenario that must fail.

    python -m tests.simulation.cluster.mirror_plants      the table of docs/reliability.md, as it should be

Not here: that they are caught (`test_planted_mirror_bugs`), bugs in the replica set model
(`tests.simulation.replica_sets.plants`).
"""

import importlib
from collections.abc import Iterable
from typing import NamedTuple

from tests.simulation.fresh import CLUSTERS, Edit, freshly_loaded

STEPS = 2_500
SEEDS = range(40)
NODES = 3

MASTERY, LOG = "broker.replication.master_replica", "broker.replication.mirrored_log"
LENDING, SERVING = "broker.replication.mirrored_log", "broker.replication.delivery_lease"
PART, CATCHING_UP = "broker.replication.local_replica", "broker.replication.backfill"
SEAT, ADMISSION = "broker.links.mirrored_queue_proxy", "broker.links.admission"
SUCCESSION, DEFINITIONS = "broker.replication.promotion", "broker.metadata.cluster_definitions"
PASSAGES, PUBLISHING, PROGRESS = (
    "broker.internal_publishes",
    "broker.sessions.publishes",
    "broker.metadata.shared_backend",
)
ENTRANCE, CLUSTERING = "broker.replication.master", "broker.cluster.cluster"

CONFIRMED = "every in-sync member has all confirmed messages"
DELIVERED = "every in-sync member has all delivered messages"
SENT_AGAIN = "publishes that a lost master had not committed, and no others, are sent to the next master"
CONSUMERS = "consumers continue at the next master"
ACKED = "an ack of a delivery of a lost master counts"
MARKED = "a second delivery is marked"
ONE_SERVES = "two masters never deliver at once"
GONE = "removed messages and deleted queues are gone from every replica"
CAUGHT_UP = "a joining mirror gets the messages it lacks and drops removed ones"
ANOTHER_RUN = "each incarnation of a node is distinct, even after its disk is lost or restored"
BOUNDED = "a full link blocks publishers, and no other clients"
DEAD_LETTERS = "a dead letter is removed only when it has arrived"
KNOWN = "a declare is answered when every node knows the queue"
BEHIND = "a node with stale definitions confirms no unroutable message"
TAKEN_IN = "a member that was removed and added again starts empty"


class Plant(NamedTuple):
    """A rule, a bug that breaks it, its edits, and the scenario that finds it; without one, random clusters do."""

    promise: str
    bug: str
    edit: Edit
    scenario: str = ""
    arguments: tuple[object, ...] = ()


def hunt(plant: Plant, seeds: Iterable[int] = SEEDS) -> tuple[int, str]:
    """The first seed in which a rule objects, and that rule; -1 if none does."""
    with freshly_loaded([plant.edit], CLUSTERS):
        run_cluster = importlib.import_module("warren.sim.cluster.run").run_cluster
        for seed in seeds:
            outcome = run_cluster(seed, STEPS, NODES)
            if not outcome.good:
                return seed, outcome.complaints[0].rule
    return -1, ""


def play(plant: Plant) -> None:
    """Run the scenario that must find it."""
    module, _dot, name = plant.scenario.partition(".")
    with freshly_loaded([plant.edit], CLUSTERS):
        getattr(importlib.import_module(f"tests.simulation.cluster.{module}"), name)(*plant.arguments)


PLANTS = (
    Plant(
        CONFIRMED,
        "publishes are confirmed before they are committed",
        (
            MASTERY,
            "        self._uncommitted.add(number, self._entries, removed, self._waiters)\n",
            "        self._uncommitted.add(number, self._entries, removed, [])\n        self._notify(self._waiters)\n",
        ),
    ),
    Plant(
        DELIVERED,
        "uncommitted messages are delivered",
        (MASTERY, "        self._entries.append(entry)\n", "        queue.arrive([entry])\n"),
        "test_mirrored_clients.test_a_message_is_delivered_when_all_in_sync_have_it",
    ),
    Plant(
        CONFIRMED,
        "a master does not flush the publishes it accepts",
        (MASTERY, "        if persistent and queue.durable:\n", "        if queue.deleted:\n"),
        "test_mirrored_queues.test_a_confirmed_message_is_on_the_masters_disk",
    ),
    Plant(
        SENT_AGAIN,
        "a proxy does not resend publishes that the lost master had not committed",
        (SEAT, "        for kept in self._kept.to_send(mark):\n", "        for kept in []:\n"),
    ),
    Plant(
        SENT_AGAIN,
        "a proxy resends publishes that the new master already has",
        (SEAT, "        for kept in self._kept.to_send(mark):\n", "        for kept in self._kept.to_send(0):\n"),
    ),
    Plant(
        CONSUMERS,
        "consumers do not continue at the new master",
        (
            SEAT,
            "        for proxy_consumer in list(self._proxy_consumers.values()):\n"
            "            proxy_consumer.attach(self.master)\n",
            "",
        ),
        "test_mirrored_clients.test_consumers_at_other_nodes_go_on_and_notice_nothing",
    ),
    Plant(
        ACKED,
        "the queue is not drained when deliveries of a lost master are acked",
        (SEAT, "for this ack\n        self.master.wake()\n", "for this ack\n"),
        "test_late_acks.test_a_message_acked_after_the_master_was_lost_does_not_come_again",
    ),
    Plant(
        MARKED,
        "messages are delivered before their delivery watermark is replicated",
        (LENDING, "        if position <= self.committed:\n", "        if position > 0:\n"),
        "test_mirrored_clients.test_only_unacked_messages_come_back_and_are_marked",
    ),
    Plant(
        MARKED,
        "a restarted master forgets which messages it delivered",
        (LOG, "            self._contents.mark_delivered(watermark)\n", ""),
        "test_mirrored_clients.test_messages_delivered_before_the_master_was_restarted_come_back_marked",
    ),
    Plant(
        ONE_SERVES,
        "a master that hears from no mirror goes on delivering",
        (
            SERVING,
            "        self.update()\n        return self.turn.now_ms < self.until_ms\n",
            "        self.update()\n        return self._predecessor is None\n",
        ),
        "test_mirrored_clients.test_two_masters_never_deliver_at_once",
    ),
    Plant(
        ONE_SERVES,
        "a new master delivers while its predecessor may still deliver",
        (SERVING, "            if self.turn.now_ms < over_ms and not", "            if over_ms < 0 and not"),
        "test_mirrored_clients.test_two_masters_never_deliver_at_once",
    ),
    Plant(
        GONE,
        "a master keeps removed messages",
        (MASTERY, "                self.contents.remove(level, first, last)\n", "                pass\n"),
        "test_mirrored_queues.test_confirmed_messages_are_there_after_the_loss_of_any_nodes",
        ((0,), "killed"),
    ),
    Plant(
        CAUGHT_UP,
        "a joining mirror gets no backfill",
        (CATCHING_UP, "        if not missing:\n", "        if missing or not missing:\n"),
        "test_mirrored_contents.test_a_mirror_that_was_away_gets_what_it_lacks_and_drops_what_is_gone",
        (True,),
    ),
    Plant(
        CAUGHT_UP,
        "a joining mirror keeps removed messages",
        (CATCHING_UP, "        if surplus:\n", "        if not self.node:\n"),
        "test_mirrored_queues.test_a_member_that_returns_later_from_a_full_stop_drops_removed_messages",
    ),
    Plant(
        GONE,
        "a replica is left behind when its queue is deleted",
        (PART, "        self.contents.close()\n        if", "        if"),
        "test_mirrored_contents.test_a_queue_can_be_deleted_at_any_moment_and_nothing_is_left_of_it",
        (True, 0),
    ),
    Plant(
        ANOTHER_RUN,
        "a node with an empty disk is trusted because of its name",
        (SUCCESSION, "    if first_with_data is not None:\n", "    if False:\n"),
        scenario="test_lost_disks.test_a_node_with_an_empty_disk_does_not_take_the_place_of_one_that_has_everything",
    ),
    Plant(
        ANOTHER_RUN,
        "an old backup of a disk is taken for the latest state",
        (DEFINITIONS, "self.data == data and asked >= self.incarnation", "self.data == data"),
        scenario="test_lost_disks.test_an_old_state_of_a_disk_is_as_good_as_an_empty_one",
    ),
    Plant(
        ANOTHER_RUN,
        "an old backup that was started often is taken for the latest state",
        (
            DEFINITIONS,
            "self.data == data and asked >= self.incarnation",
            "self.data == data and incarnation > self.incarnation",
        ),
        scenario="test_lost_disks.test_an_old_state_of_a_disk_is_as_good_as_an_empty_one",
    ),
    Plant(
        ANOTHER_RUN,
        "incarnations are counted by the disk alone",
        (DEFINITIONS, "max(incarnation, self.incarnation + 1)", "incarnation"),
        scenario="test_lost_disks.test_publishes_of_a_node_that_lost_its_disk_are_not_taken_for_earlier_ones",
    ),
    Plant(
        BOUNDED,
        "publishers are not blocked though a node reads nothing",
        (ADMISSION, "        return lane.paused or", "        return"),
        "test_slow_nodes.test_bytes_that_wait_for_a_node_that_does_not_read_are_bounded_and_no_message_is_lost",
    ),
    Plant(
        BOUNDED,
        "blocked publishers are never unblocked",
        (ADMISSION, "            self._turn.inputs.append(waiter)\n", "            pass\n"),
        "test_slow_nodes.test_bytes_that_wait_for_a_node_that_does_not_read_are_bounded_and_no_message_is_lost",
    ),
    Plant(
        DEAD_LETTERS,
        "a dead letter is removed when it is sent",
        (PASSAGES, "        if outcome >= AWAITED:\n", "        if outcome < 0:\n"),
        "test_mirrored_dead_letters.test_a_dead_letter_is_not_lost_with_the_master_of_either_queue",
    ),
    Plant(
        KNOWN,
        "a declare is answered before a slow node knows of it",
        (PROGRESS, "            if not peer.left_behind_at:\n", "            if peer.left_behind_at:\n"),
        "test_definitions.test_a_declare_waits_for_a_node_that_is_slow_to_hear_of_it",
    ),
    Plant(
        BEHIND,
        "a node with stale definitions confirms unroutable messages",
        (
            PUBLISHING,
            "may_be_behind():\n            # this node may not know the queue yet\n            channel",
            "may_be_behind() and channel.number == 0:\n            channel",
        ),
        "test_homes.test_unroutable_publishes_on_a_stale_node_are_nacked",
    ),
    Plant(
        TAKEN_IN,
        "its answers count before it knows that it was removed",
        (
            ENTRANCE,
            "        if asked[2].known_revision < self._left.get(node, 0):\n",
            "        if asked[2].known_revision < 0:\n",
        ),
        "test_readmitted_mirrors.test_a_readmitted_mirror_is_in_sync_only_after_a_new_backfill",
    ),
    Plant(
        TAKEN_IN,
        "it waits for a master that no longer knows it",
        (CLUSTERING, "                self.replica_sets.rejoin_masters()\n", "                pass\n"),
        "test_readmitted_mirrors.test_a_mirror_that_missed_its_removal_and_readmission_joins_again",
    ),
)


def table() -> str:
    """All of them, each with what notices it, as a table of the documentation has it."""
    lines = ["| what must hold | mistake in a node | noticed by |", "|---|---|---|"]
    lines += [f"| {plant.promise} | {plant.bug} | {noticed_by(plant)} |" for plant in PLANTS]
    return "\n".join(lines)


def noticed_by(plant: Plant) -> str:
    if plant.scenario:
        return named(plant)
    seed, rule = hunt(plant)
    assert seed >= 0, plant.bug
    return f"seed {seed}: {rule}"


def named(plant: Plant) -> str:
    """Its scenario, as the documentation names it."""
    return f"`{plant.scenario.partition('.')[2]}`"


if __name__ == "__main__":
    print(table())
