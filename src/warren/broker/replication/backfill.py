"""Backfills: the master sends a joining mirror the messages it lacks.

A backfill starts at once where the policy says so (`ha-sync-mode` = `automatic`), otherwise at an operator's command.
An operator can also stop it. The mirror keeps what it got; a later start sends the rest. Without a backfill the mirror
gets new batches only, and has caught up once all messages that it lacks were consumed.

::

    the mirror reports its spans ──► difference ──► SURPLUS: spans to remove
                                                └─► BACKFILL, in slices ──► publishing ids, offsets ──► BACKFILL_END

A slice has 64 KiB, or the number of messages that policy or settings give. At most `WINDOW_BYTES` are sent and not
acked. All backfills of a node together keep to one rate (`broker.replication.sync_throttle`).

The spans of the master are read when the batch before the mirror's first one is committed. Earlier, a removal in such a
batch would still be pending here, and the mirror would never hear of it.

Not here: reading messages (`broker.model.replica_contents`), admitting the mirror (`broker.replication.master`).
"""

from abc import abstractmethod
from typing import Final, final

from mypy_extensions import i64, trait

from warren.broker.model.replica_contents import BackfillReader, BackfillReceiver, PositionSpan, ReplicaContents
from warren.broker.model.turn import TimerTarget, Turn
from warren.broker.replication import messages
from warren.broker.replication.context import ReplicaPort, ReplicationContext
from warren.broker.replication.replica_links import DownstreamLink
from warren.errors import InvariantBroken


def span_difference(ours: list[PositionSpan], theirs: list[PositionSpan], below: i64) -> list[PositionSpan]:
    """The positions below `below` that are in `ours` and not in `theirs`. All lists are in order."""
    found: list[PositionSpan] = []
    place = 0
    for span in ours:
        first: i64 = span.first
        last: i64 = min(span.last, below - 1)
        while place < len(theirs) and theirs[place].last < first:
            place += 1
        at = place
        while first <= last and at < len(theirs) and theirs[at].first <= last:
            if theirs[at].first > first:
                found.append(PositionSpan(first, theirs[at].first - 1))
            first = theirs[at].last + 1
            at += 1
        if first <= last:
            found.append(PositionSpan(first, last))
    return found


SLICE_BYTES: Final[i64] = 64 * 1024
WINDOW_BYTES: Final[i64] = 1024 * 1024
"""How much may be sent and not acked."""

BACKFILL_POLL_MS: Final[i64] = 1_000
BACKFILL_RETRY_MS: Final[i64] = 60_000
"""The delay before messages are read again after an error."""


@trait
class BackfillSource:
    """The master whose messages joining mirrors lack."""

    @abstractmethod
    def has_opened_and_committed(self, number: i64) -> bool:
        """Whether there is a queue, and this batch is committed."""

    @abstractmethod
    def publishing_ids_in_batches(self) -> list[bytes]:
        """All publishing ids that are in batches, as rows."""

    @abstractmethod
    def stored_offsets(self) -> dict[str, int]:
        """The stored offset of each named reader."""


@final
class Backfill(BackfillReceiver, TimerTarget):
    """Sends one joining mirror the messages that it lacks."""

    def __init__(self, master: "JoiningMirrors", node: str, spans: list[PositionSpan], below: i64, began: i64) -> None:
        """The mirror gets positions from `below` on in batches; the first of those follows batch `began`."""
        self.node: str = node
        self.allowed: bool = master.syncs_automatically()
        # messages to send when it started, messages sent, and the time of its start
        self.wanted_count: i64 = 0
        self.sent_count: i64 = 0
        self.since_ms: i64 = 0
        self._sent: list[PositionSpan] = []
        self._master: JoiningMirrors = master
        self._turn: Turn = master.context.turn
        self._downstream: DownstreamLink = master.downstream
        self._their_spans: list[PositionSpan] = spans
        self._below: i64 = below
        self._began: i64 = began
        self._reader: BackfillReader | None = None
        self._sent_bytes: i64 = 0
        self._acked_bytes: i64 = 0
        self._slice_requested: bool = False
        self._requesting: bool = False
        self._over: bool = False
        self._timer_set: bool = False
        # no read before this time, after an error
        self._retry_at_ms: i64 = 0

    def start_if_allowed(self) -> None:
        """Start sending if policy or operator allow it; end the backfill if the mirror lacks nothing."""
        if self._over or self._reader is not None or self._turn.now_ms < self._retry_at_ms:
            return
        # removals in batches before the mirror's first one must be carried out here: the mirror does not get them
        if not self._master.source.has_opened_and_committed(self._began):
            return
        ours = self._master.contents.spans()
        missing = span_difference(ours, self._their_spans, self._below)
        if missing and not self.allowed:
            self._retry_later()
            return
        surplus = span_difference(self._their_spans, ours, self._below)
        if surplus:
            self._downstream.send_spans(self.node, messages.SURPLUS, surplus)
            self._their_spans = span_difference(self._their_spans, surplus, self._below)
        if not missing:
            self.backfill_done()
            return
        self.wanted_count = self.sent_count = 0
        self.since_ms = self._turn.now_ms
        for span in missing:
            self.wanted_count += span.last - span.first + 1
        self._reader = self._master.contents.read(missing, self)
        self._request_slices()

    def _retry_later(self, after_ms: i64 = BACKFILL_POLL_MS) -> None:
        if not self._timer_set:
            self._timer_set = True
            self._turn.set_timer(self._turn.now_ms + after_ms, self)

    def timer_fired(self) -> None:
        self._timer_set = False
        self.start_if_allowed()
        self._request_slices()

    def acked(self, size_bytes: i64) -> None:
        self._acked_bytes = size_bytes
        self._request_slices()

    def backfill_message(
        self,
        position: i64,
        priority: i64,
        expires_at_ms: i64,
        persistent: bool,
        returned: i64,
        payload: bytes,
        payload_crc: i64,
    ) -> None:
        if self._over:
            return
        kind: i64 = priority << 8 | (1 if persistent else 0)
        values = [int(position), int(kind), int(expires_at_ms), int(returned), int(payload_crc)]
        self._downstream.send(self.node, messages.BACKFILL, values, payload)
        self._sent_bytes += len(payload)
        self._master.context.throttle.sent(len(payload), self._turn.now_ms)
        self.sent_count += 1
        if self._sent and self._sent[-1].last == position - 1:
            self._sent[-1].last = position
        else:
            self._sent.append(PositionSpan(position, position))

    def backfill_slice_done(self) -> None:
        self._slice_requested = False
        self._request_slices()

    def backfill_done(self) -> None:
        if not self._over:
            self._over = True
            self._send_ids_and_offsets()
            self._downstream.send(self.node, messages.BACKFILL_END, [])

    def _send_ids_and_offsets(self) -> None:
        """Send the state besides messages. Later changes of it are in batches."""
        source = self._master.source
        replace = 1
        for rows in slices_of(source.publishing_ids_in_batches()):
            self._downstream.send(self.node, messages.PUBLISHING_IDS, [replace], rows)
            replace = 0
        for name, offset in source.stored_offsets().items():
            text = name.encode("utf-8", "surrogateescape")
            self._downstream.send(self.node, messages.STORED_OFFSET, [offset], text)

    def backfill_failed(self, reason: str) -> None:
        """The mirror stays out of sync until the messages can be read."""
        self._master.replica.note("error", "mirror.cannot_catch_up", {"node": self.node, "reason": reason})
        self._reader = None
        self._keep_sent_spans()
        self._retry_at_ms = self._turn.now_ms + BACKFILL_RETRY_MS
        self._turn.set_timer(self._retry_at_ms, self)

    def is_under_way(self) -> bool:
        return self._reader is not None and not self._over

    def stop(self) -> bool:
        """Pause until it is allowed again; whether it was sending."""
        self.allowed = False
        reader = self._reader
        if reader is None or self._over:
            return False
        reader.cancel()
        self._reader = None
        self._keep_sent_spans()
        self._retry_later()
        return True

    def _keep_sent_spans(self) -> None:
        """The mirror has the messages that were sent."""
        self._slice_requested = False
        self._their_spans = sorted([*self._their_spans, *self._sent], key=_first_of)
        self._sent = []

    def cancel(self) -> None:
        self._over = True
        if self._reader is not None:
            self._reader.cancel()

    def _request_slices(self) -> None:
        """Request slices one after another. Some readers answer within the call, so this is a loop."""
        if self._requesting:
            return
        self._requesting = True
        while self._may_request() and self._reader is not None:
            self._slice_requested = True
            self._reader.more(SLICE_BYTES, self._master.sync_batch_count())
        self._requesting = False

    def _may_request(self) -> bool:
        if self._reader is None or self._over or self._slice_requested:
            return False
        if self._sent_bytes - self._acked_bytes >= WINDOW_BYTES:
            return False
        wait_ms = self._master.context.throttle.free_at_ms() - self._turn.now_ms
        if wait_ms > 0:
            self._retry_later(wait_ms)
        return wait_ms <= 0

    def check(self) -> None:
        """Raise `InvariantBroken` if more was acked or sent than there was, or a slice has no reader."""
        if self._acked_bytes > self._sent_bytes or self.sent_count > self.wanted_count:
            raise InvariantBroken(
                f"a backfill for {self.node} has sent {self.sent_count} messages of {self.wanted_count}, "
                f"and {self._acked_bytes} bytes of {self._sent_bytes} are acked"
            )
        if self._requesting or (self._slice_requested and self._reader is None):
            raise InvariantBroken(f"a backfill for {self.node} awaits a slice and reads nothing")


def slices_of(rows: list[bytes]) -> list[bytes]:
    """Rows joined to parts of about a slice; one empty part if there are no rows."""
    parts: list[bytes] = []
    replica: list[bytes] = []
    size_bytes: i64 = 0
    for row in rows:
        replica.append(row)
        size_bytes += len(row)
        if size_bytes >= SLICE_BYTES:
            parts.append(b"".join(replica))
            replica, size_bytes = [], 0
    if replica or not parts:
        parts.append(b"".join(replica))
    return parts


def _first_of(span: PositionSpan) -> int:
    return int(span.first)


@final
class JoiningMirrors:
    """The backfills of one master."""

    def __init__(
        self,
        context: ReplicationContext,
        replica: ReplicaPort,
        source: BackfillSource,
        contents: ReplicaContents,
        downstream: DownstreamLink,
    ) -> None:
        self.context: ReplicationContext = context
        self.replica: ReplicaPort = replica
        self.source: BackfillSource = source
        self.contents: ReplicaContents = contents
        self.downstream: DownstreamLink = downstream
        self._backfills: dict[str, Backfill] = {}

    def syncs_automatically(self) -> bool:
        """Whether a joining mirror gets its backfill without a command."""
        return self.context.mirroring_policies.syncs_automatically(self.replica.latest_definition())

    def sync_batch_count(self) -> int:
        """How many messages a slice has at most."""
        return self.context.mirroring_policies.sync_batch_count(self.replica.latest_definition())

    def all(self) -> list[Backfill]:
        return list(self._backfills.values())

    def any(self) -> bool:
        return len(self._backfills) > 0

    def add(self, node: str, spans: list[PositionSpan], below: i64, began: i64) -> None:
        """A joining mirror reported its spans."""
        self._backfills[node] = Backfill(self, node, spans, below, began)
        self.start_if_allowed()

    def start_if_allowed(self) -> None:
        """Start every backfill that is allowed."""
        for backfill in self.all():
            backfill.start_if_allowed()

    def allow_all(self) -> bool:
        """Allow all backfills; whether there are any."""
        for backfill in self._backfills.values():
            backfill.allowed = True
        self.start_if_allowed()
        return self.any()

    def stop_all(self) -> bool:
        """Pause all backfills; whether one was sending."""
        stopped = False
        for backfill in self._backfills.values():
            stopped = backfill.stop() or stopped
        return stopped

    def acked(self, node: str, size_bytes: i64) -> None:
        """The mirror has stored so many bytes of its backfill in all."""
        backfill = self._backfills.get(node)
        if backfill is not None:
            backfill.acked(size_bytes)

    def caught_up(self, node: str) -> None:
        self._backfills.pop(node, None)

    def forget(self, node: str) -> None:
        """The link to the mirror is lost, or the mirror joins again."""
        backfill = self._backfills.pop(node, None)
        if backfill is not None:
            backfill.cancel()

    def end(self) -> None:
        for node in list(self._backfills):
            self.forget(node)

    def check(self, incomplete: list[str]) -> None:
        """Raise `InvariantBroken` if a backfill is for none of these nodes, which follow and lack messages."""
        for node, backfill in self._backfills.items():
            if node != backfill.node or node not in incomplete:
                raise InvariantBroken(f"there is a backfill for {node}, and {incomplete} follow and lack messages")
            backfill.check()
