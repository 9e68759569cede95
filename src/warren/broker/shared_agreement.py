"""How the nodes of a cluster agree: in a store that they share, and each makes what the store says.

::

    plan ──► Propose ─┬─► Decided: agreed ────► applied here and by every connected node ──► agreed
                      ├─► Decided: outdated ──► the newer state is applied here ──► outdated: plan again
                      └─► Decided: anything else, or nothing for too long ──► failed

    DefinitionsChanged ──► everybody's changes, in order: made here, and that is told to the others

Nothing is made because it was proposed: a node makes what the store tells it, its own changes like those of others, so
all nodes are the same fold of the same row of changes, some a little further along.

**Who has it.** Whoever is told `agreed` may rely on every node that serves clients: nodes tell how far they have come,
and a waiter waits for the slowest (`broker.sharing.progress`). One that does not get there in `PEER_PATIENCE_MS`, or is
not heard of for so long, is cut off from the store. It is not waited for until it has caught up: it knows itself that
it is behind (`is_stale`), and does not confirm that a message had nowhere to go. That is why the patience is longer
than what makes a node stale.

**What is known of the store** is as old as the question that the store answered, however long the answer was under way:
whatever was agreed upon before the question is in the answer, nothing else need be. A snapshot that replaces what was
missed says nothing about when it was taken, and so makes no node current by itself.

**What a node does that may be behind**, because it is stale, or has lost its link to a node that lives and may have
ceased to wait for it. It serves the queues it knows. A message for which it finds no queue it neither confirms nor
commits, by whatever road that was found out: the default exchange, bindings between exchanges, an alternate exchange.
What it can route it confirms, though a binding that was agreed upon since might have led to a further queue: a confirm
speaks of the queues that a node knows of. To nack all of it would stop every publisher of a cluster whose store has no
majority, where nothing can have changed at all.

**What is not known.** A proposal without an answer may have come about. Its waiter is told that it failed, which says
just that; a later answer is nobody's. A plan that nobody waits for is dropped when it is outdated.

**Beginning.** While a node moves from a store of its own to the shared one, plans wait. They are judged by what the
node knew when they were handed in, so whatever has changed by then makes them outdated.

Invariants: a waiter is told exactly once, and never within `agree`; it is not told `agreed` before this node has
applied the change.

Not here: transactions of large plans (`broker.sharing.proposal`), what was applied (`broker.sharing.definitions`), the
store itself (`node.etcd`).
"""

import heapq
from typing import Final, final

from warren.broker.agreement import Agreement
from warren.broker.applying import Appliers
from warren.broker.sharing.definitions import SharedDefinitions
from warren.broker.sharing.homes import QueueHomes
from warren.broker.sharing.progress import Progress
from warren.broker.sharing.proposal import Proposal
from warren.model.events import Decided, DefinitionsChanged, DefinitionsCurrent, DefinitionsReplaced, SharedSnapshot
from warren.model.turn import Timed, Timer, Turn
from warren.store.metadata import AGREED, OUTDATED
from warren.store.plan import AgreementWaiter, Plan

ANSWER_PATIENCE_MS: Final = 10_000
PEER_PATIENCE_MS: Final = 6_000
STALE_AFTER_MS: Final = 3_000
NEVER: Final = -1

NO_ANSWER: Final = "the cluster's metadata store did not answer within 10 seconds"
NOT_SEEN: Final = "the cluster's metadata store agreed, but this node has not heard of the change in time"


@final
class SharedAgreement(Agreement):
    """Of a node that shares its definitions with others."""

    def __init__(self, turn: Turn, appliers: Appliers) -> None:
        self._turn: Turn = turn
        self._known: SharedDefinitions = SharedDefinitions(appliers)
        self._holding: bool = False
        self._held: list[PendingPlan] = []
        self._tickets: int = 0
        # by ticket: what was proposed and is not decided
        self._undecided: dict[int, PendingPlan] = {}
        # by ticket: what was refused, and the revision at which it is to be seen why
        self._refused: dict[int, tuple[int, PendingPlan]] = {}
        # what came about: its revision, its last ticket
        self._agreed: list[tuple[int, int, PendingPlan]] = []
        self._progress: Progress = Progress(turn)
        self._told: int = 0
        # when the store was last asked something that showed this node to know everything
        self._current_ms: int = NEVER

    # -- what this node wants

    def at_once(self) -> bool:
        return False

    def agree(self, plan: Plan, waiter: AgreementWaiter | None) -> bool:
        if not plan.changes and not plan.touched:
            return True
        pending = PendingPlan(self, Proposal(plan, self._known), waiter)
        pending.wait(self._turn, ANSWER_PATIENCE_MS)
        if self._holding:
            self._held.append(pending)
        else:
            self._propose(pending)
        return False

    def hold(self) -> None:
        """Propose nothing for the time being."""
        self._holding = True

    def begin(self) -> None:
        """Propose what has gathered, and everything from now on."""
        self._holding = False
        held = self._held
        self._held = []
        for pending in held:
            if not pending.over:
                self._propose(pending)

    def give_up(self) -> None:
        """There will be no shared store: whoever waits plans again."""
        held = self._held
        self._held = []
        for pending in held:
            if not pending.over:
                pending.end(self._turn)
                if pending.waiter is not None:
                    pending.waiter.outdated()

    # -- what the store says

    def adopt(self, revision: int, snapshot: SharedSnapshot) -> None:
        """This node was started with what the store held: all of it is made already, but for who is in the cluster."""
        self._known.adopt(revision, snapshot)
        # of a node that starts this is when it began to, so before it asked
        self._current_ms = int(self._turn.now_ms)

    def decided(self, event: Decided) -> None:
        pending = self._undecided.pop(event.ticket, None)
        if pending is None or pending.over:
            return
        if event.outcome == AGREED:
            self._came_about(pending, event.revision)
        elif event.outcome == OUTDATED:
            self._was_refused(pending, event.revision)
        else:
            pending.end(self._turn)
            pending.tell_failed(event.reason)

    def changed(self, event: DefinitionsChanged) -> None:
        self._known.change(event.revision, event.changes)
        self._came_further()

    def replaced(self, event: DefinitionsReplaced) -> None:
        self._known.replace(event.revision, event.snapshot)
        self._came_further()

    def current(self, event: DefinitionsCurrent) -> None:
        self._known.reach(event.revision)
        self._current_ms = max(self._current_ms, event.asked_ms)
        self._came_further()

    @property
    def applied(self) -> int:
        """The revision this node has come to: everything up to it is made here."""
        return self._known.applied

    def modified(self, key: str) -> int:
        """The revision that last changed a key, as far as this node has come; 0 if there is no such key."""
        return self._known.modified(key)

    @property
    def homes(self) -> QueueHomes:
        """Where queues live, as far as this node has come."""
        return self._known.homes

    def is_stale(self, now_ms: int) -> bool:
        """Whether others may long have agreed on something this node does not know of."""
        return self._current_ms == NEVER or now_ms - self._current_ms > STALE_AFTER_MS

    def may_be_behind(self, now_ms: int) -> bool:
        """Whether somebody may have been told that something is agreed upon which this node does not know of."""
        return self._progress.any_lost() or self.is_stale(now_ms)

    # -- what other nodes say

    def peer_connected(self, node: str, incarnation: int) -> None:
        self._progress.connected(node, incarnation)

    def peer_applied(self, node: str, revision: int) -> None:
        """It has applied everything up to this revision."""
        self._progress.applied(node, revision)
        self._settle()

    def peer_lost(self, node: str) -> None:
        """It may live, and serve clients."""
        self._progress.lost(node)

    def peer_over(self, node: str) -> None:
        """The run of it that was connected serves nobody any more."""
        self._progress.over(node)
        self._settle()

    def lost_runs(self) -> list[tuple[str, int, int]]:
        """Nodes that are waited for without a link to them: which runs of their processes, and since when."""
        return self._progress.lost_runs()

    def take_untold(self) -> int:
        """How far this node has come, if that was not taken before, to be told to all connected nodes; else 0."""
        if self._told == self.applied:
            return 0
        self._told = self.applied
        return self._told

    # -- from proposing to telling

    def _propose(self, pending: "PendingPlan") -> None:
        self._tickets += 1
        pending.ticket = self._tickets
        self._undecided[self._tickets] = pending
        self._turn.effects.append(pending.proposal.order(self._tickets))

    def _came_about(self, pending: "PendingPlan", revision: int) -> None:
        if not pending.proposal.done(revision):
            pending.wait(self._turn, ANSWER_PATIENCE_MS)
            self._propose(pending)
        elif pending.waiter is None:
            pending.end(self._turn)
        else:
            pending.revision = revision
            pending.applied_then = self.applied
            pending.wait(self._turn, PEER_PATIENCE_MS)
            heapq.heappush(self._agreed, (revision, pending.ticket, pending))
            self._settle()

    def _was_refused(self, pending: "PendingPlan", revision: int) -> None:
        self._refused[pending.ticket] = (revision, pending)
        self._look_at_refused()

    def _came_further(self) -> None:
        self._look_at_refused()
        self._settle()

    def _look_at_refused(self) -> None:
        for ticket, (revision, pending) in list(self._refused.items()):
            if self.applied >= revision or pending.proposal.disproved(self._known):
                del self._refused[ticket]
                pending.end(self._turn)
                if pending.waiter is not None:
                    pending.waiter.outdated()

    def _settle(self) -> None:
        """Tell everybody whose change has been applied wherever that counts."""
        reached = self._progress.reached(self.applied)
        while self._agreed and (self._agreed[0][0] <= reached or self._agreed[0][2].over):
            pending = heapq.heappop(self._agreed)[2]
            if not pending.over:
                pending.end(self._turn)
                if pending.waiter is not None:
                    pending.waiter.agreed()

    # -- what takes too long

    def patience_ended(self, pending: "PendingPlan") -> None:
        if 0 < pending.revision <= self.applied:
            self._progress.leave_behind(pending.revision)
            self._settle()
            return
        if pending.revision and self.applied > pending.applied_then:
            # it is behind, as after an import of thousands, and hears of what came before: this comes, too
            pending.applied_then = self.applied
            pending.wait(self._turn, PEER_PATIENCE_MS)
            return
        self._undecided.pop(pending.ticket, None)
        self._refused.pop(pending.ticket, None)
        pending.end(self._turn)
        pending.tell_failed(NOT_SEEN if pending.revision else NO_ANSWER)


@final
class PendingPlan(Timed):
    """A plan whose end is open."""

    def __init__(self, agreement: SharedAgreement, proposal: Proposal, waiter: AgreementWaiter | None) -> None:
        self.proposal: Proposal = proposal
        self.waiter: AgreementWaiter | None = waiter
        self.ticket: int = 0
        # what it came about with, once it has
        self.revision: int = 0
        # how far this node had come when it last began to be patient
        self.applied_then: int = 0
        self.over: bool = False
        self._agreement: SharedAgreement = agreement
        self._timer: Timer | None = None

    def wait(self, turn: Turn, patience_ms: int) -> None:
        """Begin to be patient, anew."""
        self._stop_timer(turn)
        self._timer = turn.set_timer(turn.now_ms + patience_ms, self)

    def end(self, turn: Turn) -> None:
        self.over = True
        self._stop_timer(turn)

    def tell_failed(self, reason: str) -> None:
        if self.waiter is not None:
            self.waiter.failed(reason)

    def timer_fired(self) -> None:
        self._timer = None
        self._agreement.patience_ended(self)

    def _stop_timer(self, turn: Turn) -> None:
        if self._timer is not None:
            turn.cancel_timer(self._timer)
            self._timer = None
