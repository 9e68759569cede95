"""What a newcomer to a ring lacks is sent to it, behind everything else, and bounded by what it has taken in.

Where a policy says so (`ha-sync-mode` = `automatic`) a newcomer catches up at once, else when an operator says so.
Until then it gets what is new; and if by and by everything goes that it lacks, it has caught up, too. An operator may
stop it as well: what it has been sent it keeps, and when it is let again it gets the rest. At last it is told what the
queue remembers besides its messages.

It is sent in slices, of 64 KiB or of as many messages as a policy or the settings say, and no faster than the settings
allow: all that a node sends like that, whatever the queue and to whom, has one pace.

Not here: telling what differs (`mirroring.difference`), reading it (`model.copies`), admitting it (`mirroring.master`).
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.mirroring import messages
from warren.mirroring.difference import difference
from warren.model.copies import PastReader, PastTaker, Span
from warren.model.turn import Timed

if TYPE_CHECKING:
    from warren.broker.mirrors.mastery import Mastery
    from warren.broker.mirrors.part import Part
    from warren.broker.mirrors.rings import Rings

SLICE_BYTES: Final[i64] = 64 * 1024
WINDOW_BYTES: Final[i64] = 1024 * 1024
"""What may be sent and not be taken in."""

LOOK_EVERY_MS: Final[i64] = 1_000
AGAIN_MS: Final[i64] = 60_000
"""When to try again to read what could not be read."""


@final
class SyncPace:
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
class CatchingUp(PastTaker, Timed):
    """One newcomer's."""

    def __init__(
        self, rings: "Rings", part: "Part", mastery: "Mastery", node: str, spans: list[Span], below: i64, began: i64
    ) -> None:
        """`below` is the first position that it gets in a step, the first of them the one after `began`."""
        self.node: str = node
        self.allowed: bool = part.syncs_by_itself()
        # how much there was to send when it began, how much of that is sent, and since when
        self.wanted_count: i64 = 0
        self.sent_count: i64 = 0
        self.since_ms: i64 = 0
        self._sent: list[Span] = []
        self._rings: Rings = rings
        self._part: Part = part
        self._mastery: Mastery = mastery
        self._theirs: list[Span] = spans
        self._below: i64 = below
        self._began: i64 = began
        self._reader: PastReader | None = None
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
        if self._over or self._reader is not None or self._rings.turn.now_ms < self._again_at_ms:
            return
        # what a step before its first removes is gone from here when that is settled, and it will not hear of it
        if self._mastery.queue is None or self._mastery.master.settled < self._began:
            return
        ours = self._mastery.copy.spans()
        lacking = difference(ours, self._theirs, self._below)
        if lacking and not self.allowed:
            self._look_later()
            return
        surplus = difference(self._theirs, ours, self._below)
        if surplus:
            self._send(messages.spans(messages.SURPLUS, self._part.queue_id, self._tag(), surplus), b"")
            self._theirs = difference(self._theirs, surplus, self._below)
        if not lacking:
            self.past_is_over()
            return
        self.wanted_count = self.sent_count = 0
        self.since_ms = self._rings.turn.now_ms
        for span in lacking:
            self.wanted_count += span.last - span.first + 1
        self._reader = self._mastery.copy.read(lacking, self)
        self._go_on()

    def _look_later(self, after_ms: i64 = LOOK_EVERY_MS) -> None:
        if not self._looking:
            self._looking = True
            self._rings.turn.set_timer(self._rings.turn.now_ms + after_ms, self)

    def timer_fired(self) -> None:
        self._looking = False
        self.look()
        self._go_on()

    def taken(self, size_bytes: i64) -> None:
        self._taken_bytes = size_bytes
        self._go_on()

    def past(
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
        self._send(messages.words(messages.PAST, self._part.queue_id, self._tag(), values), payload)
        self._sent_bytes += len(payload)
        self._rings.pace.sent(len(payload), self._rings.turn.now_ms)
        self.sent_count += 1
        if self._sent and self._sent[-1].last == position - 1:
            self._sent[-1].last = position
        else:
            self._sent.append(Span(position, position))

    def past_given(self) -> None:
        self._asked = False
        self._go_on()

    def past_is_over(self) -> None:
        if not self._over:
            self._over = True
            self._tell_remembered()
            self._send(messages.words(messages.PAST_OVER, self._part.queue_id, self._tag(), []), b"")

    def _tell_remembered(self) -> None:
        """What the queue remembers besides its messages. Of what comes from here on it hears in steps."""
        log = self._mastery.log()
        anew = 1
        for rows in parts_of(self._mastery.seen_in_steps()):
            self._send(messages.words(messages.SEEN, self._part.queue_id, self._tag(), [anew]), rows)
            anew = 0
        for name, offset in log.remembered().items():
            head = messages.words(messages.REMEMBERED, self._part.queue_id, self._tag(), [offset])
            self._send(head, name.encode("utf-8", "surrogateescape"))

    def past_failed(self, reason: str) -> None:
        """It cannot be read: the newcomer goes without, and is not in sync, unless it can be read another time."""
        self._part.note("error", "mirror.cannot_catch_up", {"node": self.node, "reason": reason})
        self._reader = None
        self._keep_for_later()
        self._again_at_ms = self._rings.turn.now_ms + AGAIN_MS
        self._rings.turn.set_timer(self._again_at_ms, self)

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
            self._reader.more(SLICE_BYTES, self._rings.wishes.sync_batch_count(self._part.definition))
        self._asking = False

    def _may_ask(self) -> bool:
        if self._reader is None or self._over or self._asked:
            return False
        if self._sent_bytes - self._taken_bytes >= WINDOW_BYTES:
            return False
        wait_ms = self._rings.pace.free_at_ms() - self._rings.turn.now_ms
        if wait_ms > 0:
            self._look_later(wait_ms)
        return wait_ms <= 0

    def _tag(self) -> int:
        return self._mastery.downlink.tags[self.node]

    def _send(self, head: bytes, data: bytes) -> None:
        self._rings.links.send_ring(self.node, head, data)


def parts_of(rows: list[bytes]) -> list[bytes]:
    """Rows together, in parts of about a slice; one that is empty if there are none."""
    parts: list[bytes] = []
    part: list[bytes] = []
    size_bytes: i64 = 0
    for row in rows:
        part.append(row)
        size_bytes += len(row)
        if size_bytes >= SLICE_BYTES:
            parts.append(b"".join(part))
            part, size_bytes = [], 0
    if part or not parts:
        parts.append(b"".join(part))
    return parts


def _first_of(span: Span) -> int:
    return int(span.first)
