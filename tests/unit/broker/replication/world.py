"""A replica of a stream: a journal on a plain disk, and an archive that is written when the test says so.

Not here: the journal's part (`tests.unit.broker.journal.contents_world`), replica sets.
"""

from tests.unit.broker.journal.contents_world import BackfillMessage, ContentsWorld, JoiningMirror
from tests.unit.broker.streams.stage import PretendArchive, message_of
from warren.broker.journal.payloads import decode_message, message_payload
from warren.broker.model.replica_contents import PositionSpan
from warren.broker.replication.stream_contents import StreamContents
from warren.broker.streams.offsets import position_of
from warren.broker.streams.settings import StreamSettings
from warren.broker.streams.stream import Stream

SEGMENT = 3_000_000
LARGE = 100_000
"""Eleven such messages fill a chunk."""


class StreamCopyWorld:
    """One life of a node with a replica."""

    def __init__(self, disk: ContentsWorld | None = None, archive: PretendArchive | None = None) -> None:
        self.disk = ContentsWorld(prepared=False) if disk is None else disk
        self.archive = PretendArchive() if archive is None else archive
        self.catalog = self.archive.catalog(SEGMENT)
        self.copy = StreamContents(self.disk.copy, self.catalog, self.archive, self.disk.turn)
        self.copy.prepare(self.disk.asker)
        self.go_on()
        assert (self.disk.asker.times, self.disk.asker.damage) == (1, "")

    def restart(self) -> "StreamCopyWorld":
        """Kill the process and start it with its files."""
        again = ContentsWorld(self.disk.disk, self.disk.segment_bytes, prepared=False)
        return StreamCopyWorld(again, PretendArchive(self.archive.segments))

    def go_on(self) -> None:
        """Run until nothing is pending."""
        for _round in range(1_000):
            self._drain()
            self.disk.go_on()
            if not self.archive.writing and not self.archive.reading and not self.disk.turn.drains:
                return
            self.archive.finish_writes()
            self.archive.finish_reads()
        raise AssertionError("something is always pending")

    def store(self, offsets: range, epoch: int = 1, size: int = LARGE) -> int:
        """The position of the last one."""
        position = 0
        for offset in offsets:
            payload, crc = message_payload(message_of(body_of(offset, epoch, size)))
            position = position_of(epoch, offset)
            self.copy.store(position, 0, 1_000 + offset, True, payload, crc)
        return position

    def store_committed(self, offsets: range, epoch: int = 1, size: int = LARGE) -> None:
        self.copy.committed(self.store(offsets, epoch, size))
        self.go_on()

    def read(self, spans: list[PositionSpan], size_bytes: int = 300_000) -> list[BackfillMessage]:
        mirror = JoiningMirror()
        reader = self.copy.read(spans, mirror)
        for _round in range(1_000):
            if mirror.over:
                return mirror.taken
            reader.more(size_bytes)
            self.go_on()
            assert mirror.damage == ""
        raise AssertionError("the backfill never ends")

    def bodies(self) -> list[bytes]:
        """All messages, in order."""
        return [body_in(message) for message in self.read(self.copy.spans())]

    def promoted(self) -> Stream:
        """Promote the replica, when nothing is pending."""
        for _round in range(1_000):
            if self.copy.prepare_handover():
                break
            self.disk.go_on()
            self.archive.finish_writes()
        stream = Stream(
            "/", "s", {}, StreamSettings(), self.disk.turn, self.disk.queue_index, self.archive, self.catalog
        )
        self.copy.hand_over(stream)
        self.go_on()
        return stream

    def _drain(self) -> None:
        drains, self.disk.turn.drains = self.disk.turn.drains, []
        for queue in drains:
            queue.drain()


def body_of(offset: int, epoch: int = 1, size: int = LARGE) -> bytes:
    return f"{epoch}/{offset}".encode().ljust(size, b".")


def body_in(message: BackfillMessage) -> bytes:
    return decode_message(message.payload, message.priority, message.persistent).body()


def span_of(offsets: range, epoch: int = 1) -> PositionSpan:
    return PositionSpan(position_of(epoch, offsets.start), position_of(epoch, offsets.stop - 1))
