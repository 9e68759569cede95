"""The rules for a replica set model, checked after every action, and once more when all is healed.

A *line* is a sequence of masters each of which was in sync with the one before. When no in-sync member is alive, a
restarted one is promoted: messages that were only in memory are lost, the origin marks are lost, and batch numbers
start again. Another line begins.

Not here: the actions (`sim.replica_sets.world`).
"""

from warren.broker.model.replica_set import ReplicaSet
from warren.broker.replication.batches import REMOVE, STORE, OriginMarks
from warren.broker.replication.mirror import FOLLOWING
from warren.errors import InvariantBroken
from warren.sim.replica_sets.master import ModelMaster
from warren.sim.replica_sets.metadata_store import unmet_desire
from warren.sim.replica_sets.node import ModelCluster, ModelNode
from warren.sim.replica_sets.operations import ReplicatedOperation, replicated_operations
from warren.sim.replica_sets.replica import ModelReplica
from warren.sim.report import ViolationLog

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
GONE = "a removed message is not delivered"
CONFIRMED = "only committed messages are confirmed"
ONCE = "publishes of one origin are stored once, completely and in order"
REST = "a healed replica set comes to rest"
ENOUGH = "no in-sync member leaves while its replacement is still joining"
AS_WANTED = "exactly the wanted members hold the queue"
KEPT = "nothing confirmed is lost"


class ReplicaSetInvariants(ViolationLog):
    """The rules, and their memory."""

    def __init__(self, world: ModelCluster) -> None:
        super().__init__()
        self.world = world
        self.published = 0
        # the message at every position
        self.messages: dict[int, bytes] = {}
        self.levels: dict[int, int] = {}
        # committed and not removed: their replicas are checked after every action
        self.kept: set[int] = set()
        self.kept_on_disk: set[int] = set()
        self.confirmed: set[bytes] = set()
        self.removed_ones: set[bytes] = set()
        # and in which epoch; an outdated master may deliver what its successor delivered, too
        self.delivered_ones: dict[int, int] = {}
        self.masters: dict[int, str] = {}
        # the last epoch in which each node was master
        self.last_epoch: dict[str, int] = {}
        # of this line: its epochs, the committed batches, the contents after each, the removed positions, the counts of
        # each origin
        self.epochs: set[int] = {1}
        # epochs with a master that was in sync with the one before
        self.inherited: set[int] = set()
        self.batches: dict[int, tuple[int, tuple[ReplicatedOperation, ...]]] = {}
        self.contents: dict[int, frozenset[int]] = {}
        self.began_with: frozenset[int] = frozenset()
        self.marks: dict[int, OriginMarks] = {}
        self.gone: set[int] = set()
        self.counts: dict[str, int] = {}

    # -- what nodes report

    def stored(self, position: int, payload: bytes) -> None:
        if self.messages.setdefault(position, payload) != payload:
            self.complain(ONE_MESSAGE, f"{position} is {self.messages[position]!r} and {payload!r}")

    def promoted(self, master_replica: ModelMaster, continues: bool, marks: OriginMarks) -> None:
        name = master_replica.member.name
        if master_replica.epoch <= self.last_epoch.get(name, 0):
            self.complain(EPOCHS_GROW, f"{name} is promoted for {master_replica.epoch} after {self.last_epoch[name]}")
        self.last_epoch[name] = master_replica.epoch
        if master_replica.epoch in self.inherited and not continues:
            self.complain(SOUND, f"{name} is in sync, and has not the whole queue")
        if master_replica.epoch in self.epochs and not self.contents:
            # the first master of its line: its contents are the beginning
            stored = {
                operation.first
                for _epoch, operations in master_replica.uncommitted.values()
                for operation in operations
                if operation.kind == STORE
            }
            committed = int(master_replica.master.committed)
            self.began_with = frozenset(master_replica.copy.held.keys() - stored)
            self.contents = {committed: self.began_with}
            self.marks = {committed: marks.copy() if continues else OriginMarks()}

    def proposed(self, master_replica: ModelMaster, replica_set: ReplicaSet) -> None:
        """A master proposes this replica set."""
        master, reached = master_replica.master, master_replica.member.peers
        follow = [(name, one.incarnation) for name, one in master.followers.items() if one.complete]
        go = [one[0] for one in master.replica_set.in_sync if one in follow and one[0] not in replica_set.members]
        come = [one for one in replica_set.members if one in reached and one not in replica_set.synced_names()]
        if go and come and replica_set.epoch == master_replica.epoch:
            self.complain(ENOUGH, f"{go} are to go while {come} catch up")

    def agreed(self, before: ReplicaSet, replica_set: ReplicaSet) -> None:
        """There is another version of the replica set."""
        replica_set.check()
        if not set(before.members) <= set(replica_set.members):
            self.world.seen["taken out"] += 1
        if not set(replica_set.members) <= set(before.members):
            self.world.seen["taken in"] += 1
        if replica_set.epoch == before.epoch:
            return
        if before.master_incarnation in replica_set.in_sync:
            self.world.seen["handing over"] += 1
        if replica_set.epoch != before.epoch + 1:
            self.complain(EPOCHS_GROW, f"{replica_set!r} comes after {before!r}")
        continues = replica_set.master_incarnation in before.in_sync
        self.world.seen["promotion" if continues else "another line"] += 1
        if continues:
            self.inherited.add(replica_set.epoch)
        else:
            self._end_line(self.world.members[replica_set.master].copy)
        self.epochs.add(replica_set.epoch)

    def _end_line(self, copy: ModelReplica) -> None:
        if self.world.promotes_unsynced:
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
        self, master_replica: ModelMaster, number: int, epoch: int, operations: tuple[ReplicatedOperation, ...]
    ) -> None:
        who = f"{master_replica.member.name}/{master_replica.member.incarnation}"
        if self.masters.setdefault(master_replica.epoch, who) != who:
            self.complain(
                ONE_MASTER, f"{self.masters[master_replica.epoch]} and {who} commit in {master_replica.epoch}"
            )
        if master_replica.epoch not in self.epochs:
            stored = [operation for operation in operations if operation.kind == STORE]
            self.confirmed |= {operation.payload for operation in stored}
            self._promise(
                [] if self.world.promotes_unsynced else [operation for operation in stored if operation.persistent]
            )
            return
        if number in self.batches:
            if self.batches[number] != (epoch, operations):
                self.complain(SAME_BATCHES, f"{number} is of epoch {self.batches[number][0]}, and of {epoch} for {who}")
            return
        self.batches[number] = epoch, operations
        before = self.contents.get(number - 1)
        if before is None:
            self.complain(SAME_BATCHES, f"{who} commits {number}, and no master has committed the batch before")
            return
        now, marks = set(before), self.marks[number - 1].copy()
        for operation in operations:
            self._apply(operation, now)
            if operation.kind == STORE:
                name, incarnation, _count = operation.payload.decode().split("/")
                marks.record(name, int(incarnation), operation.last)
        self.contents[number], self.marks[number] = frozenset(now), marks

    def _apply(self, operation: ReplicatedOperation, now: set[int]) -> None:
        if operation.kind == STORE:
            position = operation.first
            now.add(position)
            self.levels[position] = operation.level
            self._count(operation)
            self._promise([operation])
        elif operation.kind == REMOVE:
            for position in [each for each in now if operation.first <= each <= operation.last]:
                if self.levels.get(position, operation.level) == operation.level:
                    now.discard(position)
                    self.gone.add(position)

    def _promise(self, stored: list[ReplicatedOperation]) -> None:
        for operation in stored:
            self.confirmed.add(operation.payload)
            if operation.payload not in self.removed_ones:
                self.kept.add(operation.first)
                if operation.persistent:
                    self.kept_on_disk.add(operation.first)

    def _count(self, operation: ReplicatedOperation) -> None:
        origin = operation.payload.decode().rpartition("/")[0]
        last = self.counts.get(origin)
        # a successor may have the beginning of what a lost master had
        gap = operation.last - (last or 0) > 1 and not (self.world.promotes_unsynced and min(self.epochs) > 1)
        if last is not None and (operation.last <= last or gap):
            self.complain(ONCE, f"{operation.payload.decode()} is committed behind {origin}/{last}")
        self.counts[origin] = operation.last

    def confirm_received(self, payload: bytes) -> None:
        """A publisher got its confirm."""
        if payload not in self.confirmed:
            self.complain(CONFIRMED, f"{payload!r} is confirmed, and not committed")

    def removed(self, payload: bytes) -> None:
        """It may be removed from now on."""
        self.removed_ones.add(payload)
        gone = {position for position in self.kept | self.kept_on_disk if self.messages[position] == payload}
        self.kept -= gone
        self.kept_on_disk -= gone

    def delivered(self, master_replica: ModelMaster, position: int, marked: bool) -> None:
        payload = self.messages[position]
        if position in self.delivered_ones:
            self.world.seen["redelivery"] += 1
            if (
                not marked
                and master_replica.epoch >= self.delivered_ones[position]
                and not self.world.promotes_unsynced
            ):
                self.complain(MARKED, f"{master_replica.member.name} delivers {payload!r} again")
        self.delivered_ones[position] = max(master_replica.epoch, self.delivered_ones.get(position, 0))
        if master_replica.epoch not in self.epochs:
            return
        if position in self.gone:
            if master_replica.epoch == max(self.epochs):
                self.complain(GONE, f"{master_replica.member.name} delivers {payload!r}, which was removed")
            return
        if payload not in self.confirmed and position not in self.began_with:
            self.complain(IN_FLIGHT, f"{payload!r} is delivered, and not committed")
        for name, _incarnation in self.world.store.replica_set.in_sync:
            if self.world.members[name].copy.disk_watermark < position:
                self.complain(IN_FLIGHT, f"{position} is delivered, above the watermark on the disk of {name}")

    # -- checks after every action

    def look(self, touched: ModelNode | None) -> None:
        world = self.world
        for name, incarnation in world.store.replica_set.in_sync:
            member = world.members[name]
            if member.up and member.incarnation == incarnation and not self.kept <= member.copy.held.keys():
                self.complain(HELD, f"{name} has not {sorted(self.kept - member.copy.held.keys())}")
            if not self.kept_on_disk <= member.copy.disk.keys():
                self.complain(ON_DISK, f"{name} has not {sorted(self.kept_on_disk - member.copy.disk.keys())}")
        if touched is not None and touched.up:
            self._look_at(touched)

    def _look_at(self, member: ModelNode) -> None:
        try:
            member.mirror.check()
            member.replica_set.check()
            member.proxy.window.check()
            if member.master_replica is not None:
                member.master_replica.check()
        except InvariantBroken as broken:
            self.complain(SOUND, f"{member.name}: {broken}")
        if member.master_replica is not None:
            master_replica = member.master_replica
            uncommitted = [
                operation for _epoch, operations in master_replica.uncommitted.values() for operation in operations
            ]
            self._compare(member, master_replica.epoch, int(master_replica.master.committed), uncommitted)
        elif member.mirror.state == FOLLOWING and member.mirror.whole:
            mirror = member.mirror
            committed = int(mirror.committed)
            if committed in self.batches and self.batches[committed][0] != mirror.epochs.of(committed):
                # a joining mirror takes its starting batch to be committed, which it may not be
                return
            uncommitted = [operation for batch in mirror.batches for operation in replicated_operations(batch.data)]
            self._compare(member, member.following, committed, uncommitted)
            marks = self.marks.get(committed) if member.following in self.epochs else None
            if marks is not None and not _agree(mirror.marks, marks, min(self.epochs) == 1):
                self.complain(MARKS_AGREE, f"{member.name} has {mirror.marks.counts} after batch {committed}")

    def _compare(self, member: ModelNode, epoch: int, committed: int, uncommitted: list[ReplicatedOperation]) -> None:
        contents = self.contents.get(committed)
        if contents is None or epoch not in self.epochs:
            return
        should = contents | {operation.first for operation in uncommitted if operation.kind == STORE}
        if member.copy.held.keys() != should:
            wrong = sorted(should ^ member.copy.held.keys())
            self.complain(COPIES_AGREE, f"{member.name} differs in {wrong} after batch {committed}")

    def snapshot(self) -> object:
        """The memory of the rules that matters for later actions."""
        return (frozenset(self.kept), frozenset(self.kept_on_disk), len(self.batches), frozenset(self.gone))

    # -- at the end

    def ended(self) -> None:
        """The world is healed, and nothing more happens."""
        world = self.world
        replica_set = world.store.replica_set
        restless = [name for name, member in world.members.items() if not member.at_rest()]
        absent = [
            name for name in replica_set.members if world.members[name].node_incarnation not in replica_set.in_sync
        ]
        if restless or absent:
            self.complain(REST, f"{restless} do not come to rest, {absent} are not in sync in {replica_set!r}")
            return
        lacking = unmet_desire(world.store.wanted, world.members[replica_set.master].replica_set, list(world.members))
        if lacking:
            self.complain(AS_WANTED, f"there is {lacking}")
        copies = [world.members[name].copy for name in replica_set.members]
        for name, copy in zip(replica_set.members, copies, strict=True):
            if copy.held != copies[0].held:
                self.complain(COPIES_AGREE, f"{name} and {replica_set.members[0]} have different contents")
            if not self.kept <= copy.held.keys():
                self.complain(KEPT, f"{name} has not {sorted(self.kept - copy.held.keys())}")


def _agree(marks: OriginMarks, should: OriginMarks, complete: bool) -> bool:
    """Whether both marks agree on how much is held.

    One of them may lack an incarnation of which nothing is held. In a line that is not `complete`, because there were
    others before it, the first message of an incarnation may show that it sent more before.
    """
    for name in {**marks.counts, **should.counts}:
        has, wanted = marks.counts.get(name, (0, 0)), should.counts.get(name, (0, 0))
        unknown = not complete and has[0] > wanted[0]
        if has != wanted and not (has[1] == 0 and has[0] > wanted[0]) and (has[1] or wanted[1]) and not unknown:
            return False
    return True
