"""A member's copy of a stream: its archive, and behind that what the journal has.

Invariants: nothing is in both, but for a chunk that is being written. What is in the archive is settled. The archive
goes at least as far as the journal says it does, unless files were lost.

Not here: the theory (`broker.mirrored_streams`), filling the archive (`broker.mirrored_streams.archivist`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.broker.mirrored_streams.archivist import Archivist
from warren.broker.mirrored_streams.reading import ReadingStream
from warren.model.archive import Archive
from warren.model.copies import Copy, CopyAsker, Heir, PastReader, PastTaker, RestWaiter, Span
from warren.model.message import Entry
from warren.model.ports import LOST
from warren.model.turn import Turn
from warren.store.copies.disk_copy import DiskCopy
from warren.stream.catalog import Catalog
from warren.stream.offsets import offset_of

HANDED_OVER_BYTES: Final[i64] = 16 * 1024 * 1024
"""How much of a stream may be in the journal when it is handed over, about."""


@final
class StreamCopy(Copy):
    """What one member holds of one stream."""

    def __init__(self, disk: DiskCopy, catalog: Catalog, archive: Archive, turn: Turn, damage: str = "") -> None:
        """`damage`: why its archive cannot be used."""
        self.disk: DiskCopy = disk
        self.catalog: Catalog = catalog
        self.archive: Archive = archive
        self.archivist: Archivist = Archivist(disk, catalog, archive, turn)
        # its archive has what its master does not have: it can only begin anew
        self.contradicts: bool = False
        self._turn: Turn = turn
        self._damage: str = damage
        self._prepared: bool = False
        self._catching_up: bool = False
        # where it ends, when it is about to be handed over
        self._last: i64 = 0
        # where its archive ended when it was last to be handed over, and had too much in the journal
        self._tried_at: i64 = -1
        # what steps have settled meanwhile
        self._steps_settled_to: i64 = 0

    def prepare(self, asker: CopyAsker) -> None:
        if self._damage:
            asker.copy_damaged(self._damage)
        else:
            self.disk.prepare(DiskPrepared(self, asker))

    def drop_archived(self) -> None:
        """What is in the archive need not be in the journal: the node ended before that was written down."""
        self._prepared = True
        if self.disk.archived_to() == 0 and not self._follows():
            # the node ended while it was being cleared
            self.archive.drop(self.catalog.clear())
        for span in self.catalog.spans():
            self.disk.remove_any(span.first, span.last)
        if not self.has_lost() and not self.catalog.empty() and self.catalog.last_position() > self.disk.archived_to():
            self.disk.archive_goes_to(self.catalog.last_position())

    def count(self) -> int:
        archived: i64 = 0 if self.catalog.empty() else self.catalog.end() - self.catalog.first()
        return int(archived) + self.disk.count()

    def body_bytes(self) -> int:
        return int(self.catalog.body_bytes) + self.disk.body_bytes()

    # -- what comes

    def store(
        self,
        position: i64,
        priority: i64,
        expires_at_ms: i64,
        persistent: bool,
        payload: bytes,
        payload_crc: i64,
    ) -> bool:
        if position <= self.catalog.last_position() and self.catalog.has_position(position):
            return False
        return self.disk.store(position, priority, expires_at_ms, persistent, payload, payload_crc)

    def hold(self, entry: Entry, payload: bytes, payload_crc: i64) -> None:
        self.disk.hold(entry, payload, payload_crc)

    def archived(self, first: i64, last: i64) -> None:
        # before it is known what the journal has, the catalog has it
        if self._prepared:
            self.disk.remove(0, first, last)
            self.disk.archive_goes_to(self.catalog.last_position())

    def settled(self, position: i64) -> None:
        if self._catching_up:
            self._steps_settled_to = max(self._steps_settled_to, position)
        else:
            self.archivist.settled(position)

    def past_stored(self, position: i64) -> None:
        if self._catching_up:
            self.archivist.settled(position)

    def begin_catching_up(self) -> None:
        self._catching_up = True
        self.disk.begin_catching_up()

    def caught_up(self) -> None:
        self._catching_up = False
        self.disk.caught_up()
        self.archivist.settled(self._steps_settled_to)

    # -- what goes

    def remove(self, level: i64, first: i64, last: i64) -> None:
        """The master keeps nothing up to there."""
        self.archivist.gone(last)

    def remove_any(self, first: i64, last: i64) -> None:
        """The master has none of these: because they are gone, or because they never counted."""
        for span in self.disk.spans():
            if span.first <= last and span.last >= first:
                self.disk.remove_any(max(span.first, first), min(span.last, last))
        found = self.catalog.from_position(first)
        if found is None or found.first_position > last:
            return
        oldest = self.catalog.from_position(self.archivist.gone_to + 1)
        if oldest is not None and max(oldest.first_position, self.archivist.gone_to + 1) < first:
            # what is gone goes from the beginning; and what does not count was never archived, unless it did before
            self.contradicts = True
        else:
            self.archivist.gone(last)

    def drop(self, priority: i64, position: i64) -> None:
        self.disk.drop(priority, position)

    # -- what is known

    def lend(self, position: i64) -> bool:
        """Whoever reads takes nothing away: there is nothing to remember."""
        return False

    def lent_to(self) -> i64:
        return 0

    def returned(self, position: i64, count: i64) -> None:
        """Nothing ever does."""

    def unsee(self, payload: bytes) -> None:
        self.disk.unsee(payload)

    def take_seen(self, rows: bytes, anew: bool) -> bool:
        return self.disk.take_seen(rows, anew)

    def remember(self, name: str, offset: i64) -> None:
        self.disk.remember(name, offset)

    def names(self) -> list[str]:
        return self.disk.names()

    def spans(self) -> list[Span]:
        spans: list[Span] = []
        for span in sorted(self.catalog.spans() + self.disk.spans(), key=_first_of):
            if spans and spans[-1].last + 1 >= span.first:
                spans[-1].last = max(spans[-1].last, span.last)
            elif span.last > self.archivist.gone_to:
                spans.append(Span(max(span.first, self.archivist.gone_to + 1), span.last))
        return spans

    def claims(self) -> list[Span]:
        """An archive begins with what was the first thing there was: what lies before that is not wanted."""
        archived = self.catalog.spans()
        if not archived:
            return self.spans()
        claims = [Span(1, archived[0].last)]
        for span in self.spans():
            if span.first <= claims[-1].last + 1:
                claims[-1].last = max(claims[-1].last, span.last)
            else:
                claims.append(span)
        return claims

    def read(self, spans: list[Span], taker: PastTaker) -> PastReader:
        return ReadingStream(self.disk, self.catalog, self.archive, spans, taker)

    def lack(self) -> str:
        catalog, went_to = self.catalog, self.disk.archived_to()
        if self.has_lost():
            return ""
        if catalog.last_position() < went_to:
            left = "are missing" if catalog.empty() else f"end with offset {catalog.end() - 1}"
            return f"the files of the stream {left}, and had everything up to offset {offset_of(went_to)}"
        return "" if self._follows() else catalog.lack(catalog.end())

    def _follows(self) -> bool:
        """What was in the archive is in the journal until it is written: so the one goes on where the other ends."""
        catalog, spans, end = self.catalog, self.disk.spans(), self.catalog.end()
        if catalog.empty() or not spans:
            return catalog.torn[0] == 0 or len(spans) > 0
        return any(offset_of(span.first) <= end <= offset_of(span.last) for span in spans)

    def disown(self) -> bool:
        if self.has_lost() or not self.lack():
            return False
        self.disk.archive_goes_to(LOST)
        return True

    def has_lost(self) -> bool:
        return self.disk.archived_to() == LOST

    # -- its end

    def rests(self) -> bool:
        archivist = self.archivist
        if not archivist.rests():
            return False
        self._catching_up = False
        self.disk.caught_up()
        self._last = self._without_gaps()
        archivist.settled_to = max(archivist.settled_to, self._last)
        if self.disk.body_bytes() > HANDED_OVER_BYTES and self._tried_at != self.catalog.end():
            # a stream has all of that in memory
            self._tried_at = self.catalog.end()
            archivist.go_on()
            if not archivist.rests():
                return False
        if self.has_lost():
            # what is missing is nobody's any more: it is this one's to say what there is
            self.disk.archive_goes_to(self.catalog.last_position())
        # from here on the journal is left to the stream
        archivist.leads = True
        if self.catalog.empty():
            self.catalog.begin_with(offset_of(max(self.disk.lowest(), 1)))
        return True

    def await_rest(self, waiter: RestWaiter) -> None:
        self.archivist.await_rest(waiter)

    def hand_over(self, heir: Heir) -> None:
        """When it is at rest."""
        heir.recover(self.disk.runs(), self._last + 1)

    def _without_gaps(self) -> i64:
        """Keep what follows the archive without a gap, of what two epochs have the later one's; the last position."""
        catalog, given_up = self.catalog, 0
        last = catalog.last_position()
        chain: list[Span] = []
        for span in self.disk.spans():
            first = span.first
            if not chain and catalog.empty():
                end = offset_of(first)
            else:
                end = offset_of(last) + 1
            if offset_of(first) < end:
                given_up += self._take_back(chain, offset_of(first))
                last = chain[-1].last if chain else catalog.last_position()
                end = offset_of(last) + 1
            if offset_of(first) < end:
                # the archive has others under these offsets
                first = min(first + end - offset_of(first), span.last + 1)
                given_up += self._give_up(Span(span.first, first - 1))
            if first <= span.last and offset_of(first) > end:
                given_up += self._give_up(Span(first, span.last))
            elif first <= span.last:
                chain.append(Span(first, span.last))
                last = span.last
        if given_up:
            self._turn.note("warning", "stream.given_up", {"messages": given_up})
            # it is not known whose they were: whoever publishes one of them again must not be told that it is here
            self.disk.take_seen(b"", True)
        return last

    def _take_back(self, chain: list[Span], offset: i64) -> int:
        """Nothing of an earlier epoch counts from this offset on."""
        given_up = 0
        while chain and offset_of(chain[-1].last) >= offset:
            span = chain.pop()
            kept = offset - offset_of(span.first)
            if kept > 0:
                chain.append(Span(span.first, span.first + kept - 1))
            given_up += self._give_up(Span(span.first + max(kept, 0), span.last))
        return given_up

    def _give_up(self, span: Span) -> int:
        self.disk.remove_any(span.first, span.last)
        return int(span.last - span.first) + 1

    def left_alone(self) -> None:
        self.archivist.left_alone()

    def close(self) -> None:
        self.archivist.close()
        self.disk.close()
        self.archive.close()


@final
class DiskPrepared(CopyAsker):
    """Waits for what the journal has to be known."""

    def __init__(self, copy: StreamCopy, asker: CopyAsker) -> None:
        self._copy: StreamCopy = copy
        self._asker: CopyAsker = asker

    def copy_prepared(self) -> None:
        self._copy.drop_archived()
        self._asker.copy_prepared()

    def copy_damaged(self, reason: str) -> None:
        self._asker.copy_damaged(reason)


def _first_of(span: Span) -> int:
    return int(span.first)
