"""How the nodes of a cluster agree: in a store that they share, and each makes what the store says.

::

    plan ──► Propose ─┬─► Decided: agreed ────► applied here and by every connected node ──► agreed
                      ├─► Decided: outdated ──► the newer state is applied here ──► outdated: plan again
                      └─► Decided: anything else, or nothing for too long ──► failed

    DefinitionsChanged ──► everybody's changes, in order: made here, and that is told to the others

Nothing is made because it was proposed: a node makes what the store tells it, its own changes like those of others, so
all nodes are the same fold of the same row of changes, some a little further along.

**Who has it.** Whoever is told `agreed` may rely on every node that serves clients: nodes tell how far they have come,
and a waiter waits for the slowest (`broker.metadata.shared_backend`). One that does not get there in
`PEER_PATIENCE_MS`, or is not heard of for so long, is cut off from the store. It is not waited for until it has caught
up: it knows itself that it is behind (`is_stale`), and does not confirm that a message had nowhere to go. That is why
the patience is longer than what makes a node stale.

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

Not here: transactions of large plans (`broker.metadata.proposal`), what was applied
(`broker.metadata.shared_definitions`), the store itself (`node.etcd`).

How far the other nodes have come, and for which of them whoever is told `agreed` has waited.

::

    connected ──► waited for ──┬── its link is lost ──► still waited for ──┬── its run is over ──► forgotten
         ▲                     │                                           ├── too long ─────────► left behind
         │                     └── too long ──► left behind ── caught up   └── connected again
         └───────────────────────────────────────────┘

Connected nodes tell how far they have come. A node whose link is lost tells nothing, and may live all the same, serve
clients, and not know that it is behind before `STALE_AFTER_MS` are over (`broker.metadata.shared_backend`). So it is
waited for like one that is slow, until its run is known to be over, or until somebody has waited in vain for so long
that the node has the change or knows itself that it may lack it.

**When a run is over.** The store says so: what it held to be alive is gone, or another run of the node holds it. Or the
node's port refuses connections. That may be a firewall, so it is taken for a sign of death only here, where what is
gained is seconds for every declare after a crash, and what is risked is the moment in which a node that lives behind
such a firewall hears of a change from the store a little later than others.

**Who is not waited for** knows it: its link to this node is lost on its side, too, as long as both live, and a node
that has lost a link to a run that is not over takes itself to be behind (`any_lost`). What remains are moments: a node
that has just started and has no links yet, or was left behind and has caught up, hears of a change from the store a
little later than others.

Not here: who waits, and for how long (`broker.metadata.shared_backend`); who is alive (`broker.membership`).
"""

import heapq
from typing import Final, final

from warren.broker.metadata.backend import MetadataAppliers, MetadataBackend
from warren.broker.metadata.proposal import Proposal
from warren.broker.metadata.shared_definitions import QueueHomes, SharedDefinitions
from warren.broker.metadata.store import COMMITTED, OUTDATED
from warren.broker.metadata.transaction import MetadataTransaction, TransactionWaiter
from warren.broker.model.events import (
    DefinitionsChanged,
    DefinitionsCurrent,
    DefinitionsReplaced,
    MetadataSnapshot,
    TransactionDecided,
)
from warren.broker.model.turn import Timer, TimerTarget, Turn


@final
class PeerRevision:
    """Another node, in one run of its process."""

    def __init__(self, incarnation: int) -> None:
        self.incarnation: int = incarnation
        self.connected: bool = True
        self.lost_ms: int = 0
        # everything up to there is made there; until it has spoken it counts as knowing nothing
        self.applied: int = 0
        # not waited for until it has come that far
        self.left_behind_at: int = 0


@final
class PeerRevisions:
    """One node's knowledge of all others."""

    def __init__(self, turn: Turn) -> None:
        self._turn: Turn = turn
        self._peers: dict[str, PeerRevision] = {}
        # how many of them are without a link
        self._lost: int = 0

    def connected(self, node: str, incarnation: int) -> None:
        """From now on its word is waited for."""
        self.over(node)
        self._peers[node] = PeerRevision(incarnation)

    def applied(self, node: str, revision: int) -> None:
        """It has applied everything up to this revision."""
        peer = self._peers.get(node)
        if peer is None or not peer.connected:
            return
        peer.applied = max(peer.applied, revision)
        if 0 < peer.left_behind_at <= revision:
            peer.left_behind_at = 0
            self._turn.note("info", "peer.caught_up", {"node": node, "revision": revision})

    def lost(self, node: str) -> None:
        """Its link is gone, and nobody knows what became of it."""
        peer = self._peers.get(node)
        if peer is not None and peer.connected:
            peer.connected = False
            peer.lost_ms = int(self._turn.now_ms)
            self._lost += 1

    def lost_incarnations(self) -> list[tuple[str, int, int]]:
        """Those that are waited for without a link: which runs of their processes, and since when."""
        return [(node, peer.incarnation, peer.lost_ms) for node, peer in self._peers.items() if not peer.connected]

    def any_lost(self) -> bool:
        """Whether somebody may live and not wait for this node."""
        return self._lost > 0

    def over(self, node: str) -> None:
        """The run that was connected has ended."""
        peer = self._peers.pop(node, None)
        if peer is not None and not peer.connected:
            self._lost -= 1

    def leave_behind(self, revision: int) -> None:
        """Wait no longer for nodes that have not come as far as this."""
        for node, peer in self._peers.items():
            if peer.applied < revision and not peer.left_behind_at:
                peer.left_behind_at = revision
                facts: dict[str, object] = {"node": node, "applied": peer.applied, "revision": revision}
                self._turn.note("warning", "peer.behind", facts)

    def reached(self, own: int) -> int:
        """How far everybody has come who is waited for; this node has come to `own`."""
        for peer in self._peers.values():
            if not peer.left_behind_at:
                own = min(own, peer.applied)
        return own


ANSWER_TIMEOUT_MS: Final = 10_000
PEER_TIMEOUT_MS: Final = 6_000
STALE_AFTER_MS: Final = 3_000
NEVER: Final = -1

NO_ANSWER: Final = "the cluster's metadata store did not answer within 10 seconds"
NOT_SEEN: Final = "the cluster's metadata store agreed, but this node has not heard of the change in time"


@final
class SharedMetadataBackend(MetadataBackend):
    """Of a node that shares its definitions with others."""

    def __init__(self, turn: Turn, appliers: MetadataAppliers) -> None:
        self._turn: Turn = turn
        self._known: SharedDefinitions = SharedDefinitions(appliers)
        self._holding: bool = False
        self._held: list[PendingTransaction] = []
        self._tickets: int = 0
        # by ticket: what was proposed and is not decided
        self._undecided: dict[int, PendingTransaction] = {}
        # by ticket: what was refused, and the revision at which it is to be seen why
        self._refused: dict[int, tuple[int, PendingTransaction]] = {}
        # what came about: its revision, its last ticket
        self._agreed: list[tuple[int, int, PendingTransaction]] = []
        self._progress: PeerRevisions = PeerRevisions(turn)
        self._told: int = 0
        # when the store was last asked something that showed this node to know everything
        self._current_ms: int = NEVER

    # -- what this node wants

    def is_immediate(self) -> bool:
        return False

    def submit(self, plan: MetadataTransaction, waiter: TransactionWaiter | None) -> bool:
        if not plan.changes and not plan.touched:
            return True
        pending = PendingTransaction(self, Proposal(plan, self._known), waiter)
        pending.wait(self._turn, ANSWER_TIMEOUT_MS)
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

    def adopt(self, revision: int, snapshot: MetadataSnapshot) -> None:
        """This node was started with what the store held: all of it is made already, but for who is in the cluster."""
        self._known.adopt(revision, snapshot)
        # of a node that starts this is when it began to, so before it asked
        self._current_ms = int(self._turn.now_ms)

    def decided(self, event: TransactionDecided) -> None:
        pending = self._undecided.pop(event.ticket, None)
        if pending is None or pending.over:
            return
        if event.outcome == COMMITTED:
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

    def lost_incarnations(self) -> list[tuple[str, int, int]]:
        """Nodes that are waited for without a link to them: which runs of their processes, and since when."""
        return self._progress.lost_incarnations()

    def take_untold(self) -> int:
        """How far this node has come, if that was not taken before, to be told to all connected nodes; else 0."""
        if self._told == self.applied:
            return 0
        self._told = self.applied
        return self._told

    # -- from proposing to telling

    def _propose(self, pending: "PendingTransaction") -> None:
        self._tickets += 1
        pending.ticket = self._tickets
        self._undecided[self._tickets] = pending
        self._turn.effects.append(pending.proposal.order(self._tickets))

    def _came_about(self, pending: "PendingTransaction", revision: int) -> None:
        if not pending.proposal.done(revision):
            pending.wait(self._turn, ANSWER_TIMEOUT_MS)
            self._propose(pending)
        elif pending.waiter is None:
            pending.end(self._turn)
        else:
            pending.revision = revision
            pending.applied_then = self.applied
            pending.wait(self._turn, PEER_TIMEOUT_MS)
            heapq.heappush(self._agreed, (revision, pending.ticket, pending))
            self._settle()

    def _was_refused(self, pending: "PendingTransaction", revision: int) -> None:
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

    def patience_ended(self, pending: "PendingTransaction") -> None:
        if 0 < pending.revision <= self.applied:
            self._progress.leave_behind(pending.revision)
            self._settle()
            return
        if pending.revision and self.applied > pending.applied_then:
            # it is behind, as after an import of thousands, and hears of what came before: this comes, too
            pending.applied_then = self.applied
            pending.wait(self._turn, PEER_TIMEOUT_MS)
            return
        self._undecided.pop(pending.ticket, None)
        self._refused.pop(pending.ticket, None)
        pending.end(self._turn)
        pending.tell_failed(NOT_SEEN if pending.revision else NO_ANSWER)


@final
class PendingTransaction(TimerTarget):
    """A plan whose end is open."""

    def __init__(self, backend: SharedMetadataBackend, proposal: Proposal, waiter: TransactionWaiter | None) -> None:
        self.proposal: Proposal = proposal
        self.waiter: TransactionWaiter | None = waiter
        self.ticket: int = 0
        # what it came about with, once it has
        self.revision: int = 0
        # how far this node had come when it last began to be patient
        self.applied_then: int = 0
        self.over: bool = False
        self._backend: SharedMetadataBackend = backend
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
        self._backend.patience_ended(self)

    def _stop_timer(self, turn: Turn) -> None:
        if self._timer is not None:
            turn.cancel_timer(self._timer)
            self._timer = None
