"""How far readers with a name have come, so that the next one of that name can go on there.

A reader's *progress* is the highest offset up to which it has acked everything it was given; what it did not want
counts as dealt with. Progress is written down at most once a second, and when the reader leaves. What it acks after
that, because its channel outlives it, counts, too; what it gives back unacked ends its progress there.

Two readers of one name are two who write down where they are: the last one counts.

Not here: the journal's part (`broker.model.ports.QueueLog`), who shares a stream with whom.
"""

from typing import Final, final

from mypy_extensions import i64

from warren.broker.model.message import Entry
from warren.broker.model.ports import QueueLog
from warren.broker.model.reader_positions import NAMES_MAX, NO_OFFSET
from warren.broker.model.turn import Timer, TimerTarget, Turn
from warren.broker.streams.offsets import offset_of
from warren.broker.streams.reader import Reader

WRITE_EVERY_MS: Final[i64] = 1_000


@final
class ReaderProgress:
    """How far one reader has come."""

    def __init__(self, name: str, reader: Reader) -> None:
        self.name: str = name
        self._reader: Reader = reader
        # what it holds, in the order in which it got it, and where it was before
        self._held: dict[Entry, int] = {}
        # behind what it must not be taken to have come; -1 for nothing
        self._returned_from: i64 = -1
        # what it has dealt with ends here, as far as that is written down; -1 before it was given anything
        self._written: i64 = -1

    def began(self, offset: i64) -> None:
        """It was here when it first was given something, or found something that it did not want."""
        if self._written < 0:
            self._written = offset

    def delivered(self, entry: Entry, offset: i64) -> None:
        self._held[entry] = int(offset)

    def released(self, entry: Entry, back: bool) -> None:
        """It holds this no more: it acked it, or gave it back."""
        offset: i64 = self._held.pop(entry)
        if back and (self._returned_from < 0 or offset < self._returned_from):
            self._returned_from = offset

    def holds_something(self) -> bool:
        return len(self._held) > 0

    def end(self) -> i64:
        """Everything before this offset is dealt with; -1 if nothing is."""
        end = self._reader.offset
        for offset in self._held.values():
            end = offset
            break
        if 0 <= self._returned_from < end:
            end = self._returned_from
        return end

    def unwritten(self) -> i64:
        """Where that has come to since this was asked before; -1 if it is as it was."""
        end = self.end()
        if self._written < 0 or end == self._written:
            return -1
        self._written = end
        return end


@final
class StoredOffsets(TimerTarget):
    """All names of one stream."""

    def __init__(self, log: QueueLog, turn: Turn) -> None:
        self._log: QueueLog = log
        self._turn: Turn = turn
        self._of_reader: dict[Reader, ReaderProgress] = {}
        self._of_entry: dict[Entry, ReaderProgress] = {}
        # those that may have come on since that was written down
        self._due: dict[ReaderProgress, None] = {}
        self._timer: Timer | None = None

    def mirror(self, log: QueueLog) -> None:
        """Others are to know what is stored, too."""
        self._log = log

    # -- what is stored

    def end(self, name: str) -> i64:
        """Everything before this offset is dealt with under the name; -1 if nothing is known of it."""
        self._write()
        stored = self._log.remembered().get(name)
        return -1 if stored is None else stored + 1

    def all_stored(self) -> dict[str, int]:
        """By name, the offset up to which everything is dealt with."""
        return dict(self._log.remembered())

    def store(self, name: str, offset: i64) -> None:
        """It has come so far, whatever was known of it."""
        self._log.remember(name, offset)

    def forget(self, name: str) -> None:
        """As if nothing had ever been known of it."""
        self._write()
        self._log.remember(name, NO_OFFSET)

    def has_room(self, name: str) -> bool:
        """Whether one more may be kept, if this one is not among those that are."""
        stored = self._log.remembered()
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
        """Another goes on under the name: what those who left still hold counts no more."""
        here = list(self._of_reader.values())
        entries = [entry for entry, one in self._of_entry.items() if one.name == name and one not in here]
        for entry in entries:
            del self._of_entry[entry]

    def delivered(self, reader: Reader, entry: Entry, offset: i64) -> None:
        """An entry is about to go to a reader that was at this offset."""
        if not self._of_reader:
            return
        progress = self._of_reader.get(reader)
        if progress is not None:
            progress.began(offset)
            # what it passed over to come here is dealt with
            progress.delivered(entry, max(offset, offset_of(entry.position)))
            self._of_entry[entry] = progress

    def passed(self, reader: Reader, offset: i64) -> None:
        """A reader that was at this offset found nothing more that it wants."""
        if reader.offset != offset:
            progress = self._of_reader.get(reader)
            if progress is not None:
                progress.began(offset)
                self._write_later(progress)

    def released(self, entry: Entry, back: bool) -> None:
        """An entry was acked, or came back."""
        if not self._of_entry:
            return
        progress = self._of_entry.pop(entry, None)
        if progress is not None:
            progress.released(entry, back)
            self._write_later(progress)

    def holds_something(self, reader: Reader) -> bool:
        """Whether a reader with a name has yet to ack something."""
        progress = self._of_reader.get(reader)
        return progress is not None and progress.holds_something()

    def close(self) -> None:
        """The stream is gone."""
        if self._timer is not None:
            self._turn.cancel_timer(self._timer)
            self._timer = None
        self._due = {}

    # -- writing it down

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
                self._log.remember(progress.name, end - 1)
