"""Stored offsets: how far named readers have come, so that the next reader of a name resumes there.

The *progress* of a reader is the highest offset up to which it has acked all its messages; filtered messages count as
processed. Progress is written at most once a second, and when the reader leaves. Later acks count, too, because a
channel may outlive its consumer. A message that is returned unacked ends the progress there.

If two readers share a name, each writes its progress and the last write counts.

Not here: the journal's part (`broker.model.ports.QueueLog`), groups (`broker.streams.groups`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.broker.model.message import Entry
from warren.broker.model.ports import QueueLog
from warren.broker.model.reader_positions import NAMES_MAX, NO_OFFSET
from warren.broker.model.turn import Timer, TimerTarget, Turn
from warren.broker.streams.offsets import offset_of
from warren.broker.streams.reader import Reader
from warren.errors import InvariantBroken

WRITE_EVERY_MS: Final[i64] = 1_000


@final
class ReaderProgress:
    """The progress of one reader."""

    def __init__(self, name: str, reader: Reader) -> None:
        self.name: str = name
        self._reader: Reader = reader
        # unacked entries in the order of delivery, each with the offset of the reader before it
        self._held: dict[Entry, int] = {}
        # the lowest returned offset, which progress does not pass; -1 if there is none
        self._returned_from: i64 = -1
        # the progress as last written; -1 before the first delivery
        self._written: i64 = -1

    def began(self, offset: i64) -> None:
        """The reader was at this offset before its first delivery or its first filtered message."""
        if self._written < 0:
            self._written = offset

    def delivered(self, entry: Entry, offset: i64) -> None:
        self._held[entry] = int(offset)

    def released(self, entry: Entry, back: bool) -> None:
        """An entry was acked, or returned (`back`)."""
        offset: i64 = self._held.pop(entry)
        if back and (self._returned_from < 0 or offset < self._returned_from):
            self._returned_from = offset

    def holds(self, entry: Entry) -> bool:
        return entry in self._held

    def holds_something(self) -> bool:
        return len(self._held) > 0

    def end(self) -> i64:
        """All messages before this offset are processed; -1 if none is."""
        end = self._reader.offset
        for offset in self._held.values():
            end = offset
            break
        if 0 <= self._returned_from < end:
            end = self._returned_from
        return end

    def unwritten(self) -> i64:
        """The progress if it has changed since the last call, else -1."""
        end = self.end()
        if self._written < 0 or end == self._written:
            return -1
        self._written = end
        return end

    def check(self) -> None:
        """Raise `InvariantBroken` unless the first unacked entry is the lowest: progress ends there."""
        offsets = list(self._held.values())
        if offsets != sorted(offsets):
            raise InvariantBroken(f"'{self.name}' has unacked messages in another order than that of their offsets")


@final
class StoredOffsets(TimerTarget):
    """The stored offsets of one stream."""

    def __init__(self, log: QueueLog, turn: Turn) -> None:
        self._log: QueueLog = log
        self._turn: Turn = turn
        self._of_reader: dict[Reader, ReaderProgress] = {}
        self._of_entry: dict[Entry, ReaderProgress] = {}
        # progress that may have to be written
        self._due: dict[ReaderProgress, None] = {}
        self._timer: Timer | None = None

    def mirror(self, log: QueueLog) -> None:
        """The stream is mirrored from here on."""
        self._log = log

    # -- stored offsets

    def end(self, name: str) -> i64:
        """All messages before this offset are processed under the name; -1 if nothing is stored."""
        self._write()
        stored = self._log.stored_offsets().get(name)
        return -1 if stored is None else stored + 1

    def all_stored(self) -> dict[str, int]:
        """By name, the last processed offset."""
        return dict(self._log.stored_offsets())

    def store(self, name: str, offset: i64) -> None:
        """Store the last processed offset of a name."""
        self._log.store_offset(name, offset)

    def forget(self, name: str) -> None:
        self._write()
        self._log.store_offset(name, NO_OFFSET)

    def has_room(self, name: str) -> bool:
        """Whether the name is stored already, or there is room for another one."""
        stored = self._log.stored_offsets()
        if name in stored or len(stored) + len(self._of_reader) < NAMES_MAX:
            return True
        names = {progress.name for progress in self._of_reader.values()}
        return name in names or len(names.union(stored)) < NAMES_MAX

    # -- readers

    def enter(self, name: str, reader: Reader) -> None:
        self._of_reader[reader] = ReaderProgress(name, reader)

    def leave(self, reader: Reader) -> None:
        progress = self._of_reader.pop(reader, None)
        if progress is not None:
            self._due[progress] = None
            self._write()

    def disown(self, name: str) -> None:
        """Another reader takes over the name: acks of readers that left do not count any more."""
        here = list(self._of_reader.values())
        entries = [entry for entry, one in self._of_entry.items() if one.name == name and one not in here]
        for entry in entries:
            del self._of_entry[entry]

    def delivered(self, reader: Reader, entry: Entry, offset: i64) -> None:
        """An entry is delivered to a reader that was at this offset."""
        if not self._of_reader:
            return
        progress = self._of_reader.get(reader)
        if progress is not None:
            progress.began(offset)
            # filtered messages before it are processed
            progress.delivered(entry, max(offset, offset_of(entry.position)))
            self._of_entry[entry] = progress

    def passed(self, reader: Reader, offset: i64) -> None:
        """A reader that was at this offset found only filtered messages."""
        if reader.offset != offset:
            progress = self._of_reader.get(reader)
            if progress is not None:
                progress.began(offset)
                self._write_later(progress)

    def released(self, entry: Entry, back: bool) -> None:
        """An entry was acked, or returned (`back`)."""
        if not self._of_entry:
            return
        progress = self._of_entry.pop(entry, None)
        if progress is not None:
            progress.released(entry, back)
            self._write_later(progress)

    def holds_something(self, reader: Reader) -> bool:
        """Whether a named reader has unacked messages."""
        progress = self._of_reader.get(reader)
        return progress is not None and progress.holds_something()

    def check(self) -> None:
        """Raise `InvariantBroken` if an unacked entry is not with the progress that waits for it."""
        for entry, progress in self._of_entry.items():
            if not progress.holds(entry):
                raise InvariantBroken(f"'{progress.name}' waits for position {entry.position}, which it does not hold")
        for progress in self._of_reader.values():
            progress.check()

    def close(self) -> None:
        """The stream is gone."""
        if self._timer is not None:
            self._turn.cancel_timer(self._timer)
            self._timer = None
        self._due = {}

    # -- writing

    def _write_later(self, progress: ReaderProgress) -> None:
        self._due[progress] = None
        if self._timer is None:
            self._timer = self._turn.set_timer(self._turn.now_ms + WRITE_EVERY_MS, self)

    def timer_fired(self) -> None:
        self._timer = None
        self._write()

    def _write(self) -> None:
        due, self._due = self._due, {}
        for progress in due:
            end = progress.unwritten()
            if end >= 0:
                self._log.store_offset(progress.name, end - 1)
