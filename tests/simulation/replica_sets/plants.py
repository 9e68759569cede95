"""Bugs to plant in a ring: for each rule of `mirroring`, what it looks like not to follow it.

A bug is a change of the sources, of the machines or of the pretend nodes that use them.

    python -m tests.simulation.replica_sets.plants      the table of docs/reliability.md, as it should be

Not here: that they are caught (`test_planted_ring_bugs`), how they are planted (`fresh`).
"""

import importlib
from collections.abc import Iterable
from typing import NamedTuple

from tests.simulation.fresh import RINGS, freshly_loaded

STEPS = 400
SEEDS = (*range(2_000), 44035)
"""Few runs come by what the last one of these does."""

MASTER, MIRROR = "broker.replication.master", "broker.replication.mirror"
ENTRANCE, STEPPING_DOWN = "broker.replication.master", "broker.replication.master"
MEMBER, MASTERY, COPY, SEAT = (
    "sim.replica_sets.node",
    "sim.replica_sets.master",
    "sim.replica_sets.replica",
    "sim.replica_sets.node",
)
NEWCOMERS = "sim.replica_sets.master"


class Plant(NamedTuple):
    """The rule that is broken (0 for what the theory says besides), how, and by which edits: module, old, new."""

    rule: int
    bug: str
    edits: tuple[tuple[str, str, str], ...]


class Catch(NamedTuple):
    """The first run in which a bug was noticed, and what noticed it."""

    seed: int
    by: str


def hunt(plant: Plant, seeds: Iterable[int]) -> Catch | None:
    """Run seeds until a rule objects."""
    with freshly_loaded(plant.edits, RINGS):
        replica_sets = importlib.import_module("warren.sim.replica_sets.run")
        for seed in seeds:
            outcome = replica_sets.run_replica_sets(seed, STEPS)
            if not outcome.good:
                return Catch(seed, outcome.complaints[0].rule)
    return None


def bug(rule: int, what: str, *edits: tuple[str, str, str]) -> Plant:
    return Plant(rule, what, edits)


PLANTS = (
    bug(
        0,
        "a step is settled before all have it",
        (
            MASTER,
            "                return\n            committed = min(committed, follower.flushed_to)",
            "                continue",
        ),
    ),
    bug(
        0,
        "a mirror answers before its disk does",
        (MIRROR, "if self._unflushed or self._flushes:", "if self._flushes:"),
    ),
    bug(
        0,
        "a master does not wait for its own disk",
        (MASTER, "        if self._unflushed or self._flushes:", "        if self._flushes:"),
    ),
    bug(
        0,
        "a removal is carried out before it is settled",
        (
            MIRROR,
            "        self.batches.append(batch)",
            "        self.batches.append(batch)\n        self.carry_out(batch)",
        ),
    ),
    bug(
        0,
        "a settled removal is not carried out",
        (MIRROR, "            if kind == REMOVE:", "            if kind == 99:"),
    ),
    bug(
        0,
        "a new master goes on with the positions of the last one",
        (MASTERY, "= replica_set.epoch << EPOCH_SHIFT", "= max(self.copy.held, default=0) + 1"),
    ),
    bug(
        0,
        "what was sent to a master before is sent again, and taken again",
        (MASTERY, "if message.number <= marks.of(node, incarnation):", "if message.number == 0:"),
        (SEAT, "                if count > message.number:", "                if count > 0:"),
    ),
    bug(
        0,
        "a new master does not know what steps that are not settled stored",
        (MASTER, "            marks.read(batch)", "            pass"),
    ),
    bug(
        0,
        "a mirror does not note what settled steps stored",
        (MIRROR, "            self.marks.heard(name, incarnation, count)\n", "            pass\n"),
    ),
    bug(
        0,
        "a removal takes along what is below its range",
        (
            MIRROR,
            "                self.copy.remove(level, first, last)",
            "                self.copy.remove(level, 0, last)",
        ),
    ),
    bug(
        1,
        "a master leaves a step out, and the mirror does not mind",
        (
            MASTER,
            "        for node in self.followers:\n",
            "        for node in [] if batch.number % 9 == 8 else list(self.followers):\n",
        ),
        (MIRROR, "if batch.number != self.end + 1 or", "if batch.number <= self.end or"),
    ),
    bug(
        1,
        "a mirror listens to whoever speaks",
        (MEMBER, "        elif message.attempt == self.attempt and message.epoch == self.following:", "        else:"),
    ),
    bug(
        2,
        "a restarted member takes itself for the one it was",
        (MEMBER, "        self.incarnation += 1", "        self.incarnation = 1"),
        (MEMBER, "        self.turn = Turn()", '        self.turn = getattr(self, "turn", None) or Turn()'),
        (
            MEMBER,
            "        self.mirror = Mirror(self.copy, self, self.turn)\n"
            "        self.master_replica: ModelMaster | None = None",
            '        self.mirror = getattr(self, "mirror", None) or Mirror(self.copy, self, self.turn)\n'
            "        self.mirror._flushes, self.mirror._void = [], 0\n"
            "        self.master_replica = None",
        ),
    ),
    bug(
        3,
        "what is beyond the last common step stays",
        (MIRROR, "discard_batch(self.copy, self.batches.pop())", "self.batches.pop()"),
    ),
    bug(
        3,
        "too much is dropped",
        (MIRROR, "self.batches[-1].number > common:", "self.batches[-1].number >= common:"),
    ),
    bug(
        3,
        "steps of the same number are taken to be the same",
        (
            MASTER,
            "last_common_batch(self.epochs, self.end, Epochs(request.beginnings), request.end)",
            "min(self.end, request.end)",
        ),
    ),
    bug(
        3,
        "a mirror takes no steps of earlier epochs",
        (MIRROR, "or batch.epoch > self._epoch:", "or batch.epoch != self._epoch:"),
    ),
    bug(
        3,
        "a master that hands over keeps what it sent to nobody",
        (STEPPING_DOWN, "    discard_batch(mirror.copy, unfinished)\n", ""),
    ),
    bug(
        3,
        "a master that hands over forgets what its steps removed",
        (STEPPING_DOWN, "        _defer_operations(batch)\n", "        pass\n"),
    ),
    bug(
        3,
        "a master that hands over takes what may not count for heard",
        (STEPPING_DOWN, "master.marks.without([*master.batches, unfinished])", "master.marks.copy()"),
    ),
    bug(
        3,
        "a master hands over before its epoch is open",
        (MASTER, "if has_all and not self._leaves and self.opened:", "if has_all and not self._leaves:"),
    ),
    bug(
        4,
        "a new master serves before its epoch is open",
        (MASTERY, "        elif self.master.opened:", "        else:"),
    ),
    bug(
        4,
        "a new master serves at once",
        (MASTERY, "        self.master.open()\n", "        self.master.open()\n        self._open()\n"),
    ),
    bug(
        5,
        "whoever asks is promoted",
        (
            MEMBER,
            "        return promotion_candidates(self.replica_set, living, self.world.promotes_unsynced)",
            "        return [self.run]",
        ),
    ),
    bug(
        6,
        "a newcomer counts only when that is known",
        (
            MASTER,
            "for replica_set in self._proposals:\n            runs +=",
            "for replica_set in []:\n            runs +=",
        ),
    ),
    bug(
        6,
        "who is to be dropped counts no more while that is proposed",
        (
            MASTER,
            "runs = list(self.replica_set.in_sync)",
            "runs = list((self._proposals or [self.replica_set])[-1].in_sync)",
        ),
    ),
    bug(
        6,
        "a proposal without an answer is forgotten",
        (MASTER, "        self._resting = True\n", "        self._resting = True\n        self._proposals = []\n"),
    ),
    bug(
        6,
        "a proposal without an answer counts for ever",
        (
            MASTER,
            "            if replica_set != self.replica_set or self._proposals:",
            "            if replica_set != self.replica_set:",
        ),
    ),
    bug(
        7,
        "who is not in sync gets no steps",
        (
            MASTER,
            "        for node in self.followers:\n",
            "        for node in [one for one in self.followers if self.followers[one].complete]:\n",
        ),
    ),
    bug(
        8,
        "a mirror that goes on does not tell how far it is",
        (MIRROR, "        self._carry_out_to(committed)\n        self._moved = True\n", ""),
    ),
    bug(
        8,
        "a master keeps to itself what is settled",
        (MASTER, "self._downstream.commit(node, committed)", "pass"),
    ),
    bug(
        9,
        "a mirror that is lost is not dropped",
        (MASTER, "        if absent:\n", "        if not absent:\n"),
    ),
    bug(
        10,
        "a mirror that becomes master goes on to answer the last one",
        (
            MEMBER,
            "    def propose_itself(self) -> None:\n        self._leave()\n",
            "    def propose_itself(self) -> None:\n",
        ),
        (MEMBER, "        self._leave()\n        continues", "        continues"),
    ),
    bug(
        12,
        "something is handed out below a horizon that is not settled",
        (MASTERY, "if each <= self.watermark and", "if each <= self.asked and"),
    ),
    bug(
        12,
        "something is handed out that is not settled",
        (
            MASTERY,
            "        self.next_position += 1\n",
            "        self.next_position += 1\n        self.arrived.add(position)\n",
        ),
    ),
    bug(
        12,
        "a mirror's horizon is not on disk when it says so",
        (
            MIRROR,
            "            elif reader.kind == WATERMARK and copy.mark_delivered(reader.word(0)):\n"
            "                unflushed = True",
            "            elif reader.kind == WATERMARK:\n                copy.mark_delivered(reader.word(0))",
        ),
    ),
    bug(
        12,
        "a new master does not mark what may have been handed out",
        (MASTERY, "        self.watermark_before = self.copy.watermark", "        self.watermark_before = 0"),
    ),
    bug(
        13,
        "a removal that comes before its message is forgotten",
        (COPY, "        self.tombstones = []", "        self.tombstones = None"),
    ),
    bug(
        13,
        "a newcomer is fed before inherited removals are carried out",
        (NEWCOMERS, " or not master_replica.is_open or master_replica.master.committed < self._began", ""),
    ),
    bug(
        13,
        "a newcomer is sent what was removed just before it came",
        (NEWCOMERS, " or master_replica.master.committed < self._began", ""),
    ),
    bug(
        13,
        "a newcomer keeps what its master has not",
        (MIRROR, "self.copy.remove_any(span.first, span.last)", "pass"),
    ),
    bug(
        13,
        "a newcomer is not told what each node sent",
        (MEMBER, "OriginMarks(dict(what))", "OriginMarks()"),
    ),
    bug(
        13,
        "a newcomer that was stopped is taken to have what it was not sent",
        (NEWCOMERS, "spans_of([*theirs, *self._sent])", "self._master_replica.copy.spans()"),
    ),
    bug(
        14,
        "a newcomer has caught up before it is on disk",
        (
            MIRROR,
            "flushed\n        self._unflushed = True\n        self.copy.begin",
            "flushed\n        self.copy.begin",
        ),
    ),
    bug(
        14,
        "a newcomer is admitted before it has caught up",
        (
            MASTER,
            "MirrorProgress(node, incarnation, self.end, self.end, False)",
            "MirrorProgress(node, incarnation, self.end, self.end, True)",
        ),
    ),
    bug(
        14,
        "a newcomer is admitted without what was settled meanwhile",
        (MASTER, "            and follower.flushed_to >= self.committed\n", ""),
    ),
    bug(
        14,
        "a mirror that was dropped is admitted without what its new master inherited",
        (MASTER, "needs = max(common, self.opening)", "needs = common"),
    ),
    bug(
        15,
        "members go before those who are to take their places are in sync",
        (MASTER, "        if waits and others_in_sync:\n", "        if waits and not others_in_sync:\n"),
    ),
    bug(
        15,
        "two orders of the same members take each other's place",
        (
            MASTER,
            "return replica_set if stay == replica_set.members else replica_set.with_members(stay)",
            "return replica_set.with_members(self._wanted)",
        ),
    ),
    bug(
        15,
        "who is not wanted any more stays",
        (
            MASTER,
            "return replica_set if stay == replica_set.members else replica_set.with_members(stay)",
            "return replica_set",
        ),
    ),
    bug(
        15,
        "one that was taken out and in again counts with what it is about to drop",
        (ENTRANCE, "        if asked[2].known < self._left.get(node, 0):\n", "        if asked[2].known < 0:\n"),
    ),
)


def table() -> str:
    """All of them, each with the run that catches it, as a table of the documentation has it."""
    lines = ["| rule | mistake | seed | noticed because it broke |", "|---|---|---|---|"]
    for plant in PLANTS:
        catch = hunt(plant, SEEDS)
        assert catch is not None, plant.bug
        lines.append(f"| {plant.rule or '–'} | {plant.bug} | {catch.seed} | {catch.by} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
