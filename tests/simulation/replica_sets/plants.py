"""Bugs to plant in a replica set: for each rule of `warren.broker.replication`, a change of the source that breaks it.

The edits change the state machines, or the simulated nodes that use them.

    python -m tests.simulation.replica_sets.plants      the table of docs/reliability.md, as it should be

Not here: that they are caught (`test_planted_replica_set_bugs`), how they are planted (`fresh`).
"""

import importlib
from collections.abc import Iterable
from typing import NamedTuple

from tests.simulation.fresh import RINGS, freshly_loaded

STEPS = 400
SEEDS = (*range(2_000), 44035)
"""The last seed is for a bug that few runs meet."""

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
    """The broken rule (0 for other statements of the theory), how, and the edits: module, old, new."""

    rule: int
    bug: str
    edits: tuple[tuple[str, str, str], ...]


class Catch(NamedTuple):
    """The first run in which a bug was noticed, and what noticed it."""

    seed: int
    by: str


def hunt(plant: Plant, seeds: Iterable[int]) -> Catch | None:
    """Run seeds until a rule breaks."""
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
        "a batch is committed before every in-sync member has it",
        (
            MASTER,
            "                return\n            committed = min(committed, follower.flushed_to)",
            "                continue",
        ),
    ),
    bug(
        0,
        "a mirror answers before its flush returns",
        (MIRROR, "if self._unflushed or self._flushes:", "if self._flushes:"),
    ),
    bug(
        0,
        "a master does not wait for its own flush",
        (MASTER, "        if self._unflushed or self._flushes:", "        if self._flushes:"),
    ),
    bug(
        0,
        "a removal is carried out before it is committed",
        (
            MIRROR,
            "        self.batches.append(batch)",
            "        self.batches.append(batch)\n        self.carry_out(batch)",
        ),
    ),
    bug(
        0,
        "a committed removal is not carried out",
        (MIRROR, "            if kind == REMOVE:", "            if kind == 99:"),
    ),
    bug(
        0,
        "a new master continues the positions of its predecessor",
        (MASTERY, "= replica_set.epoch << EPOCH_SHIFT", "= max(self.copy.held, default=0) + 1"),
    ),
    bug(
        0,
        "a publish that the new master already has is sent and stored again",
        (MASTERY, "if message.number <= marks.of(node, incarnation):", "if message.number == 0:"),
        (SEAT, "self._send_behind(message.number)", "self._send_behind(0)"),
    ),
    bug(
        0,
        "a new master does not count the publishes in uncommitted batches",
        (MASTER, "            marks.read(batch)", "            pass"),
    ),
    bug(
        0,
        "a mirror does not count the publishes in committed batches",
        (MIRROR, "            self.marks.record(name, incarnation, count)\n", "            pass\n"),
    ),
    bug(
        0,
        "a removal also removes the positions below its range",
        (
            MIRROR,
            "                self.contents.remove(level, first, last)",
            "                self.contents.remove(level, 0, last)",
        ),
    ),
    bug(
        1,
        "a master skips a batch, and the mirror accepts the next one",
        (
            MASTER,
            "        for node in self.followers:\n",
            "        for node in [] if batch.number % 9 == 8 else list(self.followers):\n",
        ),
        (MIRROR, "if batch.number != self.end + 1 or", "if batch.number <= self.end or"),
    ),
    bug(
        1,
        "a mirror accepts batches from any node",
        (MEMBER, "        elif message.attempt == self.attempt and message.epoch == self.following:", "        else:"),
    ),
    bug(
        2,
        "a restarted member keeps the incarnation it had before",
        (MEMBER, "        self.incarnation += 1", "        self.incarnation = 1"),
        (MEMBER, "        self.turn = Turn()", '        self.turn = getattr(self, "turn", None) or Turn()'),
        (
            MEMBER,
            "        self.mirror = Mirror(self.copy, self, self.turn)\n"
            "        self.master_replica: ModelMaster | None = None",
            '        self.mirror = getattr(self, "mirror", None) or Mirror(self.copy, self, self.turn)\n'
            "        self.mirror._flushes, self.mirror._stale_flushes = [], 0\n"
            "        self.master_replica = None",
        ),
    ),
    bug(
        3,
        "a mirror keeps the batches beyond the last common one",
        (MIRROR, "discard_batch(self.contents, self.batches.pop())", "self.batches.pop()"),
    ),
    bug(
        3,
        "a mirror drops too many batches",
        (MIRROR, "self.batches[-1].number > common:", "self.batches[-1].number >= common:"),
    ),
    bug(
        3,
        "batches of the same number are taken for the same batch",
        (
            MASTER,
            "last_common_batch(self.epochs, self.end, Epochs(request.beginnings), request.end)",
            "min(self.end, request.end)",
        ),
    ),
    bug(
        3,
        "a mirror refuses batches of earlier epochs",
        (MIRROR, "or batch.epoch > self._epoch:", "or batch.epoch != self._epoch:"),
    ),
    bug(
        3,
        "a master that hands over keeps batches that it did not send",
        (STEPPING_DOWN, "    discard_batch(mirror.contents, unfinished)\n", ""),
    ),
    bug(
        3,
        "a master that hands over forgets the removals in its batches",
        (STEPPING_DOWN, "        _defer_operations(batch)\n", "        pass\n"),
    ),
    bug(
        3,
        "a master that hands over counts publishes that the next master may lack",
        (STEPPING_DOWN, "master.marks.without([*master.batches, unfinished])", "master.marks.copy()"),
    ),
    bug(
        3,
        "a master hands over before its epoch is open",
        (MASTER, "if has_all and not self._stopping and self.opened:", "if has_all and not self._stopping:"),
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
        "any mirror that proposes itself is promoted",
        (
            MEMBER,
            "        return promotion_candidates(self.replica_set, living, self.world.promotes_unsynced)",
            "        return [self.node_incarnation]",
        ),
    ),
    bug(
        6,
        "a joining mirror counts only after its admission is known",
        (
            MASTER,
            "for replica_set in self._proposals:\n            counted +=",
            "for replica_set in []:\n            counted +=",
        ),
    ),
    bug(
        6,
        "a mirror no longer counts while its removal is only proposed",
        (
            MASTER,
            "counted = list(self.replica_set.in_sync)",
            "counted = list((self._proposals or [self.replica_set])[-1].in_sync)",
        ),
    ),
    bug(
        6,
        "a proposal without an answer is forgotten",
        (
            MASTER,
            "        self._backing_off = True\n",
            "        self._backing_off = True\n        self._proposals = []\n",
        ),
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
        "a mirror that is not in sync gets no batches",
        (
            MASTER,
            "        for node in self.followers:\n",
            "        for node in [one for one in self.followers if self.followers[one].complete]:\n",
        ),
    ),
    bug(
        8,
        "a mirror that resumes does not report its progress",
        (MIRROR, "        self._carry_out_to(committed)\n        self._progressed = True\n", ""),
    ),
    bug(
        8,
        "a master does not report which batches are committed",
        (MASTER, "self._downstream.commit(node, committed)", "pass"),
    ),
    bug(
        9,
        "a lost mirror stays in the in-sync set",
        (MASTER, "        if absent:\n", "        if not absent:\n"),
    ),
    bug(
        10,
        "a mirror that becomes master still answers its predecessor",
        (
            MEMBER,
            "    def propose_itself(self) -> None:\n        self._leave()\n",
            "    def propose_itself(self) -> None:\n",
        ),
        (MEMBER, "        self._leave()\n        continues", "        continues"),
    ),
    bug(
        12,
        "a message is delivered below an uncommitted delivery watermark",
        (MASTERY, "= self.out, self.watermark.committed", "= self.out, self.watermark.requested"),
    ),
    bug(
        12,
        "an uncommitted message is delivered",
        (
            MASTERY,
            "        self.next_position += 1\n",
            "        self.next_position += 1\n        self.arrived.add(position)\n",
        ),
    ),
    bug(
        12,
        "a mirror reports its delivery watermark before it is on disk",
        (
            MIRROR,
            "            elif reader.kind == WATERMARK and contents.mark_delivered(reader.word(0)):\n"
            "                unflushed = True",
            "            elif reader.kind == WATERMARK:\n                contents.mark_delivered(reader.word(0))",
        ),
    ),
    bug(
        12,
        "a new master does not mark messages that may have been delivered",
        (MASTERY, "        self.watermark_before = self.copy.watermark", "        self.watermark_before = 0"),
    ),
    bug(
        13,
        "a removal that arrives before its message is forgotten",
        (COPY, "        self.tombstones = []", "        self.tombstones = None"),
    ),
    bug(
        13,
        "backfill starts before inherited removals are carried out",
        (NEWCOMERS, " or not master_replica.is_open or master_replica.master.committed < self._began", ""),
    ),
    bug(
        13,
        "backfill includes messages that were removed just before the mirror joined",
        (NEWCOMERS, " or master_replica.master.committed < self._began", ""),
    ),
    bug(
        13,
        "a joining mirror keeps messages that its master does not have",
        (MIRROR, "self.contents.remove_any(span.first, span.last)", "pass"),
    ),
    bug(
        13,
        "a joining mirror is not told how many publishes each node sent",
        (MEMBER, "OriginMarks(dict(what))", "OriginMarks()"),
    ),
    bug(
        13,
        "an interrupted backfill is taken for a complete one",
        (NEWCOMERS, "spans_of([*theirs, *self._sent])", "self._master_replica.copy.spans()"),
    ),
    bug(
        14,
        "a joining mirror counts as caught up before its backfill is on disk",
        (
            MIRROR,
            "flushed\n        self._unflushed = True\n        self.contents.begin",
            "flushed\n        self.contents.begin",
        ),
    ),
    bug(
        14,
        "a joining mirror is admitted before it has caught up",
        (
            MASTER,
            "MirrorProgress(node, incarnation, self.end, self.end, False)",
            "MirrorProgress(node, incarnation, self.end, self.end, True)",
        ),
    ),
    bug(
        14,
        "a joining mirror is admitted without the batches committed meanwhile",
        (MASTER, "            and follower.flushed_to >= self.committed\n", ""),
    ),
    bug(
        14,
        "a dropped mirror is admitted again without the batches its new master inherited",
        (MASTER, "needs = max(common, self.opening)", "needs = common"),
    ),
    bug(
        15,
        "members leave before their replacements are in sync",
        (MASTER, "        if waits and others_in_sync:\n", "        if waits and not others_in_sync:\n"),
    ),
    bug(
        15,
        "two orders of the same member list replace each other for ever",
        (
            MASTER,
            "return replica_set if stay == replica_set.members else replica_set.with_members(stay)",
            "return replica_set.with_members(self._wanted)",
        ),
    ),
    bug(
        15,
        "a member that is no longer wanted stays",
        (
            MASTER,
            "return replica_set if stay == replica_set.members else replica_set.with_members(stay)",
            "return replica_set",
        ),
    ),
    bug(
        15,
        "a member that was removed and added again counts with the replica it is about to drop",
        (
            ENTRANCE,
            "        if asked[2].known_revision < self._left.get(node, 0):\n",
            "        if asked[2].known_revision < 0:\n",
        ),
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
