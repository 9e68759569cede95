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
"""

from abc import abstractmethod
from typing import Final, final

from mypy_extensions import i64, mypyc_attr

from warren.mirroring.entrance import Entrance
from warren.mirroring.epochs import Epochs, last_common
from warren.mirroring.follower import Follower
from warren.mirroring.marks import Marks
from warren.mirroring.mirror import JoinRequest
from warren.mirroring.steps import Step, StepWriter
from warren.model.copies import Span
from warren.model.rings import Ring, Run
from warren.model.turn import FlushWaiter, Timed, Timer, Turn

JOIN_PATIENCE_MS: Final[i64] = 2_000
"""How long a new master waits for those in sync that are reached and say nothing."""

AGAIN_MS: Final[i64] = 500
"""When to propose again what came to nothing."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Downstream:
    """The way to the followers."""

    @abstractmethod
    def resume(self, node: str, common: i64, settled: i64) -> None: ...

    @abstractmethod
    def start(self, node: str, number: i64) -> None:
        """Followed by whatever the newcomer needs to know of the queue at this moment."""

    @abstractmethod
    def step(self, node: str, step: Step) -> None: ...

    @abstractmethod
    def settle(self, node: str, number: i64) -> None: ...


@mypyc_attr(allow_interpreted_subclasses=True)
class RingOwner:
    """Whoever has the queue."""

    @abstractmethod
    def settled(self, number: i64) -> None:
        """Everything up to this step is held by all who count."""

    @abstractmethod
    def propose(self, ring: Ring) -> None:
        """Have it agreed upon; what comes of it is told by `changed` or `refused`."""

    @abstractmethod
    def reached(self, node: str) -> bool:
        """Whether there is a link to that node."""

    @abstractmethod
    def lacks(self, node: str, spans: list[Span]) -> None:
        """A newcomer has told what it has: let it catch up, now or when it is told to."""


@final
class Master(FlushWaiter, Timed):
    """One queue's, in one epoch."""

    def __init__(
        self, ring: Ring, own: Run, downstream: Downstream, owner: RingOwner, turn: Turn, end: i64 = 0
    ) -> None:
        self.ring: Ring = ring
        self.writer: StepWriter = StepWriter()
        self.end: i64 = end
        self.settled: i64 = end
        self.steps: list[Step] = []
        self.epochs: Epochs = Epochs()
        self.marks: Marks = Marks()
        # the first step of this epoch
        self.opening: i64 = end + 1
        self.followers: dict[str, Follower] = {}
        self._entrance: Entrance = Entrance()
        # who came while a step was being written, which may be new to them
        self._arrivals: list[tuple[str, int, JoinRequest]] = []
        self._own: Run = own
        self._downstream: Downstream = downstream
        self._owner: RingOwner = owner
        self._turn: Turn = turn
        self._own_safe: i64 = end
        self._flushes: list[i64] = []
        # a part of this turn's step must be on disk
        self._unflushed: bool = False
        # proposals since the ring was last seen to change
        self._proposals: list[Ring] = []
        # the last of them is under way, or came to nothing that is known and it is too early for another
        self._under_way: bool = False
        self._resting: bool = False
        self._timer: Timer | None = None
        self._timer_at_ms: i64 = 0
        self._opened_at_ms: i64 = 0
        self._patience_over: bool = False
        # who is to hold the queue, and who is to be master; empty: whoever does and is
        self._wanted: list[str] = []
        self._heir: str = ""
        self._heir_anyhow: bool = False
        self._leaves: bool = False

    def inherit(self, steps: list[Step], settled: i64, epochs: Epochs, marks: Marks) -> None:
        """It was a mirror before: these steps are not known to be settled."""
        self.steps = steps
        self.settled = settled
        self._own_safe = settled
        self.epochs = epochs
        self.marks = marks
        for step in steps:
            marks.read(step)

    def open(self) -> None:
        """Begin the epoch."""
        self.writer.open(self.ring.epoch)
        self._unflushed = True
        self._opened_at_ms = self._turn.now_ms
        self._wait(JOIN_PATIENCE_MS)

    @property
    def opened(self) -> bool:
        """Whether the epoch's first step is settled, and with it all that was inherited."""
        return self.settled >= self.opening

    # -- the turn

    def must_be_flushed(self) -> None:
        """What was written to this turn's step must be on disk."""
        self._unflushed = True

    def end_turn(self) -> None:
        """What the turn did is a step."""
        if not len(self.writer):
            return
        self.end += 1
        step = Step(self.end, self.ring.epoch, self.writer.finish())
        self.steps.append(step)
        self.epochs.add(step.epoch, step.number)
        for node in self.followers:
            self._downstream.step(node, step)
        if self._unflushed or self._flushes:
            self._unflushed = False
            self._flushes.append(self.end)
            self._turn.await_flush(self)
        else:
            self._own_safe = self.end
            self._look()
        arrivals = self._arrivals
        self._arrivals = []
        for node, incarnation, request in arrivals:
            self._welcome(node, incarnation, request)

    def flushed(self) -> None:
        self._own_safe = self._flushes.pop(0)
        self._look()

    # -- followers

    def joined(self, node: str, incarnation: int, request: JoinRequest) -> None:
        """A mirror wants to follow. It begins behind a step of this epoch, so that it knows of which one that is."""
        self._forget(node)
        if not self._entrance.lets_in((node, incarnation, request), self.ring.members):
            return
        if len(self.writer) or self.end < self.opening:
            self._arrivals.append((node, incarnation, request))
        else:
            self._welcome(node, incarnation, request)

    def _welcome(self, node: str, incarnation: int, request: JoinRequest) -> None:
        """To one that has the whole queue its own steps are of use, as far as they are the same."""
        common: i64 = 0
        if request.whole:
            common = last_common(self.epochs, self.end, Epochs(request.beginnings), request.end)
        if common >= self.settled and common >= request.settled and common > 0:
            # what a master before this one settled without it is among what this one inherited
            needs = max(common, self.opening)
            self.followers[node] = Follower(node, incarnation, common, needs, True)
            self._downstream.resume(node, common, self.settled)
            for step in self.steps:
                if step.number > common:
                    self._downstream.step(node, step)
        else:
            self.followers[node] = Follower(node, incarnation, self.end, self.end, False)
            self._downstream.start(node, self.end)
        self._improve()
        self._look()

    def told(self, node: str, spans: list[Span]) -> None:
        if node in self.followers:
            self._owner.lacks(node, spans)

    def safe(self, node: str, number: i64) -> None:
        follower = self.followers.get(node)
        if follower is not None and number <= self.end:
            follower.safe = number
            if (node, follower.incarnation) not in self.ring.in_sync:
                self._improve()
            self._look()

    def caught_up(self, node: str) -> None:
        """A newcomer has on disk whatever it lacked."""
        follower = self.followers.get(node)
        if follower is not None:
            follower.complete = True
            self._improve()
            self._look()

    def lost(self, node: str) -> None:
        """There is no way to it any more."""
        self._forget(node)
        self._improve()
        self._look()

    def _forget(self, node: str) -> None:
        self.followers.pop(node, None)
        self._entrance.forget(node)
        self._arrivals = [arrival for arrival in self._arrivals if arrival[0] != node]

    # -- the ring

    def want(self, members: list[str]) -> None:
        """Who is to hold the queue from now on, this node among them."""
        self._wanted = members
        self._improve()

    def want_master(self, name: str, anyhow: bool = False, leaves: bool = False) -> None:
        """Let another be master as soon as it is in sync, or `anyhow`; this one is a mirror then, unless it `leaves`.

        Nothing has to come to rest for that: all who count, the other among them, hold whatever is settled, and once it
        knows this one settles nothing without it. To stay in sync this epoch must be open: what it has is certain then.
        """
        self._heir = name
        self._heir_anyhow = anyhow
        self._leaves = leaves
        self._improve()

    def changed(self, ring: Ring, version: int = 0) -> None:
        """The ring, with this master in this epoch, was agreed upon anew; versions grow."""
        asked = self._entrance.changed(self.ring.members, ring.members, version)
        self.ring = ring
        self._proposals = []
        self._under_way = False
        self._resting = False
        for node in [node for node in self.followers if node not in ring.members]:
            del self.followers[node]
        self._arrivals = [arrival for arrival in self._arrivals if arrival[0] in ring.members]
        for one, incarnation, request in asked:
            self.joined(one, incarnation, request)
        self._improve()
        self._look()

    def refused(self) -> None:
        """What was proposed is not known to have come about; it counts until the ring is seen to change."""
        self._resting = True
        self._wait(AGAIN_MS)

    def timer_fired(self) -> None:
        self._timer = None
        if self._turn.now_ms >= self._opened_at_ms + JOIN_PATIENCE_MS:
            self._patience_over = True
        else:
            self._wait(self._opened_at_ms + JOIN_PATIENCE_MS - self._turn.now_ms)
        if self._resting:
            self._resting = False
            self._under_way = False
        self._improve()

    def counted(self) -> list[Run]:
        """All whom a step must have reached to be settled, this node among them."""
        runs = list(self.ring.in_sync)
        for ring in self._proposals:
            runs += [run for run in ring.in_sync if run not in runs]
        return runs

    def _improve(self) -> None:
        """Propose what would be better than the ring there is, or to be sure of it, unless something is under way."""
        if not self._under_way:
            ring = self._better()
            if ring != self.ring or self._proposals:
                self._proposals.append(ring)
                self._under_way = True
                self._owner.propose(ring)

    def _absent(self) -> list[str]:
        """Those who are in sync by agreement and do not follow; one that is reached gets some time to come."""
        return [
            name
            for name, incarnation in self.ring.in_sync
            if (name, incarnation) != self._own
            and not self._follows(name, incarnation)
            and (self._patience_over or not self._owner.reached(name))
        ]

    def _follows(self, name: str, incarnation: int) -> bool:
        follower = self.followers.get(name)
        return follower is not None and follower.incarnation == incarnation and follower.complete

    def _better(self) -> Ring:
        ring = self.ring
        absent = self._absent()
        if absent:
            ring = ring.dropping(absent)
        newcomers = [
            (follower.node, follower.incarnation)
            for follower in self.followers.values()
            if follower.ready(self.settled)
            and follower.safe >= self.settled
            and follower.node in ring.members
            and (follower.node, follower.incarnation) not in ring.in_sync
        ]
        if newcomers:
            ring = ring.admitting(newcomers)
        heir = self.followers.get(self._heir)
        if heir is not None:
            run = (heir.node, heir.incarnation)
            has_all = run in self.ring.in_sync and run in ring.in_sync and heir.complete
            if has_all and not self._leaves and self.opened:
                return ring.handing_over(run)
            if (has_all and self._leaves) or self._heir_anyhow:
                return ring.promoting(run)
        return self._as_wanted(ring)

    def _as_wanted(self, ring: Ring) -> Ring:
        """Members are added at once, and dropped when all that are wanted and reached are in sync.

        Those that stay keep their order: of two orders each could be proposed in the place of the other for ever.
        """
        if not self._wanted:
            return ring
        missing = [name for name in self._wanted if name not in ring.members]
        if missing:
            return ring.with_members([*ring.members, *missing])
        synced = ring.synced_names()
        waits = [name for name in self._wanted if name not in synced and self._owner.reached(name)]
        others_in_sync = [name for name in synced if name not in self._wanted]
        if waits and others_in_sync:
            return ring
        stay = [name for name in ring.members if name in self._wanted]
        return ring if stay == ring.members else ring.with_members(stay)

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

    def _look(self) -> None:
        settled = self._own_safe
        if settled <= self.settled:
            return
        for run in self.counted() if self._proposals else self.ring.in_sync:
            if run == self._own:
                continue
            follower = self.followers.get(run[0])
            if follower is None or follower.incarnation != run[1] or not follower.complete:
                return
            settled = min(settled, follower.safe)
        for follower in self.followers.values():
            if follower.ready(self.settled) and follower.node in self.ring.members:
                settled = min(settled, follower.safe)
        if settled <= self.settled:
            return
        self.settled = settled
        del self.steps[: max(len(self.steps) - int(self.end - settled), 0)]
        self.epochs.forget(settled)
        for node, follower in self.followers.items():
            if follower.began <= settled:
                self._downstream.settle(node, settled)
        self._owner.settled(settled)
        # whoever is in sync follows, or nothing would have been settled: are there others, or is one to be master?
        if self._heir or len(self.followers) >= len(self.ring.in_sync):
            self._improve()
