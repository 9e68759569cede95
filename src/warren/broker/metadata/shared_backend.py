"""The metadata backend of a cluster: nodes propose transactions to a shared store, and apply what the store reports.

::

    submit ──► ProposeTransaction ─┬─► COMMITTED ─► applied here and on every connected node ──► committed
                                   ├─► outdated ──► the newer state is applied here ──► outdated: propose again
                                   └─► anything else, or no answer in time ──► failed

    DefinitionsChanged ──► the changes of all nodes, in order: applied here, and reported to the other nodes

A node applies only the changes that the store reports, its own like those of others. So every node is a fold of the
same sequence of changes, some a little further along.

**When `committed` is told.** Every node that serves clients has applied the change: nodes report the revision they have
applied, and a waiter waits for the slowest. A node that does not get there within `PEER_TIMEOUT_MS` is left behind: it
is not waited for until it has caught up. Such a node knows itself that it is behind (`is_stale`), and does not confirm
messages without a queue. Therefore the timeout is longer than `STALE_AFTER_MS`.

**How current a node is.** The answer of the store is as old as the question: it has everything committed before the
question, and need not have more. A snapshot that replaces missed changes does not say when it was taken, so it does
not make a node current.

**A node that may be behind** is stale, or has lost its link to a node that lives and may have ceased to wait for it. It
serves the queues it knows. A message for which it finds no queue, by the default exchange, bindings or an alternate
exchange, it neither confirms nor commits. A message that it can route it confirms, though a later binding might
lead to another queue: a confirm covers the queues that a node knows. To nack all messages would stop every publisher of
a cluster whose store has no majority, where nothing can have changed.

**Unknown outcomes.** A proposal without an answer may have taken effect. Its waiter is told that it failed, which means
just that; a later answer is ignored. A transaction without a waiter is dropped when it is outdated.

**Peers.** ::

    connected ──► waited for ──┬── link lost ──► still waited for ──┬── incarnation ended ──► forgotten
         ▲                     │                                    ├── timeout ────────────► left behind
         │                     └── timeout ──► left behind          └── connected again
         └────────────────────────── caught up ──┘

A node with a lost link reports nothing, but may live, serve clients, and not know that it is behind before
`STALE_AFTER_MS`. So it is waited for like a slow node, until its incarnation has ended, or until the timeout, when the
node has the change or knows that it may lack it. An incarnation has ended when the store says so: its lease is gone, or
another incarnation holds it. A port that refuses connections counts as well, though a firewall may refuse in the node's
name: here a mistake costs little, and every declare after a crash is seconds faster. A node that is not waited for
knows it: its link to this node is lost on its side, too, and a node with a lost link to a living incarnation takes
itself to be behind (`any_lost`). Exceptions last moments: a node that has just started without links, or has just
caught up, hears of a change from the store a little later.

**Joining.** While a node moves from its own store to the shared one, transactions are held. They are judged by the
state at the time they were submitted, so any change since makes them outdated.

Invariants: a waiter is told exactly once, and never within `submit`. It is not told `committed` before this node has
applied the change.

Not here: large transactions (`broker.metadata.proposal`), the applied definitions
(`broker.metadata.shared_definitions`), the store (`node.etcd`), which nodes live (`broker.membership`).
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
    """One incarnation of another node."""

    def __init__(self, incarnation: int) -> None:
        self.incarnation: int = incarnation
        self.connected: bool = True
        self.lost_ms: int = 0
        # the revision it has applied; 0 until its first report
        self.applied: int = 0
        # not waited for until it has applied this revision; 0 if it is waited for
        self.left_behind_at: int = 0


@final
class PeerRevisions:
    """The applied revisions of all other nodes."""

    def __init__(self, turn: Turn) -> None:
        self._turn: Turn = turn
        self._peers: dict[str, PeerRevision] = {}
        # how many have lost their link
        self._lost: int = 0

    def connected(self, node: str, incarnation: int) -> None:
        """Wait for this incarnation from here on."""
        self.over(node)
        self._peers[node] = PeerRevision(incarnation)

    def applied(self, node: str, revision: int) -> None:
        """The node has applied everything up to this revision."""
        peer = self._peers.get(node)
        if peer is None or not peer.connected:
            return
        peer.applied = max(peer.applied, revision)
        if 0 < peer.left_behind_at <= revision:
            peer.left_behind_at = 0
            self._turn.note("info", "peer.caught_up", {"node": node, "revision": revision})

    def lost(self, node: str) -> None:
        """The link is lost; the node may still live."""
        peer = self._peers.get(node)
        if peer is not None and peer.connected:
            peer.connected = False
            peer.lost_ms = int(self._turn.now_ms)
            self._lost += 1

    def lost_incarnations(self) -> list[tuple[str, int, int]]:
        """Nodes without a link that are not known to have ended: name, incarnation, and the time of the loss."""
        return [(node, peer.incarnation, peer.lost_ms) for node, peer in self._peers.items() if not peer.connected]

    def any_lost(self) -> bool:
        """Whether a living node may have ceased to wait for this one."""
        return self._lost > 0

    def over(self, node: str) -> None:
        """The incarnation has ended."""
        peer = self._peers.pop(node, None)
        if peer is not None and not peer.connected:
            self._lost -= 1

    def leave_behind(self, revision: int) -> None:
        """Stop waiting for nodes that have not applied this revision."""
        for node, peer in self._peers.items():
            if peer.applied < revision and not peer.left_behind_at:
                peer.left_behind_at = revision
                facts: dict[str, object] = {"node": node, "applied": peer.applied, "revision": revision}
                self._turn.note("warning", "peer.behind", facts)

    def reached(self, own: int) -> int:
        """The revision that this node (`own`) and all nodes that are waited for have applied."""
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
    """The backend of a node in a cluster."""

    def __init__(self, turn: Turn, appliers: MetadataAppliers) -> None:
        self._turn: Turn = turn
        self._known: SharedDefinitions = SharedDefinitions(appliers)
        self._holding: bool = False
        self._held: list[PendingTransaction] = []
        self._tickets: int = 0
        # proposed and undecided, by ticket
        self._undecided: dict[int, PendingTransaction] = {}
        # refused, by ticket, with the revision that shows why
        self._refused: dict[int, tuple[int, PendingTransaction]] = {}
        # committed: revision and last ticket
        self._committed: list[tuple[int, int, PendingTransaction]] = []
        self._peers_applied: PeerRevisions = PeerRevisions(turn)
        self._reported: int = 0
        # the time of the last question to the store after which this node had applied everything
        self._current_ms: int = NEVER

    # -- submitting

    def is_immediate(self) -> bool:
        return False

    def submit(self, transaction: MetadataTransaction, waiter: TransactionWaiter | None) -> bool:
        if not transaction.changes and not transaction.touched:
            return True
        pending = PendingTransaction(self, Proposal(transaction, self._known), waiter)
        pending.wait(self._turn, ANSWER_TIMEOUT_MS)
        if self._holding:
            self._held.append(pending)
        else:
            self._propose(pending)
        return False

    def hold(self) -> None:
        """Hold transactions back."""
        self._holding = True

    def begin(self) -> None:
        """Propose the held transactions, and all later ones at once."""
        self._holding = False
        held = self._held
        self._held = []
        for pending in held:
            if not pending.ended:
                self._propose(pending)

    def give_up(self) -> None:
        """The join failed: held transactions are outdated, and are proposed again."""
        held = self._held
        self._held = []
        for pending in held:
            if not pending.ended:
                pending.end(self._turn)
                if pending.waiter is not None:
                    pending.waiter.outdated()

    # -- the store's reports

    def adopt(self, revision: int, snapshot: MetadataSnapshot) -> None:
        """The node was started with this snapshot: all objects exist, except the membership."""
        self._known.adopt(revision, snapshot)
        # the start of the node, which precedes its question to the store
        self._current_ms = int(self._turn.now_ms)

    def decided(self, event: TransactionDecided) -> None:
        pending = self._undecided.pop(event.ticket, None)
        if pending is None or pending.ended:
            return
        if event.outcome == COMMITTED:
            self._took_effect(pending, event.revision)
        elif event.outcome == OUTDATED:
            self._refuse(pending, event.revision)
        else:
            pending.end(self._turn)
            pending.notify_failed(event.reason)

    def changed(self, event: DefinitionsChanged) -> None:
        self._known.change(event.revision, event.changes)
        self._advanced()

    def replaced(self, event: DefinitionsReplaced) -> None:
        self._known.replace(event.revision, event.snapshot)
        self._advanced()

    def current(self, event: DefinitionsCurrent) -> None:
        self._known.reach(event.revision)
        self._current_ms = max(self._current_ms, event.asked_ms)
        self._advanced()

    @property
    def applied(self) -> int:
        """The revision up to which this node has applied all changes."""
        return self._known.applied

    def modified(self, key: str) -> int:
        """The revision that last changed a key, as this node knows it; 0 if there is no such key."""
        return self._known.modified(key)

    @property
    def homes(self) -> QueueHomes:
        """The homes of queues, as this node knows them."""
        return self._known.homes

    def is_stale(self, now_ms: int) -> bool:
        """Whether this node has not confirmed for too long that it is current."""
        return self._current_ms == NEVER or now_ms - self._current_ms > STALE_AFTER_MS

    def may_be_behind(self, now_ms: int) -> bool:
        """Whether a client elsewhere may have been told of a change that this node has not applied."""
        return self._peers_applied.any_lost() or self.is_stale(now_ms)

    # -- other nodes

    def peer_connected(self, node: str, incarnation: int) -> None:
        self._peers_applied.connected(node, incarnation)

    def peer_applied(self, node: str, revision: int) -> None:
        self._peers_applied.applied(node, revision)
        self._notify_committed()

    def peer_lost(self, node: str) -> None:
        self._peers_applied.lost(node)

    def peer_over(self, node: str) -> None:
        """The incarnation has ended."""
        self._peers_applied.over(node)
        self._notify_committed()

    def lost_incarnations(self) -> list[tuple[str, int, int]]:
        return self._peers_applied.lost_incarnations()

    def take_unreported(self) -> int:
        """The applied revision, if it moved since the last call, for all connected nodes; else 0."""
        if self._reported == self.applied:
            return 0
        self._reported = self.applied
        return self._reported

    # -- from proposal to outcome

    def _propose(self, pending: "PendingTransaction") -> None:
        self._tickets += 1
        pending.ticket = self._tickets
        self._undecided[self._tickets] = pending
        self._turn.effects.append(pending.proposal.order(self._tickets))

    def _took_effect(self, pending: "PendingTransaction", revision: int) -> None:
        if not pending.proposal.done(revision):
            pending.wait(self._turn, ANSWER_TIMEOUT_MS)
            self._propose(pending)
        elif pending.waiter is None:
            pending.end(self._turn)
        else:
            pending.revision = revision
            pending.applied_then = self.applied
            pending.wait(self._turn, PEER_TIMEOUT_MS)
            heapq.heappush(self._committed, (revision, pending.ticket, pending))
            self._notify_committed()

    def _refuse(self, pending: "PendingTransaction", revision: int) -> None:
        self._refused[pending.ticket] = (revision, pending)
        self._end_refused()

    def _advanced(self) -> None:
        self._end_refused()
        self._notify_committed()

    def _end_refused(self) -> None:
        for ticket, (revision, pending) in list(self._refused.items()):
            if self.applied >= revision or pending.proposal.disproved(self._known):
                del self._refused[ticket]
                pending.end(self._turn)
                if pending.waiter is not None:
                    pending.waiter.outdated()

    def _notify_committed(self) -> None:
        """Tell the waiters of transactions that all nodes have applied."""
        reached = self._peers_applied.reached(self.applied)
        while self._committed and (self._committed[0][0] <= reached or self._committed[0][2].ended):
            pending = heapq.heappop(self._committed)[2]
            if not pending.ended:
                pending.end(self._turn)
                if pending.waiter is not None:
                    pending.waiter.committed()

    # -- timeouts

    def timed_out(self, pending: "PendingTransaction") -> None:
        if 0 < pending.revision <= self.applied:
            self._peers_applied.leave_behind(pending.revision)
            self._notify_committed()
            return
        if pending.revision and self.applied > pending.applied_then:
            # this node is behind but still applies changes, as after a large import: wait for this one, too
            pending.applied_then = self.applied
            pending.wait(self._turn, PEER_TIMEOUT_MS)
            return
        self._undecided.pop(pending.ticket, None)
        self._refused.pop(pending.ticket, None)
        pending.end(self._turn)
        pending.notify_failed(NOT_SEEN if pending.revision else NO_ANSWER)


@final
class PendingTransaction(TimerTarget):
    """A transaction without an outcome yet."""

    def __init__(self, backend: SharedMetadataBackend, proposal: Proposal, waiter: TransactionWaiter | None) -> None:
        self.proposal: Proposal = proposal
        self.waiter: TransactionWaiter | None = waiter
        self.ticket: int = 0
        # the revision it took effect with; 0 before that
        self.revision: int = 0
        # the revision that this node had applied when the timer was last set
        self.applied_then: int = 0
        self.ended: bool = False
        self._backend: SharedMetadataBackend = backend
        self._timer: Timer | None = None

    def wait(self, turn: Turn, timeout_ms: int) -> None:
        """Set the timer again."""
        self._stop_timer(turn)
        self._timer = turn.set_timer(turn.now_ms + timeout_ms, self)

    def end(self, turn: Turn) -> None:
        self.ended = True
        self._stop_timer(turn)

    def notify_failed(self, reason: str) -> None:
        if self.waiter is not None:
            self.waiter.failed(reason)

    def timer_fired(self) -> None:
        self._timer = None
        self._backend.timed_out(self)

    def _stop_timer(self, turn: Turn) -> None:
        if self._timer is not None:
            turn.cancel_timer(self._timer)
            self._timer = None
