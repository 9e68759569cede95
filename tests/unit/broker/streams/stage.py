"""A stream with a turn, a journal, files and readers under the control of a test."""

from typing import Any

from mypy_extensions import i64

from tests.unit.broker.queues.scripted_log import ScriptedLog
from warren.broker.model.archive import Archive, ArchiveReadWaiter, ArchiveWriteWaiter
from warren.broker.model.message import Entry, Envelope, Message
from warren.broker.model.ports import ConsumerPort
from warren.broker.model.turn import Turn
from warren.broker.streams.archive_index import ArchiveIndex
from warren.broker.streams.chunk import ChunkHead
from warren.broker.streams.settings import StreamSettings
from warren.broker.streams.stream import Stream
from warren.wire.frames import content_frames
from warren.wire.properties import Properties, encode_header_payload

START_MS = 1_700_000_000_000


class PretendArchive(Archive):
    """Files in memory that are written and read on request."""

    def __init__(self, segments: dict[int, bytes] | None = None, prompt: bool = True) -> None:
        self.segments: dict[int, bytes] = {} if segments is None else segments
        self.prompt = prompt
        self.reads = 0
        self.writing: list[tuple[int, int, bytes, ArchiveWriteWaiter]] = []
        self.reading: list[tuple[int, int, int, ArchiveReadWaiter]] = []
        self.closed = False

    def write(self, segment: i64, at: i64, data: bytes, writer: ArchiveWriteWaiter) -> None:
        self.writing.append((int(segment), int(at), data, writer))

    def read(self, segment: i64, at: i64, length: i64, asker: ArchiveReadWaiter) -> None:
        self.reads += 1
        self.reading.append((int(segment), int(at), int(length), asker))

    def withdraw(self, asker: ArchiveReadWaiter) -> None:
        self.reading = [one for one in self.reading if one[3] is not asker]

    def drop(self, segments: list[int]) -> None:
        for segment in segments:
            del self.segments[segment]

    def close(self) -> None:
        self.closed = True

    def finish_writes(self) -> None:
        while self.writing:
            segment, at, data, writer = self.writing.pop(0)
            assert len(self.segments.get(segment, b"")) == at
            self.segments[segment] = self.segments.get(segment, b"") + data
            writer.archive_written()

    def finish_reads(self) -> None:
        reading, self.reading = self.reading, []
        for segment, at, length, asker in reading:
            asker.archive_read(self.segments[segment][at : at + length], "")

    def catalog(self, segment_bytes: int) -> ArchiveIndex:
        """The index that a start recovers."""
        catalog = ArchiveIndex(segment_bytes)
        for number in sorted(self.segments):
            data, at = self.segments[number], 0
            while at < len(data):
                head = ChunkHead(data, at)
                catalog.add(number, at, head)
                at += int(head.length)
        return catalog


class PretendReader(ConsumerPort):
    """Collects as many deliveries as its credit allows."""

    def __init__(self, credit: int = 1_000_000, tag: str = "r", **arguments: Any) -> None:
        table = {name.replace("_", "-"): value for name, value in arguments.items()}
        super().__init__(tag, False, False, 0, table)
        self.credit = credit
        self.entries: list[Entry] = []
        self.messages: list[Message] = []
        self.was_cancelled = False

    def able(self) -> bool:
        return self.credit > 0

    def unacked_max(self) -> int:
        return 1_000

    def deliver(self, entry: Entry) -> None:
        self.credit -= 1
        self.entries.append(entry)
        self.messages.append(entry.message)

    def cancelled(self) -> None:
        self.was_cancelled = True

    def offsets(self) -> list[int]:
        return [integer(message.headers()["x-stream-offset"]) for message in self.messages]

    def bodies(self) -> list[bytes]:
        return [message.body() for message in self.messages]


class Stage:
    """One stream. A turn is flushed when `flush` is called."""

    def __init__(self, archive: PretendArchive | None = None, log: ScriptedLog | None = None, **limits: int) -> None:
        self.turn = Turn()
        self.turn.now_ms = START_MS
        self.log = ScriptedLog(prompt=True) if log is None else log
        self.archive = PretendArchive() if archive is None else archive
        settings = StreamSettings(**limits)
        catalog = self.archive.catalog(int(settings.segment_bytes))
        self.stream = Stream("/", "s", {}, settings, self.turn, self.log, self.archive, catalog)
        if log is not None:
            self.stream.recover(log.position_ranges(), max(log.positions(), default=0) + 1)
            self.settle()

    def publish(self, *bodies: bytes, headers: Any = None, key: str = "k") -> None:
        for body in bodies:
            self.stream.publish(message_of(body, headers, key))

    def end_turn(self) -> None:
        while self.turn.drains:
            drains, self.turn.drains = self.turn.drains, []
            for queue in drains:
                queue.drain()

    def flush(self) -> None:
        """End the turn, flush its batch, and run the turns that follow."""
        self.end_turn()
        waiters, self.turn.flush_waiters = self.turn.flush_waiters, []
        for waiter in waiters:
            waiter.flushed()
        self.settle()

    def settle(self) -> None:
        """Run until nothing is in flight."""
        for _ in range(10_000):
            self.end_turn()
            if not self.archive.writing and not self.archive.reading:
                return
            self.archive.finish_writes()
            self.archive.finish_reads()
        raise AssertionError("it never comes to rest")

    def fill(self, count: int, size: int = 1000, each_ms: int = 0) -> None:
        """Publish many messages, numbered in their bodies, several in a turn."""
        end = self.stream.end_offset()
        for number in range(end, end + count):
            self.publish(numbered(number, size))
            if number % 50 == 0:
                self.flush()
            self.turn.now_ms += each_ms
        self.flush()

    def reader(self, credit: int = 1_000_000, **arguments: Any) -> PretendReader:
        reader = PretendReader(credit, **arguments)
        self.stream.add_consumer(reader)
        self.settle()
        return reader

    def restarted(self, **limits: int) -> "Stage":
        return Stage(PretendArchive(self.archive.segments), self.log.restart(), **limits)


def integer(value: object) -> int:
    assert isinstance(value, int)
    return value


def numbered(number: int, size: int = 1000) -> bytes:
    return str(number).encode().ljust(size, b".")


def message_of(body: bytes, headers: Any = None, key: str = "k", exchange: str = "x") -> Message:
    payload = encode_header_payload(Properties(headers=headers, content_type="text/plain"), len(body))
    content = content_frames(payload, body, 1, 4096)
    return Message(Envelope(exchange, key), content, 1, len(body), 4096)
