"""The master's part in a ring: numbers steps, sends them, and knows what is settled.

::

    turn ──► step ──► every follower
    SAFE of all counted ──► settled ──► owner: confirm, let in; followers: carry out
    a counted one is lost, or does not come ──► propose to drop it
    one has caught up ──► count it, propose to admit it

Who counts: whoever is in sync in the ring as it was last agreed upon, or in a proposal made since. A proposal that was
made upon a version of the ring cannot come about once there is another version, so then all of them are forgotten. As
long as one may still come about there is a proposal under way, for the same ring again if there is no better one.

Whoever is about to be proposed is waited for, too: it must have all that is settled at the moment it is proposed.

Invariants: `settled` never falls; every counted member holds every step up to it. All `steps` above are here, in order.

Not here: the theory (`mirroring`), what a step is about, and what a newcomer lacks (`broker.mirrors`).

Whom a master hears that asks to follow it.

Whoever is taken out of the ring drops its copy when it hears of that. If it is taken in again in the same epoch, it may
ask with what it has and is about to drop. So from then on a request counts only if its sender knew of a version of the
ring as late as the one without it. Who has heard of this epoch knows of everything before.

One that asks before its master has heard that it is a member is heard when the master has.

Not here: what becomes of whoever is heard (`broker.replication.master`).

A mirror as its master sees it: how far it has got, and what it needs to be in sync.

Not here: what follows from that (`broker.replication.master`).

A master that another takes the place of goes on as a mirror, with all it has.

It made every step that the next master has, and keeps to what a mirror keeps to: what its steps store is in its copy,
and what they remove is there until they are settled. What it has beyond is dropped when it is told the last common
step. So whoever hands a queue over stays in sync, and what it lacks of the next epoch comes as steps.

Not here: handing over (`broker.replication.master`), following (`broker.replication.mirror`).
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

PendingJoin = tuple[str, int, MirrorJoinRequest]
"""A node, its incarnation, and what it said."""


@final
class JoinGate:
    """One master's, in one epoch."""

    def __init__(self) -> None:
        # by name: the version of the ring from which it was gone
        self._left: dict[str, int] = {}
        self._early: dict[str, PendingJoin] = {}

    def admits(self, asked: PendingJoin, members: list[str]) -> bool:
        """Whether it is heard now."""
        node = asked[0]
        if asked[2].known < self._left.get(node, 0):
            return False
        if node in members:
            return True
        self._early[node] = asked
        return False

    def forget(self, node: str) -> None:
        """There is no way to it any more, or it asks anew."""
        self._early.pop(node, None)

    def changed(self, before: list[str], members: list[str], version: int) -> list[PendingJoin]:
        """There are other members, from that version on; those who have asked and may be heard now."""
        for name in before:
            if name not in members:
                self._left[name] = version
        return [self._early.pop(node) for node in list(self._early) if node in members]


@final
class MirrorProgress:
    """A mirror that follows this master, in one run of its node and of the link."""

    def __init__(self, node: str, incarnation: int, began: i64, needs: i64, resumed: bool) -> None:
        self.node: str = node
        self.incarnation: int = incarnation
        # the step behind which it began
        self.began: i64 = began
        # the step it must have to be in sync, if it is not
        self.needs: i64 = needs
        self.flushed_to: i64 = 0
        # it holds everything the queue has
        self.complete: bool = resumed

    def ready(self, committed: i64) -> bool:
        """Whether it holds everything up to the step it needs, and that is settled: it can be in sync."""
        return self.complete and self.flushed_to >= self.needs and committed >= self.needs


JOIN_TIMEOUT_MS: Final[i64] = 2_000
"""How long a new master waits for those in sync that are reached and say nothing."""

PROPOSAL_RETRY_MS: Final[i64] = 500
"""When to propose again what came to nothing."""


@mypyc_attr(allow_interpreted_subclasses=True)
class DownstreamPort:
    """The way to the followers."""

    @abstractmethod
    def resume(self, node: str, common: i64, committed: i64) -> None: ...

    @abstractmethod
    def start(self, node: str, number: i64) -> None:
        """Followed by whatever the newcomer needs to know of the queue at this moment."""

    @abstractmethod
    def batch(self, node: str, batch: ReplicationBatch) -> None: ...

    @abstractmethod
    def commit(self, node: str, number: i64) -> None: ...


@mypyc_attr(allow_interpreted_subclasses=True)
class ReplicaSetOwner:
    """Whoever has the queue."""

    @abstractmethod
    def committed(self, number: i64) -> None:
        """Everything up to this step is held by all who count."""

    @abstractmethod
    def propose(self, replica_set: ReplicaSet) -> None:
        """Have it agreed upon; what comes of it is told by `changed` or `refused`."""

    @abstractmethod
    def reached(self, node: str) -> bool:
        """Whether there is a link to that node."""

    @abstractmethod
    def lacks(self, node: str, spans: list[PositionSpan]) -> None:
        """A newcomer has told what it has: let it catch up, now or when it is told to."""


@final
class Master(FlushWaiter, TimerTarget):
    """One queue's, in one epoch."""

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
        self.writer: ReplicationBatchWriter = ReplicationBatchWriter()
        self.end: i64 = end
        self.committed: i64 = end
        self.batches: list[ReplicationBatch] = []
        self.epochs: Epochs = Epochs()
        self.marks: OriginMarks = OriginMarks()
        # the first step of this epoch
        self.opening: i64 = end + 1
        self.followers: dict[str, MirrorProgress] = {}
        self._join_gate: JoinGate = JoinGate()
        # who came while a step was being written, which may be new to them
        self._waiting_joins: list[tuple[str, int, MirrorJoinRequest]] = []
        self._own: NodeIncarnation = own
        self._downstream: DownstreamPort = downstream
        self._owner: ReplicaSetOwner = owner
        self._turn: Turn = turn
        self._own_flushed_to: i64 = end
        self._flushes: list[i64] = []
        # a part of this turn's step must be on disk
        self._unflushed: bool = False
        # proposals since the ring was last seen to change
        self._proposals: list[ReplicaSet] = []
        # the last of them is under way, or came to nothing that is known and it is too early for another
        self._under_way: bool = False
        self._backing_off: bool = False
        self._timer: Timer | None = None
        self._timer_at_ms: i64 = 0
        self._opened_at_ms: i64 = 0
        self._join_timed_out: bool = False
        # who is to hold the queue, and who is to be master; empty: whoever does and is
        self._wanted: list[str] = []
        self._candidate: str = ""
        self._promote_unsynced: bool = False
        self._stopping: bool = False

    def inherit(self, batches: list[ReplicationBatch], committed: i64, epochs: Epochs, marks: OriginMarks) -> None:
        """It was a mirror before: these steps are not known to be settled."""
        self.batches = batches
        self.committed = committed
        self._own_flushed_to = committed
        self.epochs = epochs
        self.marks = marks
        for batch in batches:
            marks.read(batch)

    def open(self) -> None:
        """Begin the epoch."""
        self.writer.open(self.replica_set.epoch)
        self._unflushed = True
        self._opened_at_ms = self._turn.now_ms
        self._wait(JOIN_TIMEOUT_MS)

    @property
    def opened(self) -> bool:
        """Whether the epoch's first step is settled, and with it all that was inherited."""
        return self.committed >= self.opening

    # -- the turn

    def must_be_flushed(self) -> None:
        """What was written to this turn's step must be on disk."""
        self._unflushed = True

    def end_turn(self) -> None:
        """What the turn did is a step."""
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
        """A mirror wants to follow. It begins behind a step of this epoch, so that it knows of which one that is."""
        self._forget(node)
        if not self._join_gate.admits((node, incarnation, request), self.replica_set.members):
            return
        if len(self.writer) or self.end < self.opening:
            self._waiting_joins.append((node, incarnation, request))
        else:
            self._accept(node, incarnation, request)

    def _accept(self, node: str, incarnation: int, request: MirrorJoinRequest) -> None:
        """To one that has the whole queue its own steps are of use, as far as they are the same."""
        common: i64 = 0
        if request.whole:
            common = last_common_batch(self.epochs, self.end, Epochs(request.beginnings), request.end)
        if common >= self.committed and common >= request.committed and common > 0:
            # what a master before this one settled without it is among what this one inherited
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

    def told(self, node: str, spans: list[PositionSpan]) -> None:
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
        """A newcomer has on disk whatever it lacked."""
        follower = self.followers.get(node)
        if follower is not None:
            follower.complete = True
            self._propose_better()
            self._advance_commit()

    def lost(self, node: str) -> None:
        """There is no way to it any more."""
        self._forget(node)
        self._propose_better()
        self._advance_commit()

    def _forget(self, node: str) -> None:
        self.followers.pop(node, None)
        self._join_gate.forget(node)
        self._waiting_joins = [join for join in self._waiting_joins if join[0] != node]

    # -- the ring

    def want(self, members: list[str]) -> None:
        """Who is to hold the queue from now on, this node among them."""
        self._wanted = members
        self._propose_better()

    def want_master(self, name: str, unsynced_too: bool = False, stopping: bool = False) -> None:
        """Let another be master as soon as it is in sync, or `anyhow`; this one is a mirror then, unless it `leaves`.

        Nothing has to come to rest for that: all who count, the other among them, hold whatever is settled, and once it
        knows this one settles nothing without it. To stay in sync this epoch must be open: what it has is certain then.
        """
        self._candidate = name
        self._promote_unsynced = unsynced_too
        self._stopping = stopping
        self._propose_better()

    def changed(self, replica_set: ReplicaSet, version: int = 0) -> None:
        """The ring, with this master in this epoch, was agreed upon anew; versions grow."""
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
        """What was proposed is not known to have come about; it counts until the ring is seen to change."""
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
        """All whom a step must have reached to be settled, this node among them."""
        runs = list(self.replica_set.in_sync)
        for replica_set in self._proposals:
            runs += [run for run in replica_set.in_sync if run not in runs]
        return runs

    def _propose_better(self) -> None:
        """Propose what would be better than the ring there is, or to be sure of it, unless something is under way."""
        if not self._under_way:
            replica_set = self._better_replica_set()
            if replica_set != self.replica_set or self._proposals:
                self._proposals.append(replica_set)
                self._under_way = True
                self._owner.propose(replica_set)

    def _absent(self) -> list[str]:
        """Those who are in sync by agreement and do not follow; one that is reached gets some time to come."""
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
            run = (candidate.node, candidate.incarnation)
            has_all = run in self.replica_set.in_sync and run in replica_set.in_sync and candidate.complete
            if has_all and not self._stopping and self.opened:
                return replica_set.handing_over(run)
            if (has_all and self._stopping) or self._promote_unsynced:
                return replica_set.promoting(run)
        return self._with_wanted_members(replica_set)

    def _with_wanted_members(self, replica_set: ReplicaSet) -> ReplicaSet:
        """Members are added at once, and dropped when all that are wanted and reached are in sync.

        Those that stay keep their order: of two orders each could be proposed in the place of the other for ever.
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
        """Look again by then."""
        at_ms = self._turn.now_ms + for_ms
        if self._timer is not None:
            if self._timer_at_ms <= at_ms:
                return
            self._turn.cancel_timer(self._timer)
        self._timer_at_ms = at_ms
        self._timer = self._turn.set_timer(at_ms, self)

    # -- settling

    def _advance_commit(self) -> None:
        committed = self._own_flushed_to
        if committed <= self.committed:
            return
        for run in self.counted() if self._proposals else self.replica_set.in_sync:
            if run == self._own:
                continue
            follower = self.followers.get(run[0])
            if follower is None or follower.incarnation != run[1] or not follower.complete:
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
        # whoever is in sync follows, or nothing would have been settled: are there others, or is one to be master?
        if self._candidate or len(self.followers) >= len(self.replica_set.in_sync):
            self._propose_better()


def step_down(master: Master, mirror: Mirror) -> None:
    """Let a mirror that has nothing yet go on where the master is."""
    unfinished = ReplicationBatch(master.end + 1, master.replica_set.epoch, master.writer.finish())
    mirror.whole = True
    mirror.end = master.end
    mirror.committed = master.committed
    mirror.batches = list(master.batches)
    for batch in mirror.batches:
        _defer_operations(batch)
    mirror.epochs = Epochs(list(master.epochs.beginnings))
    mirror.marks = master.marks.without([*master.batches, unfinished])
    # nobody was sent that one
    discard_batch(mirror.contents, unfinished)


def _defer_operations(batch: ReplicationBatch) -> None:
    """What a mirror would have noted when it took the step."""
    marks = OriginMarks()
    marks.read(batch)
    batch.heard = [(name, incarnation, count) for name, (incarnation, count) in marks.runs.items()]
    batch.later = []
    reader = ReplicationBatchReader(batch)
    while reader.next():
        if reader.kind == STORE:
            batch.stored_to = reader.word(0)
        elif reader.kind in (REMOVE, RETURNED):
            batch.later.append((int(reader.kind), int(reader.priority), int(reader.word(0)), int(reader.word(1))))
