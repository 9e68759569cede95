"""The master of one epoch: numbers batches, sends them to its followers, and knows which are committed.

::

    turn ──► batch ──► every follower
    FLUSHED of all counted members ──► committed ──► owner: confirm, deliver; followers: carry out
    a counted member is lost, or does not join ──► propose to remove it from the in-sync set
    a joining mirror has caught up ──► count it, then propose to admit it

**Counted members.** A member is counted if it is in sync in the replica set that was last committed, or in any proposal
since. Proposals are compare-and-swap: one that was made from an old version can no longer succeed once there is a new
version, so all of them are forgotten then. As long as one of them may still succeed, one proposal is under way, if need
be for the same replica set again. The commit also waits for a mirror that is about to be proposed: it must have every
batch that is committed at that moment.

**Joining.** A member that was removed drops its replica when it learns of that. If it is added again in the same epoch,
it may ask to join with the replica that it is about to drop. So from then on a request counts only if its sender knew
the version without it (`JoinGate`). A node that knows this epoch knows everything before it. A request whose sender is
not yet a member, as far as this master knows, is kept until it is one.

**Stepping down.** A master whose place another one takes continues as a mirror with all its batches. The next master
has a prefix of them. Messages of uncommitted batches are in the contents, and their removals are not carried out, as at
any mirror. So a master that hands over stays in sync: it drops batches after the last common one, and gets the next
epoch as batches.

Invariants: `committed` never falls; every counted member has every batch up to it; `batches` has all later ones, in
order.

Not here: the theory (`broker.replication`), the queue (`broker.replication.master_replica`), backfills
(`broker.replication.backfill`).
"""

from abc import abstractmethod
from typing import Final, final

from mypy_extensions import i64, mypyc_attr

from warren.broker.model.replica_contents import PositionSpan
from warren.broker.model.replica_set import NodeIncarnation, ReplicaSet
from warren.broker.model.turn import FlushWaiter, Timer, TimerTarget, Turn
from warren.broker.replication.batches import (
    REMOVE,
    RETURNED,
    STORE,
    Epochs,
    OriginMarks,
    ReplicationBatch,
    ReplicationBatchReader,
    ReplicationBatchWriter,
    last_common_batch,
)
from warren.broker.replication.mirror import Mirror, MirrorJoinRequest, discard_batch
from warren.errors import InvariantBroken

PendingJoin = tuple[str, int, MirrorJoinRequest]
"""A node, its incarnation, and its request."""


@final
class JoinGate:
    """Decides which join requests of one epoch count."""

    def __init__(self) -> None:
        # by node: the first version of the replica set without it
        self._left: dict[str, int] = {}
        self._early: dict[str, PendingJoin] = {}

    def admits(self, asked: PendingJoin, members: list[str]) -> bool:
        """Whether the request counts now; one that comes too early is kept."""
        node = asked[0]
        if asked[2].known_revision < self._left.get(node, 0):
            return False
        if node in members:
            return True
        self._early[node] = asked
        return False

    def forget(self, node: str) -> None:
        """The link to the node is lost, or it asks again."""
        self._early.pop(node, None)

    def changed(self, before: list[str], members: list[str], version: int) -> list[PendingJoin]:
        """The members changed with this version; the kept requests that count now."""
        for name in before:
            if name not in members:
                self._left[name] = version
        return [self._early.pop(node) for node in list(self._early) if node in members]

    def check(self, members: list[str]) -> None:
        """Raise `InvariantBroken` if the request of a member is still kept."""
        for node in self._early:
            if node in members:
                raise InvariantBroken(f"the join request of {node} is kept, and {node} is a member")


@final
class MirrorProgress:
    """How far one mirror has followed this master, in one incarnation and over one link."""

    def __init__(self, node: str, incarnation: int, began: i64, needs: i64, resumed: bool) -> None:
        self.node: str = node
        self.incarnation: int = incarnation
        # it gets the batches after this one
        self.began: i64 = began
        # the batch that it must have before it can be in sync
        self.needs: i64 = needs
        self.flushed_to: i64 = 0
        # it has all messages of the queue
        self.complete: bool = resumed

    def ready(self, committed: i64) -> bool:
        """Whether it can be in sync: it has the batch that it needs, which is committed."""
        return self.complete and self.flushed_to >= self.needs and committed >= self.needs


JOIN_TIMEOUT_MS: Final[i64] = 2_000
"""How long a new master waits for connected members in sync to join."""

PROPOSAL_RETRY_MS: Final[i64] = 500
"""The delay before a failed proposal is repeated."""


@mypyc_attr(allow_interpreted_subclasses=True)
class DownstreamPort:
    """Sends to the followers."""

    @abstractmethod
    def resume(self, node: str, common: i64, committed: i64) -> None: ...

    @abstractmethod
    def start(self, node: str, number: i64) -> None:
        """The mirror gets batches after this one, and needs a backfill."""

    @abstractmethod
    def batch(self, node: str, batch: ReplicationBatch) -> None: ...

    @abstractmethod
    def commit(self, node: str, number: i64) -> None: ...


@mypyc_attr(allow_interpreted_subclasses=True)
class ReplicaSetOwner:
    """The replica of which this is the master."""

    @abstractmethod
    def committed(self, number: i64) -> None:
        """All batches up to this one are committed."""

    @abstractmethod
    def propose(self, replica_set: ReplicaSet) -> None:
        """Propose a replica set; `Master.changed` or `Master.refused` follows."""

    @abstractmethod
    def reached(self, node: str) -> bool:
        """Whether there is a link to that node."""

    @abstractmethod
    def lacks(self, node: str, spans: list[PositionSpan]) -> None:
        """A joining mirror has these spans: backfill the others, now or when it is allowed."""


@final
class Master(FlushWaiter, TimerTarget):
    """Replicates the changes of one queue in one epoch, and manages the in-sync set."""

    def __init__(
        self,
        replica_set: ReplicaSet,
        own: NodeIncarnation,
        downstream: DownstreamPort,
        owner: ReplicaSetOwner,
        turn: Turn,
        end: i64 = 0,
    ) -> None:
        self.replica_set: ReplicaSet = replica_set
        self.writer: ReplicationBatchWriter = ReplicationBatchWriter(turn.buffers)
        self.end: i64 = end
        self.committed: i64 = end
        self.batches: list[ReplicationBatch] = []
        self.epochs: Epochs = Epochs()
        self.marks: OriginMarks = OriginMarks()
        # the first batch of this epoch
        self.opening: i64 = end + 1
        self.followers: dict[str, MirrorProgress] = {}
        self._join_gate: JoinGate = JoinGate()
        # requests that came while a batch was being written: they are answered when it is sent
        self._waiting_joins: list[tuple[str, int, MirrorJoinRequest]] = []
        self._own: NodeIncarnation = own
        self._downstream: DownstreamPort = downstream
        self._owner: ReplicaSetOwner = owner
        self._turn: Turn = turn
        self._own_flushed_to: i64 = end
        self._flushes: list[i64] = []
        # a part of the batch being written must be flushed
        self._unflushed: bool = False
        # proposals since the last change of the replica set
        self._proposals: list[ReplicaSet] = []
        # the last proposal is pending; or it failed, and the next one waits
        self._under_way: bool = False
        self._backing_off: bool = False
        self._timer: Timer | None = None
        self._timer_at_ms: i64 = 0
        self._opened_at_ms: i64 = 0
        self._join_timed_out: bool = False
        # the wanted members and master; empty if they are to stay
        self._wanted: list[str] = []
        self._candidate: str = ""
        self._promote_unsynced: bool = False
        self._stopping: bool = False

    def inherit(self, batches: list[ReplicationBatch], committed: i64, epochs: Epochs, marks: OriginMarks) -> None:
        """This node was a mirror, with these batches after the last one it knew to be committed."""
        self.batches = batches
        self.committed = committed
        self._own_flushed_to = committed
        self.epochs = epochs
        self.marks = marks
        for batch in batches:
            marks.read(batch)

    def open(self) -> None:
        """Write the first batch of the epoch."""
        self.writer.open(self.replica_set.epoch)
        self._unflushed = True
        self._opened_at_ms = self._turn.now_ms
        self._wait(JOIN_TIMEOUT_MS)

    @property
    def opened(self) -> bool:
        """Whether the first batch of the epoch is committed, and with it all inherited batches."""
        return self.committed >= self.opening

    # -- the turn

    def must_be_flushed(self) -> None:
        """The batch being written must be flushed before it is committed."""
        self._unflushed = True

    def end_turn(self) -> None:
        """Number the batch of this turn, and send it."""
        if not len(self.writer):
            return
        self.end += 1
        batch = ReplicationBatch(self.end, self.replica_set.epoch, self.writer.finish())
        self.batches.append(batch)
        self.epochs.add(batch.epoch, batch.number)
        for node in self.followers:
            self._downstream.batch(node, batch)
        if self._unflushed or self._flushes:
            self._unflushed = False
            self._flushes.append(self.end)
            self._turn.await_flush(self)
        else:
            self._own_flushed_to = self.end
            self._advance_commit()
        joins = self._waiting_joins
        self._waiting_joins = []
        for node, incarnation, request in joins:
            self._accept(node, incarnation, request)

    def flushed(self) -> None:
        self._own_flushed_to = self._flushes.pop(0)
        self._advance_commit()

    # -- followers

    def joined(self, node: str, incarnation: int, request: MirrorJoinRequest) -> None:
        """A mirror asks to follow. It starts after a batch of this epoch, so that it knows that batch's epoch."""
        self._forget(node)
        if not self._join_gate.admits((node, incarnation, request), self.replica_set.members):
            return
        if len(self.writer) or self.end < self.opening:
            self._waiting_joins.append((node, incarnation, request))
        else:
            self._accept(node, incarnation, request)

    def _accept(self, node: str, incarnation: int, request: MirrorJoinRequest) -> None:
        """Let a mirror resume after the last common batch if it has the whole queue; otherwise let it start."""
        common: i64 = 0
        if request.whole:
            common = last_common_batch(self.epochs, self.end, Epochs(request.beginnings), request.end)
        if common >= self.committed and common >= request.committed and common > 0:
            # an earlier master may have committed batches without it: all of them were inherited by this one
            needs = max(common, self.opening)
            self.followers[node] = MirrorProgress(node, incarnation, common, needs, True)
            self._downstream.resume(node, common, self.committed)
            for batch in self.batches:
                if batch.number > common:
                    self._downstream.batch(node, batch)
        else:
            self.followers[node] = MirrorProgress(node, incarnation, self.end, self.end, False)
            self._downstream.start(node, self.end)
        self._propose_better()
        self._advance_commit()

    def contents_received(self, node: str, spans: list[PositionSpan]) -> None:
        if node in self.followers:
            self._owner.lacks(node, spans)

    def flushed_to(self, node: str, number: i64) -> None:
        follower = self.followers.get(node)
        if follower is not None and number <= self.end:
            follower.flushed_to = number
            if (node, follower.incarnation) not in self.replica_set.in_sync:
                self._propose_better()
            self._advance_commit()

    def caught_up(self, node: str) -> None:
        """The whole backfill is on the mirror's disk."""
        follower = self.followers.get(node)
        if follower is not None:
            follower.complete = True
            self._propose_better()
            self._advance_commit()

    def lost(self, node: str) -> None:
        """The link to the mirror is lost."""
        self._forget(node)
        self._propose_better()
        self._advance_commit()

    def _forget(self, node: str) -> None:
        self.followers.pop(node, None)
        self._join_gate.forget(node)
        self._waiting_joins = [join for join in self._waiting_joins if join[0] != node]

    # -- the replica set

    def want(self, members: list[str]) -> None:
        """Set the wanted members; this node must be one of them."""
        self._wanted = members
        self._propose_better()

    def want_master(self, name: str, unsynced_too: bool = False, stopping: bool = False) -> None:
        """Hand over to another master as soon as it is in sync, or earlier if `unsynced_too`.

        This node stays as a mirror in sync, unless it is `stopping`. Traffic need not pause: every counted member, the
        next master among them, has all committed batches, and this one commits nothing without it. To stay in sync,
        the epoch of this master must be open: only then is it certain which batches it has.
        """
        self._candidate = name
        self._promote_unsynced = unsynced_too
        self._stopping = stopping
        self._propose_better()

    def changed(self, replica_set: ReplicaSet, version: int = 0) -> None:
        """A new version of the replica set is committed; this is still the master, in the same epoch."""
        asked = self._join_gate.changed(self.replica_set.members, replica_set.members, version)
        self.replica_set = replica_set
        self._proposals = []
        self._under_way = False
        self._backing_off = False
        for node in [node for node in self.followers if node not in replica_set.members]:
            del self.followers[node]
        self._waiting_joins = [join for join in self._waiting_joins if join[0] in replica_set.members]
        for one, incarnation, request in asked:
            self.joined(one, incarnation, request)
        self._propose_better()
        self._advance_commit()

    def refused(self) -> None:
        """The proposal failed, or its outcome is unknown: it counts until the replica set changes."""
        self._backing_off = True
        self._wait(PROPOSAL_RETRY_MS)

    def timer_fired(self) -> None:
        self._timer = None
        if self._turn.now_ms >= self._opened_at_ms + JOIN_TIMEOUT_MS:
            self._join_timed_out = True
        else:
            self._wait(self._opened_at_ms + JOIN_TIMEOUT_MS - self._turn.now_ms)
        if self._backing_off:
            self._backing_off = False
            self._under_way = False
        self._propose_better()

    def counted(self) -> list[NodeIncarnation]:
        """The members that must have a batch before it is committed, this node among them."""
        counted = list(self.replica_set.in_sync)
        for replica_set in self._proposals:
            counted += [one for one in replica_set.in_sync if one not in counted]
        return counted

    def _propose_better(self) -> None:
        """Propose a better replica set, or the current one to void earlier proposals, unless one is pending."""
        if not self._under_way:
            replica_set = self._better_replica_set()
            if replica_set != self.replica_set or self._proposals:
                self._proposals.append(replica_set)
                self._under_way = True
                self._owner.propose(replica_set)

    def _absent(self) -> list[str]:
        """Members in sync that do not follow; a connected one has some time to join."""
        return [
            name
            for name, incarnation in self.replica_set.in_sync
            if (name, incarnation) != self._own
            and not self._follows(name, incarnation)
            and (self._join_timed_out or not self._owner.reached(name))
        ]

    def _follows(self, name: str, incarnation: int) -> bool:
        follower = self.followers.get(name)
        return follower is not None and follower.incarnation == incarnation and follower.complete

    def _better_replica_set(self) -> ReplicaSet:
        replica_set = self.replica_set
        absent = self._absent()
        if absent:
            replica_set = replica_set.dropping(absent)
        joining_mirrors = [
            (follower.node, follower.incarnation)
            for follower in self.followers.values()
            if follower.ready(self.committed)
            and follower.flushed_to >= self.committed
            and follower.node in replica_set.members
            and (follower.node, follower.incarnation) not in replica_set.in_sync
        ]
        if joining_mirrors:
            replica_set = replica_set.admitting(joining_mirrors)
        candidate = self.followers.get(self._candidate)
        if candidate is not None:
            incarnation = (candidate.node, candidate.incarnation)
            has_all = (
                incarnation in self.replica_set.in_sync and incarnation in replica_set.in_sync and candidate.complete
            )
            if has_all and not self._stopping and self.opened:
                return replica_set.handing_over(incarnation)
            if (has_all and self._stopping) or self._promote_unsynced:
                return replica_set.promoting(incarnation)
        return self._with_wanted_members(replica_set)

    def _with_wanted_members(self, replica_set: ReplicaSet) -> ReplicaSet:
        """Add members at once; remove others when all wanted and connected members are in sync.

        Members that stay keep their order. Otherwise two orders could replace each other for ever.
        """
        if not self._wanted:
            return replica_set
        missing = [name for name in self._wanted if name not in replica_set.members]
        if missing:
            return replica_set.with_members([*replica_set.members, *missing])
        synced = replica_set.synced_names()
        waits = [name for name in self._wanted if name not in synced and self._owner.reached(name)]
        others_in_sync = [name for name in synced if name not in self._wanted]
        if waits and others_in_sync:
            return replica_set
        stay = [name for name in replica_set.members if name in self._wanted]
        return replica_set if stay == replica_set.members else replica_set.with_members(stay)

    def _wait(self, for_ms: i64) -> None:
        """Set the timer, unless it fires earlier."""
        at_ms = self._turn.now_ms + for_ms
        if self._timer is not None:
            if self._timer_at_ms <= at_ms:
                return
            self._turn.cancel_timer(self._timer)
        self._timer_at_ms = at_ms
        self._timer = self._turn.set_timer(at_ms, self)

    # -- commits

    def _advance_commit(self) -> None:
        committed = self._own_flushed_to
        if committed <= self.committed:
            return
        for member in self.counted() if self._proposals else self.replica_set.in_sync:
            if member == self._own:
                continue
            follower = self.followers.get(member[0])
            if follower is None or follower.incarnation != member[1] or not follower.complete:
                return
            committed = min(committed, follower.flushed_to)
        for follower in self.followers.values():
            if follower.ready(self.committed) and follower.node in self.replica_set.members:
                committed = min(committed, follower.flushed_to)
        if committed <= self.committed:
            return
        self.committed = committed
        del self.batches[: max(len(self.batches) - int(self.end - committed), 0)]
        self.epochs.forget(committed)
        for node, follower in self.followers.items():
            if follower.began <= committed:
                self._downstream.commit(node, committed)
        self._owner.committed(committed)
        # all members in sync follow, as there was a commit: propose only if others follow too, or one is to be master
        if self._candidate or len(self.followers) >= len(self.replica_set.in_sync):
            self._propose_better()

    # -- invariants

    def check(self) -> None:
        """Raise `InvariantBroken` if an invariant does not hold. Linear in uncommitted batches and members."""
        numbers = [int(batch.number) for batch in self.batches]
        if numbers != list(range(int(self.committed) + 1, int(self.end) + 1)):
            raise InvariantBroken(f"a master has batches {numbers} between {self.committed} and {self.end}")
        if self.opening > self.end + 1:
            raise InvariantBroken(f"an epoch opens with batch {self.opening}, and the last batch is {self.end}")
        self._check_flushes()
        self._check_followers()
        if self._under_way and not self._proposals:
            raise InvariantBroken("a proposal is under way, and its members are not counted")
        self.epochs.check(self.committed)
        self.marks.check()
        self._join_gate.check(self.replica_set.members)

    def _check_flushes(self) -> None:
        """Every batch of this epoch is flushed here, or waits for its flush."""
        flushes = [int(self._own_flushed_to), *[int(number) for number in self._flushes]]
        if self.committed > self._own_flushed_to or self._own_flushed_to > self.end:
            raise InvariantBroken(f"batch {flushes[0]} is flushed, {self.committed} committed, {self.end} the last")
        if flushes != sorted(set(flushes)):
            raise InvariantBroken(f"flushes are out of order: {flushes}")
        if self.end >= self.opening and flushes[-1] != self.end:
            raise InvariantBroken(f"batch {self.end} waits for no flush: {flushes}")

    def _check_followers(self) -> None:
        for node, follower in self.followers.items():
            if node != follower.node or node not in self.replica_set.members:
                raise InvariantBroken(f"{node} follows and is not a member")
            if max(follower.flushed_to, follower.began, follower.needs) > self.end:
                raise InvariantBroken(
                    f"{node} follows from batch {follower.began}, needs {follower.needs} and has flushed "
                    f"{follower.flushed_to}, and the last batch is {self.end}"
                )


def step_down(master: Master, mirror: Mirror) -> None:
    """Give an empty mirror the state of a master that steps down."""
    unfinished = ReplicationBatch(master.end + 1, master.replica_set.epoch, master.writer.finish())
    mirror.whole = True
    mirror.end = master.end
    mirror.committed = master.committed
    mirror.batches = list(master.batches)
    for batch in mirror.batches:
        _defer_operations(batch)
    mirror.epochs = Epochs(list(master.epochs.beginnings))
    mirror.marks = master.marks.without([*master.batches, unfinished])
    # no mirror was sent this one
    discard_batch(mirror.contents, unfinished)


def _defer_operations(batch: ReplicationBatch) -> None:
    """Set what a mirror sets when it receives the batch."""
    marks = OriginMarks()
    marks.read(batch)
    batch.origin_counts = [(name, incarnation, count) for name, (incarnation, count) in marks.counts.items()]
    batch.deferred = []
    reader = ReplicationBatchReader(batch)
    while reader.next():
        if reader.kind == STORE:
            batch.stored_to = reader.word(0)
        elif reader.kind in (REMOVE, RETURNED):
            batch.deferred.append((int(reader.kind), int(reader.priority), int(reader.word(0)), int(reader.word(1))))
