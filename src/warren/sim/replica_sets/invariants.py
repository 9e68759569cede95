"""What must hold in a pretend ring, looked at after every action, and once more when all is healed.

A *line* is a succession of masters each of whom was in sync with the one before. When none of those lives that were in
sync, a restarted one is taken: whatever was only in memory is given up then, nobody knows any more what nodes sent
before (their marks), and numbers of steps begin anew: another line begins.

Not here: what happens (`sim.replica_sets.world`).
"""

from typing import TYPE_CHECKING

from warren.broker.model.replica_set import ReplicaSet
from warren.broker.replication.batches import REMOVE, STORE, OriginMarks
from warren.broker.replication.mirror import FOLLOWING
from warren.errors import InvariantBroken
from warren.sim.replica_sets.metadata_store import unmet_desire
from warren.sim.replica_sets.operations import ReplicatedOperation, replicated_operations
from warren.sim.replica_sets.replica import ModelReplica
from warren.sim.report import Violation

if TYPE_CHECKING:
    from warren.sim.replica_sets.master import ModelMaster
    from warren.sim.replica_sets.node import ModelNode
    from warren.sim.replica_sets.world import ReplicaSetWorld


ONE_MASTER = "only one master commits in an epoch"
EPOCHS_GROW = "epochs grow"
ONE_MESSAGE = "a position belongs to one message"
SAME_BATCHES = "a committed batch is the same on every member"
HELD = "every in-sync member has all confirmed messages"
ON_DISK = "confirmed persistent messages are on disk on every in-sync member"
COPIES_AGREE = "replicas agree up to the committed batch"
MARKS_AGREE = "members agree on how many publishes each node sent"
SOUND = "a member does not contradict itself"
UNDERSTOOD = "members understand each other"
IN_FLIGHT = "only committed messages below a committed watermark are delivered"
MARKED = "a second delivery is marked"
GONE = "what is gone stays gone"
CONFIRMED = "only committed messages are confirmed"
ONCE = "publishes of one origin are stored once, completely and in order"
REST = "a healed replica set comes to rest"
ENOUGH = "no in-sync member leaves while its replacement is still joining"
AS_WANTED = "exactly the wanted members hold the queue"
KEPT = "nothing confirmed is lost"


class ReplicaSetInvariants:
    """The rules, and what they have to know."""

    def __init__(self, world: "ReplicaSetWorld") -> None:
        self.world = world
        self.complaints: list[Violation] = []
        self.published = 0
        # what every position was given to
        self.messages: dict[int, bytes] = {}
        self.levels: dict[int, int] = {}
        # settled, and not removed: who holds them is looked at all the time
        self.kept: set[int] = set()
        self.kept_on_disk: set[int] = set()
        self.confirmed: set[bytes] = set()
        self.removed_ones: set[bytes] = set()
        # and in which epoch; a master that does not know yet that it is none may hand out what its successor did, too
        self.delivered_ones: dict[int, int] = {}
        self.masters: dict[int, str] = {}
        # the last epoch in which each node was master
        self.last_epoch: dict[str, int] = {}
        # of this line: which epochs are of it, settled steps, what there was after each, what is gone, counts heard
        self.epochs: set[int] = {1}
        # those whose master was in sync with the one before
        self.inherited: set[int] = set()
        self.batches: dict[int, tuple[int, tuple[ReplicatedOperation, ...]]] = {}
        self.contents: dict[int, frozenset[int]] = {}
        self.began_with: frozenset[int] = frozenset()
        self.marks: dict[int, OriginMarks] = {}
        self.gone: set[int] = set()
        self.counts: dict[str, int] = {}

    def complain(self, rule: str, what: str) -> None:
        self.complaints.append(Violation(rule, what))

    # -- what members report

    def stored(self, position: int, payload: bytes) -> None:
        if self.messages.setdefault(position, payload) != payload:
            self.complain(ONE_MESSAGE, f"{position} is {self.messages[position]!r} and {payload!r}")

    def promoted(self, master_replica: "ModelMaster", continues: bool) -> None:
        name = master_replica.member.name
        if master_replica.epoch <= self.last_epoch.get(name, 0):
            self.complain(EPOCHS_GROW, f"{name} is promoted for {master_replica.epoch} after {self.last_epoch[name]}")
        self.last_epoch[name] = master_replica.epoch
        if master_replica.epoch in self.inherited and not continues:
            self.complain(SOUND, f"{name} is in sync, and has not the whole queue")
        if master_replica.epoch in self.epochs and not self.contents:
            # the first of its line: what it has is what there was
            stored = {
                saying.first for _epoch, said in master_replica.said.values() for saying in said if saying.kind == STORE
            }
            committed = int(master_replica.master.committed)
            self.began_with = frozenset(master_replica.copy.held.keys() - stored)
            self.contents = {committed: self.began_with}
            self.marks = {committed: master_replica.member.mirror.marks.copy() if continues else OriginMarks()}

    def proposed(self, master_replica: "ModelMaster", replica_set: ReplicaSet) -> None:
        """A master would have the ring so."""
        master, reached = master_replica.master, master_replica.member.peers
        follow = [(name, one.incarnation) for name, one in master.followers.items() if one.complete]
        go = [run[0] for run in master.replica_set.in_sync if run in follow and run[0] not in replica_set.members]
        come = [one for one in replica_set.members if one in reached and one not in replica_set.synced_names()]
        if go and come and replica_set.epoch == master_replica.epoch:
            self.complain(ENOUGH, f"{go} are to go while {come} catch up")

    def agreed(self, before: ReplicaSet, replica_set: ReplicaSet) -> None:
        """There is another version of the ring."""
        replica_set.check()
        if not set(before.members) <= set(replica_set.members):
            self.world.saw("taken out")
        if not set(replica_set.members) <= set(before.members):
            self.world.saw("taken in")
        if replica_set.epoch == before.epoch:
            return
        if before.master_incarnation in replica_set.in_sync:
            self.world.saw("handing over")
        if replica_set.epoch != before.epoch + 1:
            self.complain(EPOCHS_GROW, f"{replica_set!r} comes after {before!r}")
        continues = replica_set.master_incarnation in before.in_sync
        self.world.saw("promotion" if continues else "another line")
        if continues:
            self.inherited.add(replica_set.epoch)
        else:
            self._end_line(self.world.members[replica_set.master].copy)
        self.epochs.add(replica_set.epoch)

    def _end_line(self, copy: ModelReplica) -> None:
        if self.world.anybody:
            self.kept &= copy.held.keys()
            self.kept_on_disk &= copy.lasting()
        else:
            self.kept = set(self.kept_on_disk)
        self.epochs = set()
        self.batches = {}
        self.contents = {}
        self.gone = set()
        self.counts = {}

    def committed(
        self, master_replica: "ModelMaster", number: int, epoch: int, said: tuple[ReplicatedOperation, ...]
    ) -> None:
        who = f"{master_replica.member.name}/{master_replica.member.incarnation}"
        if self.masters.setdefault(master_replica.epoch, who) != who:
            self.complain(
                ONE_MASTER, f"{self.masters[master_replica.epoch]} and {who} settle in {master_replica.epoch}"
            )
        if master_replica.epoch not in self.epochs:
            stored = [saying for saying in said if saying.kind == STORE]
            self.confirmed |= {saying.payload for saying in stored}
            self._promise([] if self.world.anybody else [saying for saying in stored if saying.persistent])
            return
        if number in self.batches:
            if self.batches[number] != (epoch, said):
                self.complain(SAME_BATCHES, f"{number} is of epoch {self.batches[number][0]}, and of {epoch} for {who}")
            return
        self.batches[number] = epoch, said
        before = self.contents.get(number - 1)
        if before is None:
            self.complain(SAME_BATCHES, f"{who} settles {number}, and nobody settled what is before")
            return
        now, marks = set(before), self.marks[number - 1].copy()
        for saying in said:
            self._settle(saying, now)
            if saying.kind == STORE:
                name, incarnation, _count = saying.payload.decode().split("/")
                marks.heard(name, int(incarnation), saying.last)
        self.contents[number], self.marks[number] = frozenset(now), marks

    def _settle(self, saying: ReplicatedOperation, now: set[int]) -> None:
        if saying.kind == STORE:
            position = saying.first
            now.add(position)
            self.levels[position] = saying.level
            self._count(saying)
            self._promise([saying])
        elif saying.kind == REMOVE:
            for position in [each for each in now if saying.first <= each <= saying.last]:
                if self.levels.get(position, saying.level) == saying.level:
                    now.discard(position)
                    self.gone.add(position)

    def _promise(self, stored: list[ReplicatedOperation]) -> None:
        for saying in stored:
            self.confirmed.add(saying.payload)
            if saying.payload not in self.removed_ones:
                self.kept.add(saying.first)
                if saying.persistent:
                    self.kept_on_disk.add(saying.first)

    def _count(self, saying: ReplicatedOperation) -> None:
        origin = saying.payload.decode().rpartition("/")[0]
        last = self.counts.get(origin)
        # of what a master had that was given up, its successor may have the beginning
        gap = saying.last - (last or 0) > 1 and not (self.world.anybody and min(self.epochs) > 1)
        if last is not None and (saying.last <= last or gap):
            self.complain(ONCE, f"{saying.payload.decode()} is settled behind {origin}/{last}")
        self.counts[origin] = saying.last

    def told(self, payload: bytes) -> None:
        """A publisher was told that it is confirmed."""
        if payload not in self.confirmed:
            self.complain(CONFIRMED, f"{payload!r} is confirmed, and not settled")

    def removed(self, payload: bytes) -> None:
        """It may be gone from now on."""
        self.removed_ones.add(payload)
        gone = {position for position in self.kept | self.kept_on_disk if self.messages[position] == payload}
        self.kept -= gone
        self.kept_on_disk -= gone

    def delivered(self, master_replica: "ModelMaster", position: int, marked: bool) -> None:
        payload = self.messages[position]
        if position in self.delivered_ones:
            self.world.saw("redelivery")
            if not marked and master_replica.epoch >= self.delivered_ones[position] and not self.world.anybody:
                self.complain(MARKED, f"{master_replica.member.name} delivers {payload!r} again")
        self.delivered_ones[position] = max(master_replica.epoch, self.delivered_ones.get(position, 0))
        if master_replica.epoch not in self.epochs:
            return
        if position in self.gone:
            if master_replica.epoch == max(self.epochs):
                self.complain(GONE, f"{master_replica.member.name} delivers {payload!r}, which was removed")
            return
        if payload not in self.confirmed and position not in self.began_with:
            self.complain(IN_FLIGHT, f"{payload!r} is handed out, and not settled")
        for name, _incarnation in self.world.store.replica_set.in_sync:
            if self.world.members[name].copy.disk_lent < position:
                self.complain(IN_FLIGHT, f"{position} is handed out, which {name} does not know for good")

    # -- what is looked at after every action

    def look(self, touched: "ModelNode | None") -> None:
        world = self.world
        for name, incarnation in world.store.replica_set.in_sync:
            member = world.members[name]
            if member.up and member.incarnation == incarnation and not self.kept <= member.copy.held.keys():
                self.complain(HELD, f"{name} has not {sorted(self.kept - member.copy.held.keys())}")
            if not self.kept_on_disk <= member.copy.disk.keys():
                self.complain(ON_DISK, f"{name} has not {sorted(self.kept_on_disk - member.copy.disk.keys())}")
        if touched is not None and touched.up:
            self._look_at(touched)

    def _look_at(self, member: "ModelNode") -> None:
        try:
            member.mirror.check()
            member.replica_set.check()
        except InvariantBroken as broken:
            self.complain(SOUND, f"{member.name}: {broken}")
        if member.master_replica is not None:
            master_replica = member.master_replica
            unsettled = [
                saying for _epoch, said in master_replica.said.values() for saying in said
            ] + master_replica.saying
            self._compare(member, master_replica.epoch, int(master_replica.master.committed), unsettled)
        elif member.mirror.state == FOLLOWING and member.mirror.whole:
            mirror = member.mirror
            committed = int(mirror.committed)
            if committed in self.batches and self.batches[committed][0] != mirror.epochs.of(committed):
                # a newcomer takes the step it began behind to be settled, and never was that
                return
            unsettled = [saying for batch in mirror.batches for saying in replicated_operations(batch.data)]
            self._compare(member, member.following, committed, unsettled)
            marks = self.marks.get(committed) if member.following in self.epochs else None
            if marks is not None and not _agree(mirror.marks, marks, min(self.epochs) == 1):
                self.complain(MARKS_AGREE, f"{member.name} has {mirror.marks.runs} after step {committed}")

    def _compare(self, member: "ModelNode", epoch: int, committed: int, unsettled: list[ReplicatedOperation]) -> None:
        contents = self.contents.get(committed)
        if contents is None or epoch not in self.epochs:
            return
        should = contents | {saying.first for saying in unsettled if saying.kind == STORE}
        if member.copy.held.keys() != should:
            wrong = sorted(should ^ member.copy.held.keys())
            self.complain(COPIES_AGREE, f"{member.name} differs in {wrong} after step {committed}")

    def snapshot(self) -> object:
        """What the rules remember that concerns what may come."""
        return (frozenset(self.kept), frozenset(self.kept_on_disk), len(self.batches), frozenset(self.gone))

    # -- at the end

    def ended(self) -> None:
        """The world is healed, and nothing more comes."""
        world = self.world
        replica_set = world.store.replica_set
        restless = [name for name, member in world.members.items() if not member.at_rest()]
        absent = [name for name in replica_set.members if world.members[name].run not in replica_set.in_sync]
        if restless or absent:
            self.complain(REST, f"{restless} do not come to rest, {absent} are not in sync in {replica_set!r}")
            return
        lacking = unmet_desire(world.store.wanted, world.members[replica_set.master])
        if lacking:
            self.complain(AS_WANTED, f"there is {lacking}")
        copies = [world.members[name].copy for name in replica_set.members]
        for name, copy in zip(replica_set.members, copies, strict=True):
            if copy.held != copies[0].held:
                self.complain(COPIES_AGREE, f"{name} and {replica_set.members[0]} have different contents")
            if not self.kept <= copy.held.keys():
                self.complain(KEPT, f"{name} has not {sorted(self.kept - copy.held.keys())}")


def _agree(marks: OriginMarks, should: OriginMarks, complete: bool) -> bool:
    """Whether both say the same of how much is held.

    Of a run of which nothing is, one may know and the other not. In a line that is not `complete`, because others were
    before it, the first thing a run sends may tell that it sent more before.
    """
    for name in {**marks.runs, **should.runs}:
        has, wanted = marks.runs.get(name, (0, 0)), should.runs.get(name, (0, 0))
        unknown = not complete and has[0] > wanted[0]
        if has != wanted and not (has[1] == 0 and has[0] > wanted[0]) and (has[1] or wanted[1]) and not unknown:
            return False
    return True
