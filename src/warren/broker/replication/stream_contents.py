"""The contents of one member's replica of a stream: an archive, and the journal for messages that are not archived yet.

Theory of operation
===================

A stream is mirrored by a replica set like any queue (`broker.replication`): a publish is a STORE in a batch, and counts
when the batch is committed. A queue's messages are removed one by one, in batches. A stream's messages stay, and every
member moves them from its journal to its own archive. ::

    STORE ──► journal ──committed──► archive: chunks of committed messages, without a gap       (each member by itself)
    retention: the master drops segments ──REMOVE p──► committed ──► mirrors drop whole segments that end at p or before

1.  A replica has the messages in its archive and, after them, those in its journal. The limits of chunks differ from
    member to member; the messages do not.
2.  Only committed messages are archived. So no archive has a message whose offset another master could assign again,
    and nothing has to be removed from an archive. A mirror that has restarted does not know which of its messages are
    committed. It archives none of them until its master has compared the two: first the mirror removes messages that
    the master does not have; then the backfill arrives in order, and everything up to its last message is committed.
3.  One `ChunkArchiver` writes the archive. A mirror's reads committed messages back from the journal, one chunk at a
    time. A master's gets the chunks of its stream, which has the messages in memory. A mirror that is promoted first
    completes the chunk that is being written; a master that steps down leaves its last chunk to its mirror.
4.  The master decides on retention alone: it drops segments, and a REMOVE says up to which position. Mirrors drop whole
    segments, so they may keep a little more. An archive starts with a message that once was the first of the stream. A
    backfill never sends messages before it, though another member may still have them.
5.  A new master assigns offsets after the highest one it has, in positions of its own epoch. All messages that it has
    are committed with the first batch of its epoch. A mirror that has more removes them when it joins.
6.  A mirror that is promoted without being in sync may have a gap. Offsets have no gaps, so it keeps the messages
    before the first gap and drops the others. A member that joins later starts empty if its archive has messages that
    the master does not have (`diverged`).
7.  A backfill is read from the archive or the journal, depending on where a message is. It goes through the journal of
    the joining mirror, which archives it as it arrives. Backfills of streams always start by themselves: messages are
    not consumed, so waiting would not make the difference smaller.
8.  Files can be lost as a whole, and no other file shows it. So the journal stores the position at which the archive
    ends, in the batch that drops the archived messages. Messages in the archive after that position are also in the
    journal; an archive that ends before it has lost messages. Before an archive is cleared (4) the stored position is 0
    on disk, so that the remains of a half-cleared archive are recognised.
9.  A member in sync that has lost messages takes no part: as the master it would assign offsets again, and make mirrors
    drop the messages that it lost. It logs the damage. When the replica set no longer lists it as in sync, it stores in
    its journal that it has accepted the gap. A backfill cannot fill this gap: a journal ignores messages that it has
    dropped before. So the member starts empty when there is a master, as it does if its files cannot be read. If
    there is no master, it may be promoted like any member that is not in sync, with the messages that are left (6); the
    gap is no gap then. If no other member was in sync, it waits for an operator.
10. Damage may be found later, by a reader or by a mirror's archiver. No member removes anything because of that: the
    replica set may rely on the rest by then, though this node does not know it yet. A master goes on without readers of
    damaged messages; a mirror leaves its messages in the journal, and logs the damage.

Readers are attached to the master. When the master changes, their proxies attach them to the next one, after the last
message that each reader got.

Not here: replica sets (`broker.replication`), the stream itself (`broker.streams`).
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
"""About how much of a stream may be in the journal at a promotion: the stream has all of it in memory."""


@final
class StreamContents(ReplicaContents):
    """The archive and the journal of one replica of a stream."""

    def __init__(
        self, disk: DiskContents, catalog: ArchiveIndex, archive: Archive, turn: Turn, damage: str = ""
    ) -> None:
        """`damage`: why the archive cannot be used."""
        self.disk: DiskContents = disk
        self.catalog: ArchiveIndex = catalog
        self.archive: Archive = archive
        self.archiver: ChunkArchiver = ChunkArchiver(disk, catalog, archive, turn)
        # the archive has messages that the master does not have: this replica must start empty
        self.diverged: bool = False
        self._turn: Turn = turn
        self._damage: str = damage
        self._prepared: bool = False
        self._catching_up: bool = False
        # the last position, when the contents are about to be handed over
        self._last: i64 = 0
        # where the archive ended at the last attempt to hand over, if the journal had too much
        self._archived_at_last_try: i64 = -1
        # during a backfill: the last position that batches have committed
        self._batches_committed_to: i64 = 0

    def prepare(self, waiter: ReplicaContentsWaiter) -> None:
        if self._damage:
            waiter.contents_damaged(self._damage)
        else:
            self.disk.prepare(DiskPrepared(self, waiter))

    def drop_archived(self) -> None:
        """Drop messages from the journal that are in the archive: the node ended before it had done so."""
        self._prepared = True
        if self.disk.archived_to() == 0 and not self._journal_continues_archive():
            # the node ended while it cleared the archive
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

    # -- writes

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
        # before the journal is prepared, the catalog alone knows
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

    # -- removals

    def remove(self, level: i64, first: i64, last: i64) -> None:
        """Retention of the master has dropped everything up to `last`."""
        self.archiver.removed_up_to(last)

    def remove_any(self, first: i64, last: i64) -> None:
        """The master has none of these: retention dropped them, or they were never committed."""
        for span in self.disk.spans():
            if span.first <= last and span.last >= first:
                self.disk.remove_any(max(span.first, first), min(span.last, last))
        found = self.catalog.from_position(first)
        if found is None or found.first_position > last:
            return
        oldest = self.catalog.from_position(self.archiver.removed_to + 1)
        if oldest is not None and max(oldest.first_position, self.archiver.removed_to + 1) < first:
            # retention drops from the beginning, and archived messages were committed: another master committed these
            self.diverged = True
        else:
            self.archiver.removed_up_to(last)

    def drop(self, priority: i64, position: i64) -> None:
        self.disk.drop(priority, position)

    # -- state

    def mark_delivered(self, position: i64) -> bool:
        """Readers of a stream remove nothing, so there is no delivery watermark."""
        return False

    def delivered_up_to(self) -> i64:
        return 0

    def returned(self, position: i64, count: i64) -> None:
        """Messages of a stream are never requeued."""

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
        """Everything before the archive's first message was dropped by retention, and need not be sent."""
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
        return "" if self._journal_continues_archive() else catalog.describe_gap(catalog.end())

    def _journal_continues_archive(self) -> bool:
        """Whether the journal continues where the archive ends; it does unless archive files were lost."""
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

    # -- promotion and end

    def prepare_handover(self) -> bool:
        archiver = self.archiver
        if not archiver.is_idle():
            return False
        self._catching_up = False
        self.disk.caught_up()
        self._last = self._trim_to_gapless()
        archiver.committed_to = max(archiver.committed_to, self._last)
        if self.disk.body_bytes() > HANDED_OVER_BYTES and self._archived_at_last_try != self.catalog.end():
            # the stream would have all of that in memory
            self._archived_at_last_try = self.catalog.end()
            archiver.start_chunk()
            if not archiver.is_idle():
                return False
        if self.has_accepted_gap():
            # this member becomes the master, so the stream is what it has: the gap is no gap any more
            self.disk.archive_goes_to(self.catalog.last_position())
        # from here on the stream writes the archive
        archiver.is_master = True
        if self.catalog.empty():
            self.catalog.begin_with(offset_of(max(self.disk.lowest(), 1)))
        return True

    def await_idle(self, waiter: ReplicaIdleWaiter) -> None:
        self.archiver.await_idle(waiter)

    def hand_over(self, target: PromotionTarget) -> None:
        """After `prepare_handover` returned True."""
        target.recover(self.disk.position_ranges(), self._last + 1)

    def _trim_to_gapless(self) -> i64:
        """Keep the messages that follow the archive without a gap; return the last position.

        Where two epochs have the same offset, the later epoch counts.
        """
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
                # the archive has other messages at these offsets
                first = min(first + end - offset_of(first), span.last + 1)
                dropped += self._drop_span(PositionSpan(span.first, first - 1))
            if first <= span.last and offset_of(first) > end:
                dropped += self._drop_span(PositionSpan(first, span.last))
            elif first <= span.last:
                chain.append(PositionSpan(first, span.last))
                last = span.last
        if dropped:
            self._turn.note("warning", "stream.given_up", {"messages": dropped})
            # their publishing ids are unknown, and a repeat of one of them must not be dropped: forget all ids
            self.disk.load_publishing_ids(b"", True)
        return last

    def _drop_from_offset(self, chain: list[PositionSpan], offset: i64) -> int:
        """Drop messages of earlier epochs from this offset on."""
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

    def check(self) -> None:
        self.disk.check()
        self.catalog.check()
        self.archiver.check()

    def queue_closed(self) -> None:
        self.archiver.queue_closed()

    def close(self) -> None:
        self.archiver.close()
        self.disk.close()
        self.archive.close()


@final
class DiskPrepared(ReplicaContentsWaiter):
    """Waits for the journal's part of the contents."""

    def __init__(self, contents: StreamContents, waiter: ReplicaContentsWaiter) -> None:
        self._contents: StreamContents = contents
        self._waiter: ReplicaContentsWaiter = waiter

    def contents_prepared(self) -> None:
        self._contents.drop_archived()
        self._waiter.contents_prepared()

    def contents_damaged(self, reason: str) -> None:
        self._waiter.contents_damaged(reason)


def _first_of(span: PositionSpan) -> int:
    return int(span.first)
