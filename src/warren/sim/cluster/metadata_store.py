"""The simulated metadata store of a cluster: one table, one transaction at a time, and notifications that take time.

It keeps the promises of the real one. A transaction happens at one moment, whole or not at all, and its changes have
one revision; the proposer hears of it later, or never. Every node has a client: its messages take time, and its
notifications come in order. A node that is cut off loses everything in transit, both ways. When it is back, its
notifications continue, or start again with the whole state if the store has forgotten what it missed.

A key may be *held*: it exists while its holder renews it, and expires when the holder is silent for too long. Without a
majority the store does not answer, and no key expires.

Invariants: revisions grow by the same step with each transaction (`broker.metadata.store`); a client is told every
change once, in order, and nothing that did not happen.

Not here: cuts and delays (`sim.simulation`, `sim.cluster.faults`).
"""

from collections.abc import Callable
from typing import Protocol

from warren.broker.metadata.store import (
    COMMITTED,
    FAILED,
    IDS_PER_REVISION,
    OUTDATED,
    UNKNOWN,
    CommitResult,
    Snapshot,
    object_id,
)
from warren.broker.model.effects import ProposeTransaction
from warren.broker.model.events import (
    DefinitionsChanged,
    DefinitionsCurrent,
    DefinitionsReplaced,
    Event,
    MetadataSnapshot,
    TransactionDecided,
)
from warren.broker.model.journal import MetadataChange

ANSWER_PATIENCE_MS = 2_000
CURRENT_EVERY_MS = 1_000
LEASE_MS = 6_000
RENEW_EVERY_MS = 2_000

EventSink = Callable[[Event], None]
"""Takes a node's events."""


class EventScheduler(Protocol):
    """The part of the world that a store needs."""

    now_ms: int

    def schedule(self, delay_ms: int, action: Callable[[], None]) -> None: ...


class SimulatedMetadataStore:
    """The table that all nodes share."""

    def __init__(self, clock: EventScheduler, delay_ms: Callable[[], int]) -> None:
        self.clock = clock
        self.delay_ms = delay_ms
        self.revision = IDS_PER_REVISION
        self.majority = True
        self._values: MetadataSnapshot = {}
        self._history: list[MetadataChange] = []
        # changes up to there are forgotten
        self._forgotten = 0
        self._clients: list[SimulatedStoreClient] = []
        # held keys: the holder, and when the key expires
        self._held: dict[str, tuple[SimulatedStoreClient, int]] = {}

    def client(self, emit: EventSink, begin_after: int = 0) -> "SimulatedStoreClient":
        """A node's client; it is told what came after that revision, or, with 0, the whole state."""
        client = SimulatedStoreClient(self, emit, begin_after)
        self._clients.append(client)
        return client

    def leave(self, client: "SimulatedStoreClient") -> None:
        self._clients.remove(client)

    # -- the table

    def snapshot(self) -> tuple[int, MetadataSnapshot]:
        return self.revision, dict(self._values)

    def move_in(self, revision: int, snapshot: Snapshot) -> None:
        """Begin with the metadata of a lone node; `revision` is the highest in it."""
        self.revision = (max(self.revision, revision) // IDS_PER_REVISION + 1) * IDS_PER_REVISION
        self._values = {key: (created, self.revision, value) for key, (created, value) in snapshot.items()}
        self.forget_history()

    def modified(self, key: str) -> int:
        return self._values[key][1] if key in self._values else 0

    def since(self, revision: int) -> list[MetadataChange] | None:
        """Every change after a revision, oldest first; None if they are not all remembered."""
        if revision < self._forgotten:
            return None
        return [change for change in self._history if change.revision > revision]

    def commit(self, order: ProposeTransaction) -> CommitResult:
        """One transaction, at this moment."""
        if not self._holds_true(order):
            return CommitResult(OUTDATED, self.revision)
        touched = [(key, self._values[key][2]) for key in order.touched if key in self._values]
        changes = list(order.changes) + touched
        return CommitResult(COMMITTED, self._change(changes))

    def forget_history(self) -> None:
        """Clients that are behind get the whole state again."""
        self._forgotten = self.revision
        self._history = []

    # -- held keys

    def hold(self, key: str, value: bytes, holder: "SimulatedStoreClient") -> None:
        """The key exists from now on, while its holder renews it; an earlier holder loses it."""
        self._change([(key, value)])
        self._prolong(key, holder)

    def renew(self, key: str, holder: "SimulatedStoreClient") -> bool:
        """Renew a key; whether its holder still held it."""
        if key not in self._held or self._held[key][0] is not holder:
            return False
        self._prolong(key, holder)
        return True

    def let_go(self, key: str) -> None:
        if self._held.pop(key, None) is not None:
            self._change([(key, None)])

    def set_majority(self, there: bool) -> None:
        """Whether a majority is there. When it comes back, all holders have their full time."""
        self.majority = there
        if there:
            for key, (holder, _until_ms) in list(self._held.items()):
                self._prolong(key, holder)
        for client in self._clients:
            client.road_changed()

    def _prolong(self, key: str, holder: "SimulatedStoreClient") -> None:
        self._held[key] = (holder, self.clock.now_ms + LEASE_MS)
        self.clock.schedule(LEASE_MS + 1, self._let_go_of_silent)

    def _let_go_of_silent(self) -> None:
        if not self.majority:
            return
        for key, (_holder, until_ms) in list(self._held.items()):
            if until_ms < self.clock.now_ms:
                self.let_go(key)

    # -- changes

    def _holds_true(self, order: ProposeTransaction) -> bool:
        for key, modified in order.compares:
            if self.modified(key) != modified:
                return False
        for prefix, revision in order.unchanged_under:
            if any(key.startswith(prefix) and self.modified(key) > revision for key in self._values):
                return False
        return True

    def _change(self, changes: list[tuple[str, bytes | None]]) -> int:
        if not changes:
            return self.revision
        self.revision += IDS_PER_REVISION
        for key, value in changes:
            if value is None:
                if self._values.pop(key, None) is None:
                    continue
            else:
                created = self._values[key][0] if key in self._values else object_id(self.revision, key)
                self._values[key] = (created, self.revision, value)
            self._history.append(MetadataChange(self.revision, key, value))
        for client in self._clients:
            client.news_came()
        return self.revision


class SimulatedStoreClient:
    """One node's way to the store and back."""

    def __init__(self, store: SimulatedMetadataStore, emit: EventSink, begin_after: int) -> None:
        self.cut_off = False
        self._store = store
        self._clock = store.clock
        self._emit = emit
        # what this node has been told, and what is in transit to it
        self._notified = begin_after
        self._sent = begin_after
        self._arrival_ms = 0
        # messages in transit when this number changes are lost
        self._road = 0
        self._gone = False
        self._waiting: dict[int, None] = {}
        self._held: dict[str, bytes] = {}
        self.news_came()
        self._clock.schedule(CURRENT_EVERY_MS, self._ask_whether_current)
        self._clock.schedule(RENEW_EVERY_MS, self._renew_held)

    # -- faults

    def cut(self) -> None:
        """Nothing arrives any more, either way."""
        self.cut_off = True
        self.road_changed()

    def mend(self) -> None:
        self.cut_off = False
        self.road_changed()

    def crash(self) -> None:
        """The node is gone: its keys expire."""
        self._gone = True
        self._road += 1
        self._store.leave(self)

    def stop(self) -> None:
        """The node has stopped in order: its keys are deleted at once."""
        self.let_go()
        self.crash()

    def road_changed(self) -> None:
        self._road += 1
        self._sent = self._notified
        self.news_came()

    # -- transactions

    def propose(self, order: ProposeTransaction) -> None:
        """Send it to the store, and the decision back; the outcome of a lost one stays unknown."""
        if not self._open():
            self._later(lambda: self._decide(order.ticket, CommitResult(FAILED, 0, "the store cannot be reached")))
            return
        road = self._road
        self._waiting[order.ticket] = None
        self._later(lambda: self._arrive(order, road))
        self._clock.schedule(ANSWER_PATIENCE_MS, lambda: self._give_up(order.ticket))

    def _arrive(self, order: ProposeTransaction, road: int) -> None:
        # a transaction sent just before a cut may still be committed
        if self._store.majority and not self.cut_off:
            decision = self._store.commit(order)
            self._later(lambda: self._answer(order.ticket, decision, road))

    def _answer(self, ticket: int, decision: CommitResult, road: int) -> None:
        if road == self._road and ticket in self._waiting:
            del self._waiting[ticket]
            self._decide(ticket, decision)

    def _give_up(self, ticket: int) -> None:
        if ticket in self._waiting:
            del self._waiting[ticket]
            self._decide(ticket, CommitResult(UNKNOWN, 0, "the store did not answer"))

    def _decide(self, ticket: int, decision: CommitResult) -> None:
        if not self._gone:
            self._emit(TransactionDecided(ticket, decision.outcome, decision.revision, decision.reason))

    # -- held keys

    def hold(self, key: str, value: bytes) -> None:
        """Hold the key while this node lives."""
        self._held[key] = value
        self._later(self._renew_now)

    def hold_at_once(self, key: str, value: bytes) -> None:
        """The same, for a node that waits for it."""
        self._held[key] = value
        self._renew_now()

    def let_go(self) -> None:
        """Release all keys."""
        held, self._held = self._held, {}
        if self._open():
            for key in held:
                self._store.let_go(key)

    def _renew_held(self) -> None:
        if not self._gone:
            self._renew_now()
            self._clock.schedule(RENEW_EVERY_MS, self._renew_held)

    def _renew_now(self) -> None:
        if self._open():
            for key, value in self._held.items():
                if not self._store.renew(key, self):
                    self._store.hold(key, value, self)

    # -- notifications

    def news_came(self) -> None:
        """Send the changes that this node was not sent yet."""
        if not self._open() or self._sent == self._store.revision:
            return
        revision = self._store.revision
        changes = None if self._sent == 0 else self._store.since(self._sent)
        self._sent = revision
        if changes is None:
            self._send(DefinitionsReplaced(revision, self._store.snapshot()[1]), revision)
        else:
            self._send(DefinitionsChanged(revision, changes), revision)

    def _ask_whether_current(self) -> None:
        if self._gone:
            return
        if self._open():
            self._send(DefinitionsCurrent(self._sent, self._clock.now_ms), self._sent)
        self._clock.schedule(CURRENT_EVERY_MS, self._ask_whether_current)

    def _send(self, event: Event, revision: int) -> None:
        """It arrives after everything that was sent before."""
        road = self._road
        self._arrival_ms = max(self._arrival_ms, self._clock.now_ms + self._store.delay_ms())
        self._clock.schedule(self._arrival_ms - self._clock.now_ms, lambda: self._receive(event, revision, road))

    def _receive(self, event: Event, revision: int, road: int) -> None:
        if road == self._road:
            self._notified = revision
            self._emit(event)

    def _open(self) -> bool:
        return self._store.majority and not self.cut_off and not self._gone

    def _later(self, action: Callable[[], None]) -> None:
        self._clock.schedule(self._store.delay_ms(), action)
