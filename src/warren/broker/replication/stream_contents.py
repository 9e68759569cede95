"""Streams that several nodes hold: what a member has of one, and what its master's stream does with that.

Theory of operation
===================

A stream is mirrored by the replica set that any queue is (`broker.replication`): what is published is a STORE in a
batch, and counts
when that is committed. What differs is what becomes of it then. A queue's messages leave one by one, in batches; a
stream's
stay, and every member moves them for itself from its journal to its own archive. ::

    STORE ──► journal ──committed──► archive: chunks of what is committed, without a gap     (each member for itself)
    retention: the master's segments go ──REMOVE p──► committed ──► whole segments of others that end at p or before

1.  A replica of a stream is its archive and, behind that, what its journal has. Which positions it has is told by
    both.
    Where chunks begin and end differs from member to member; what is in them does not.
2.  Only what is committed gets into an archive. So nothing is ever in one that another master might give out again
    under
    the same offset, and nobody has to take anything out of one. A mirror that was not told so far what is
    committed of
    what it holds, because it has restarted, archives nothing of that until its master has compared the two: what the
    master lacks is taken out first, then comes the backfill, in order, and up to where that has come all is
    committed.
3.  One writes to the archive at a time, the `ChunkArchiver`. A mirror's reads what is committed back from its
    journal, a
    chunk's worth at a time. A master's gets chunks of its stream, which has them in memory. A mirror that is promoted
    lets the chunk that is being written be written first; a master that steps down leaves its last one to its mirror.
4.  Retention is the master's decision, and needs nobody's consent: it drops segments and says up to where. The others
    drop whole segments, so they may keep a little more. An archive begins with what was the first thing there was, at
    some time: what lies before that is gone, and nobody is sent it, though another may still have it.
5.  A new master gives out offsets that go on behind the highest it holds, in positions of its own epoch. Whatever it
    holds is committed with its epoch's first batch. What another has beyond is taken off when that comes back.
6.  One that is promoted though it was not in sync may lack something in the middle. Offsets have no gaps: it keeps
    what
    it has up to the first one, and gives up the rest, as it gives up what it never had. Whoever then comes back
    with an
    archive that has what the master does not have, begins anew, with nothing.
7.  What a joining mirror lacks is read from the archive or from the journal, wherever it is by then, and goes
    through the
    journal of the joining mirror, which archives it as it comes. Streams always catch up by themselves: they are
    not emptied,
    so waiting for what is old to go would be in vain.
8.  Files can be lost as a whole, and then nothing in them tells. So the journal has a mark: up to which position the
    archive went when the journal forgot what is in it. The two are one batch. Whatever an archive has beyond its mark
    is in the journal as well; an archive that ends before it has lost something. Before an archive is cleared (4) the
    mark is 0 on disk: what is left of it after a crash is no more than that.
9.  A member that was in sync and has lost something takes no part: as the master it would give out offsets again, and
    have the others drop what it lost. It says so. When the replica set counts on it no more it writes down that it
    has lost
    something. What its journal forgot, it does not take in again, so it cannot be sent that as a joining mirror
    (7): when
    there is a master it begins with nothing, as it does if what it has cannot be read. If there is none, it may be
    promoted as any other that is not in sync, with what is left (6), and then has lost nothing. If no other was in
    sync, it waits for an operator.
10. Damage may be met later, when somebody reads, or a mirror archives. Nobody throws anything away for that:
    others may
    be counting on the rest at that moment, also if this node has not heard of it. A master goes on without those who
    want what is damaged; a mirror leaves it in its journal, and says so.

Readers are with the master. When that changes their proxies attach them to the next one, behind the last message that
each was given.

Not here: replica sets (`broker.replication`), one node's stream (`broker.streams`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.broker.journal.replica_contents import DiskContents
from warren.broker.model.archive import Archive
from warren.broker.model.message import Entry
from warren.broker.model.ports import LOST_POSITION
from warren.broker.model.replica_contents import (
    BackfillReader,
    BackfillReceiver,
    PositionSpan,
    PromotionTarget,
    ReplicaContents,
    ReplicaContentsWaiter,
    ReplicaIdleWaiter,
)
from warren.broker.model.turn import Turn
from warren.broker.replication.stream_archiver import ChunkArchiver
from warren.broker.replication.stream_backfill import StreamBackfillReader
from warren.broker.streams.archive_index import ArchiveIndex
from warren.broker.streams.offsets import offset_of

HANDED_OVER_BYTES: Final[i64] = 16 * 1024 * 1024
"""How much of a stream may be in the journal when it is handed over, about."""


@final
class StreamContents(ReplicaContents):
    """What one member holds of one stream."""

    def __init__(
        self, disk: DiskContents, catalog: ArchiveIndex, archive: Archive, turn: Turn, damage: str = ""
    ) -> None:
        """`damage`: why its archive cannot be used."""
        self.disk: DiskContents = disk
        self.catalog: ArchiveIndex = catalog
        self.archive: Archive = archive
        self.archiver: ChunkArchiver = ChunkArchiver(disk, catalog, archive, turn)
        # its archive has what its master does not have: it can only begin anew
        self.diverged: bool = False
        self._turn: Turn = turn
        self._damage: str = damage
        self._prepared: bool = False
        self._catching_up: bool = False
        # where it ends, when it is about to be handed over
        self._last: i64 = 0
        # where its archive ended when it was last to be handed over, and had too much in the journal
        self._archived_at_last_try: i64 = -1
        # what steps have settled meanwhile
        self._batches_committed_to: i64 = 0

    def prepare(self, asker: ReplicaContentsWaiter) -> None:
        if self._damage:
            asker.contents_damaged(self._damage)
        else:
            self.disk.prepare(DiskPrepared(self, asker))

    def drop_archived(self) -> None:
        """What is in the archive need not be in the journal: the node ended before that was written down."""
        self._prepared = True
        if self.disk.archived_to() == 0 and not self._journal_continues_archive():
            # the node ended while it was being cleared
            self.archive.drop(self.catalog.clear())
        for span in self.catalog.spans():
            self.disk.remove_any(span.first, span.last)
        if (
            not self.has_accepted_gap()
            and not self.catalog.empty()
            and self.catalog.last_position() > self.disk.archived_to()
        ):
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

    def store_entry(self, entry: Entry, payload: bytes, payload_crc: i64) -> None:
        self.disk.store_entry(entry, payload, payload_crc)

    def archived(self, first: i64, last: i64) -> None:
        # before it is known what the journal has, the catalog has it
        if self._prepared:
            self.disk.remove(0, first, last)
            self.disk.archive_goes_to(self.catalog.last_position())

    def committed(self, position: i64) -> None:
        if self._catching_up:
            self._batches_committed_to = max(self._batches_committed_to, position)
        else:
            self.archiver.committed(position)

    def backfill_stored(self, position: i64) -> None:
        if self._catching_up:
            self.archiver.committed(position)

    def begin_catching_up(self) -> None:
        self._catching_up = True
        self.disk.begin_catching_up()

    def caught_up(self) -> None:
        self._catching_up = False
        self.disk.caught_up()
        self.archiver.committed(self._batches_committed_to)

    # -- what goes

    def remove(self, level: i64, first: i64, last: i64) -> None:
        """The master keeps nothing up to there."""
        self.archiver.removed_up_to(last)

    def remove_any(self, first: i64, last: i64) -> None:
        """The master has none of these: because they are gone, or because they never counted."""
        for span in self.disk.spans():
            if span.first <= last and span.last >= first:
                self.disk.remove_any(max(span.first, first), min(span.last, last))
        found = self.catalog.from_position(first)
        if found is None or found.first_position > last:
            return
        oldest = self.catalog.from_position(self.archiver.removed_to + 1)
        if oldest is not None and max(oldest.first_position, self.archiver.removed_to + 1) < first:
            # what is gone goes from the beginning; and what does not count was never archived, unless it did before
            self.diverged = True
        else:
            self.archiver.removed_up_to(last)

    def drop(self, priority: i64, position: i64) -> None:
        self.disk.drop(priority, position)

    # -- what is known

    def mark_delivered(self, position: i64) -> bool:
        """Whoever reads takes nothing away: there is nothing to remember."""
        return False

    def delivered_up_to(self) -> i64:
        return 0

    def returned(self, position: i64, count: i64) -> None:
        """Nothing ever does."""

    def drop_publishing_id(self, payload: bytes) -> None:
        self.disk.drop_publishing_id(payload)

    def load_publishing_ids(self, rows: bytes, anew: bool) -> bool:
        return self.disk.load_publishing_ids(rows, anew)

    def store_offset(self, name: str, offset: i64) -> None:
        self.disk.store_offset(name, offset)

    def offset_names(self) -> list[str]:
        return self.disk.offset_names()

    def spans(self) -> list[PositionSpan]:
        spans: list[PositionSpan] = []
        for span in sorted(self.catalog.spans() + self.disk.spans(), key=_first_of):
            if spans and spans[-1].last + 1 >= span.first:
                spans[-1].last = max(spans[-1].last, span.last)
            elif span.last > self.archiver.removed_to:
                spans.append(PositionSpan(max(span.first, self.archiver.removed_to + 1), span.last))
        return spans

    def skippable_spans(self) -> list[PositionSpan]:
        """An archive begins with what was the first thing there was: what lies before that is not wanted."""
        archived = self.catalog.spans()
        if not archived:
            return self.spans()
        claims = [PositionSpan(1, archived[0].last)]
        for span in self.spans():
            if span.first <= claims[-1].last + 1:
                claims[-1].last = max(claims[-1].last, span.last)
            else:
                claims.append(span)
        return claims

    def read(self, spans: list[PositionSpan], receiver: BackfillReceiver) -> BackfillReader:
        return StreamBackfillReader(self.disk, self.catalog, self.archive, spans, receiver)

    def describe_gap(self) -> str:
        catalog, went_to = self.catalog, self.disk.archived_to()
        if self.has_accepted_gap():
            return ""
        if catalog.last_position() < went_to:
            left = "are missing" if catalog.empty() else f"end with offset {catalog.end() - 1}"
            return f"the files of the stream {left}, and had everything up to offset {offset_of(went_to)}"
        return "" if self._journal_continues_archive() else catalog.lack(catalog.end())

    def _journal_continues_archive(self) -> bool:
        """What was in the archive is in the journal until it is written: so the one goes on where the other ends."""
        catalog, spans, end = self.catalog, self.disk.spans(), self.catalog.end()
        if catalog.empty() or not spans:
            return catalog.torn[0] == 0 or len(spans) > 0
        return any(offset_of(span.first) <= end <= offset_of(span.last) for span in spans)

    def accept_gap(self) -> bool:
        if self.has_accepted_gap() or not self.describe_gap():
            return False
        self.disk.archive_goes_to(LOST_POSITION)
        return True

    def has_accepted_gap(self) -> bool:
        return self.disk.archived_to() == LOST_POSITION

    # -- its end

    def prepare_handover(self) -> bool:
        archiver = self.archiver
        if not archiver.is_idle():
            return False
        self._catching_up = False
        self.disk.caught_up()
        self._last = self._trim_to_gapless()
        archiver.committed_to = max(archiver.committed_to, self._last)
        if self.disk.body_bytes() > HANDED_OVER_BYTES and self._archived_at_last_try != self.catalog.end():
            # a stream has all of that in memory
            self._archived_at_last_try = self.catalog.end()
            archiver.start_chunk()
            if not archiver.is_idle():
                return False
        if self.has_accepted_gap():
            # what is missing is nobody's any more: it is this one's to say what there is
            self.disk.archive_goes_to(self.catalog.last_position())
        # from here on the journal is left to the stream
        archiver.is_master = True
        if self.catalog.empty():
            self.catalog.begin_with(offset_of(max(self.disk.lowest(), 1)))
        return True

    def await_idle(self, waiter: ReplicaIdleWaiter) -> None:
        self.archiver.await_idle(waiter)

    def hand_over(self, target: PromotionTarget) -> None:
        """When it is at rest."""
        target.recover(self.disk.runs(), self._last + 1)

    def _trim_to_gapless(self) -> i64:
        """Keep what follows the archive without a gap, of what two epochs have the later one's; the last position."""
        catalog, dropped = self.catalog, 0
        last = catalog.last_position()
        chain: list[PositionSpan] = []
        for span in self.disk.spans():
            first = span.first
            if not chain and catalog.empty():
                end = offset_of(first)
            else:
                end = offset_of(last) + 1
            if offset_of(first) < end:
                dropped += self._drop_from_offset(chain, offset_of(first))
                last = chain[-1].last if chain else catalog.last_position()
                end = offset_of(last) + 1
            if offset_of(first) < end:
                # the archive has others under these offsets
                first = min(first + end - offset_of(first), span.last + 1)
                dropped += self._drop_span(PositionSpan(span.first, first - 1))
            if first <= span.last and offset_of(first) > end:
                dropped += self._drop_span(PositionSpan(first, span.last))
            elif first <= span.last:
                chain.append(PositionSpan(first, span.last))
                last = span.last
        if dropped:
            self._turn.note("warning", "stream.given_up", {"messages": dropped})
            # it is not known whose they were: whoever publishes one of them again must not be told that it is here
            self.disk.load_publishing_ids(b"", True)
        return last

    def _drop_from_offset(self, chain: list[PositionSpan], offset: i64) -> int:
        """Nothing of an earlier epoch counts from this offset on."""
        dropped = 0
        while chain and offset_of(chain[-1].last) >= offset:
            span = chain.pop()
            kept = offset - offset_of(span.first)
            if kept > 0:
                chain.append(PositionSpan(span.first, span.first + kept - 1))
            dropped += self._drop_span(PositionSpan(span.first + max(kept, 0), span.last))
        return dropped

    def _drop_span(self, span: PositionSpan) -> int:
        self.disk.remove_any(span.first, span.last)
        return int(span.last - span.first) + 1

    def queue_closed(self) -> None:
        self.archiver.queue_closed()

    def close(self) -> None:
        self.archiver.close()
        self.disk.close()
        self.archive.close()


@final
class DiskPrepared(ReplicaContentsWaiter):
    """Waits for what the journal has to be known."""

    def __init__(self, contents: StreamContents, asker: ReplicaContentsWaiter) -> None:
        self._contents: StreamContents = contents
        self._asker: ReplicaContentsWaiter = asker

    def contents_prepared(self) -> None:
        self._contents.drop_archived()
        self._asker.contents_prepared()

    def contents_damaged(self, reason: str) -> None:
        self._asker.contents_damaged(reason)


def _first_of(span: PositionSpan) -> int:
    return int(span.first)
