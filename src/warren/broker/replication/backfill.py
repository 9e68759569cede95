"""What a newcomer to a ring lacks is sent to it, behind everything else, and bounded by what it has taken in.

Where a policy says so (`ha-sync-mode` = `automatic`) a newcomer catches up at once, else when an operator says so.
Until then it gets what is new; and if by and by everything goes that it lacks, it has caught up, too. An operator may
stop it as well: what it has been sent it keeps, and when it is let again it gets the rest. At last it is told what the
queue remembers besides its messages.

It is sent in slices, of 64 KiB or of as many messages as a policy or the settings say, and no faster than the settings
allow: all that a node sends like that, whatever the queue and to whom, has one pace.

Not here: telling what differs (`broker.replication.backfill`), reading it (`broker.model.replica_contents`), admitting
it (`broker.replication.master`).

Those who are not in sync with a master and have come to catch up.

Not here: one of them (`broker.replication.backfill`), admitting it (`broker.replication.master`).

What one copy has and another has not, as spans of positions.

Not here: sending it (`broker.mirrors`).
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.broker.model.replica_contents import BackfillReader, BackfillReceiver, PositionSpan
from warren.broker.model.turn import TimerTarget
from warren.broker.replication import messages

if TYPE_CHECKING:
    from warren.broker.replication.local_replica import LocalReplica
    from warren.broker.replication.master_replica import MasterReplica
    from warren.broker.replication.replica_sets import ReplicaSets


def span_difference(ours: list[PositionSpan], theirs: list[PositionSpan], below: i64) -> list[PositionSpan]:
    """What is in `ours` and not in `theirs`, of positions below that one. Both are in order, and so is the answer."""
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
"""What may be sent and not be taken in."""

BACKFILL_POLL_MS: Final[i64] = 1_000
BACKFILL_RETRY_MS: Final[i64] = 60_000
"""When to try again to read what could not be read."""


@final
class SyncThrottle:
    """How fast one node lets others catch up: what was sent is paid for with time before anything more is."""

    def __init__(self, bytes_per_s: int) -> None:
        """0: as fast as it can."""
        self._bytes_per_s: i64 = bytes_per_s
        self._free_at_us: i64 = 0

    def sent(self, size_bytes: i64, now_ms: i64) -> None:
        if self._bytes_per_s > 0:
            self._free_at_us = max(self._free_at_us, now_ms * 1000) + size_bytes * 1_000_000 // self._bytes_per_s

    def free_at_ms(self) -> i64:
        """From when on more may be sent."""
        return -(-self._free_at_us // 1000)


@final
class Backfill(BackfillReceiver, TimerTarget):
    """One newcomer's."""

    def __init__(
        self,
        replica_sets: "ReplicaSets",
        replica: "LocalReplica",
        master_replica: "MasterReplica",
        node: str,
        spans: list[PositionSpan],
        below: i64,
        began: i64,
    ) -> None:
        """`below` is the first position that it gets in a step, the first of them the one after `began`."""
        self.node: str = node
        self.allowed: bool = replica.syncs_by_itself()
        # how much there was to send when it began, how much of that is sent, and since when
        self.wanted_count: i64 = 0
        self.sent_count: i64 = 0
        self.since_ms: i64 = 0
        self._sent: list[PositionSpan] = []
        self._replica_sets: ReplicaSets = replica_sets
        self._replica: LocalReplica = replica
        self._master_replica: MasterReplica = master_replica
        self._theirs: list[PositionSpan] = spans
        self._below: i64 = below
        self._began: i64 = began
        self._reader: BackfillReader | None = None
        self._sent_bytes: i64 = 0
        self._taken_bytes: i64 = 0
        self._asked: bool = False
        self._asking: bool = False
        self._over: bool = False
        self._looking: bool = False
        # what could not be read is not read before
        self._again_at_ms: i64 = 0

    def look(self) -> None:
        """Begin, if it may; else see whether it lacks nothing any more."""
        if self._over or self._reader is not None or self._replica_sets.turn.now_ms < self._again_at_ms:
            return
        # what a step before its first removes is gone from here when that is settled, and it will not hear of it
        if self._master_replica.queue is None or self._master_replica.master.committed < self._began:
            return
        ours = self._master_replica.copy.spans()
        lacking = span_difference(ours, self._theirs, self._below)
        if lacking and not self.allowed:
            self._look_later()
            return
        surplus = span_difference(self._theirs, ours, self._below)
        if surplus:
            self._send(messages.encode_spans(messages.SURPLUS, self._replica.queue_id, self._tag(), surplus), b"")
            self._theirs = span_difference(self._theirs, surplus, self._below)
        if not lacking:
            self.backfill_done()
            return
        self.wanted_count = self.sent_count = 0
        self.since_ms = self._replica_sets.turn.now_ms
        for span in lacking:
            self.wanted_count += span.last - span.first + 1
        self._reader = self._master_replica.copy.read(lacking, self)
        self._go_on()

    def _look_later(self, after_ms: i64 = BACKFILL_POLL_MS) -> None:
        if not self._looking:
            self._looking = True
            self._replica_sets.turn.set_timer(self._replica_sets.turn.now_ms + after_ms, self)

    def timer_fired(self) -> None:
        self._looking = False
        self.look()
        self._go_on()

    def taken(self, size_bytes: i64) -> None:
        self._taken_bytes = size_bytes
        self._go_on()

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
        self._send(messages.encode_words(messages.BACKFILL, self._replica.queue_id, self._tag(), values), payload)
        self._sent_bytes += len(payload)
        self._replica_sets.pace.sent(len(payload), self._replica_sets.turn.now_ms)
        self.sent_count += 1
        if self._sent and self._sent[-1].last == position - 1:
            self._sent[-1].last = position
        else:
            self._sent.append(PositionSpan(position, position))

    def backfill_slice_done(self) -> None:
        self._asked = False
        self._go_on()

    def backfill_done(self) -> None:
        if not self._over:
            self._over = True
            self._tell_remembered()
            self._send(messages.encode_words(messages.BACKFILL_END, self._replica.queue_id, self._tag(), []), b"")

    def _tell_remembered(self) -> None:
        """What the queue remembers besides its messages. Of what comes from here on it hears in steps."""
        log = self._master_replica.log()
        anew = 1
        for rows in slices_of(self._master_replica.publishing_ids_in_batches()):
            self._send(
                messages.encode_words(messages.PUBLISHING_IDS, self._replica.queue_id, self._tag(), [anew]), rows
            )
            anew = 0
        for name, offset in log.remembered().items():
            head = messages.encode_words(messages.STORED_OFFSET, self._replica.queue_id, self._tag(), [offset])
            self._send(head, name.encode("utf-8", "surrogateescape"))

    def backfill_failed(self, reason: str) -> None:
        """It cannot be read: the newcomer goes without, and is not in sync, unless it can be read another time."""
        self._replica.note("error", "mirror.cannot_catch_up", {"node": self.node, "reason": reason})
        self._reader = None
        self._keep_for_later()
        self._again_at_ms = self._replica_sets.turn.now_ms + BACKFILL_RETRY_MS
        self._replica_sets.turn.set_timer(self._again_at_ms, self)

    def is_under_way(self) -> bool:
        return self._reader is not None and not self._over

    def stop(self) -> bool:
        """Send no more of what it lacks until it is let again; whether it was being sent."""
        self.allowed = False
        reader = self._reader
        if reader is None or self._over:
            return False
        reader.cancel()
        self._reader = None
        self._keep_for_later()
        self._look_later()
        return True

    def _keep_for_later(self) -> None:
        """What it was sent it has: it lacks the rest."""
        self._asked = False
        self._theirs = sorted([*self._theirs, *self._sent], key=_first_of)
        self._sent = []

    def cancel(self) -> None:
        self._over = True
        if self._reader is not None:
            self._reader.cancel()

    def _go_on(self) -> None:
        """Ask for slices, one after another: some readers give them at once."""
        if self._asking:
            return
        self._asking = True
        while self._may_ask() and self._reader is not None:
            self._asked = True
            self._reader.more(
                SLICE_BYTES, self._replica_sets.mirroring_policies.sync_batch_count(self._replica.definition)
            )
        self._asking = False

    def _may_ask(self) -> bool:
        if self._reader is None or self._over or self._asked:
            return False
        if self._sent_bytes - self._taken_bytes >= WINDOW_BYTES:
            return False
        wait_ms = self._replica_sets.pace.free_at_ms() - self._replica_sets.turn.now_ms
        if wait_ms > 0:
            self._look_later(wait_ms)
        return wait_ms <= 0

    def _tag(self) -> int:
        return self._master_replica.downstream.tags[self.node]

    def _send(self, head: bytes, data: bytes) -> None:
        self._replica_sets.links.send_replication(self.node, head, data)


def slices_of(rows: list[bytes]) -> list[bytes]:
    """Rows together, in parts of about a slice; one that is empty if there are none."""
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
    """One master's."""

    def __init__(self, replica_sets: "ReplicaSets", replica: "LocalReplica", master_replica: "MasterReplica") -> None:
        self._replica_sets: ReplicaSets = replica_sets
        self._replica: LocalReplica = replica
        self._master_replica: MasterReplica = master_replica
        self._catching_up: dict[str, Backfill] = {}

    def all(self) -> list[Backfill]:
        return list(self._catching_up.values())

    def any(self) -> bool:
        return len(self._catching_up) > 0

    def come(self, node: str, spans: list[PositionSpan]) -> None:
        """One has told what it has."""
        master_replica = self._master_replica
        first = master_replica.downstream.firsts.get(node, master_replica.next_position)
        began = master_replica.master.followers[node].began
        self._catching_up[node] = Backfill(self._replica_sets, self._replica, master_replica, node, spans, first, began)
        self.look()

    def look(self) -> None:
        """Those who may catch up do."""
        for catching_up in self.all():
            catching_up.look()

    def let_all(self) -> bool:
        """Let all catch up that have not been let so far; whether there are any."""
        for catching_up in self._catching_up.values():
            catching_up.allowed = True
        self.look()
        return self.any()

    def stop_all(self) -> bool:
        """Let nobody catch up until that is asked for again; whether anybody did."""
        stopped = False
        for catching_up in self._catching_up.values():
            stopped = catching_up.stop() or stopped
        return stopped

    def taken(self, node: str, size_bytes: i64) -> None:
        """One has taken in so much of what it lacked, in all."""
        catching_up = self._catching_up.get(node)
        if catching_up is not None:
            catching_up.taken(size_bytes)

    def caught_up(self, node: str) -> None:
        self._catching_up.pop(node, None)

    def forget(self, node: str) -> None:
        """It is not reached any more, or comes anew."""
        catching_up = self._catching_up.pop(node, None)
        if catching_up is not None:
            catching_up.cancel()

    def end(self) -> None:
        for node in list(self._catching_up):
            self.forget(node)
