"""The files of a node's streams on a pretend disk: written piece by piece, flushed, read, and lost like any others.

One order is carried out after another, each in steps that take their time; the node may die between any two. Reads do
not wait for writes. A piece that was not flushed when the power went may be there in part, or not at all.

Not here: what is in them (`warren.stream`), the journal (`sim.disk`).
"""

from collections import deque
from collections.abc import Callable, Iterator
from random import Random

from warren.model.archive import ArchiveFiles
from warren.model.effects import DropArchive, ReadArchive, WriteArchive
from warren.model.events import ArchiveRead, ArchiveWritten, Event
from warren.sim.files import PretendDirectory, PretendFile

RETRY_MS = 100

Schedule = Callable[[int, Callable[[], None]], None]
Steps = Iterator[tuple[str, int]]


def archive_name(stream_id: int, segment: int) -> str:
    return f"{stream_id}/{segment:012}.chunks"


class FoundArchives(ArchiveFiles):
    """The files of all streams as they are at a start."""

    def __init__(self, directory: PretendDirectory) -> None:
        self._directory = directory

    def streams(self) -> list[int]:
        return sorted({int(name.partition("/")[0]) for name in self._directory.names()})

    def segments(self, stream_id: int) -> list[int]:
        prefix = f"{stream_id}/"
        names = [name for name in self._directory.names() if name.startswith(prefix)]
        return sorted(int(name[len(prefix) :].partition(".")[0]) for name in names)

    def size(self, stream_id: int, segment: int) -> int:
        return len(self._file(stream_id, segment))

    def read(self, stream_id: int, segment: int, at: int, length: int) -> bytes:
        return self._file(stream_id, segment).read(at, length)

    def secure(self, stream_id: int, segment: int) -> None:
        self._file(stream_id, segment).flush()
        self._directory.sync()

    def _file(self, stream_id: int, segment: int) -> PretendFile:
        file = self._directory.find(archive_name(stream_id, segment))
        assert file is not None
        return file


class PretendArchives:
    """All of one node's. `takes` says how long the next write or flush takes, `full` whether there is room."""

    def __init__(
        self,
        chance: Random,
        schedule: Schedule,
        tell: Callable[[Event], None],
        watch: Callable[[str], None],
        takes: Callable[[], int],
        full: Callable[[], bool],
    ) -> None:
        self.directory = PretendDirectory(chance)
        self._chance = chance
        self._schedule = schedule
        self._tell = tell
        self._watch = watch
        self._takes = takes
        self._full = full
        self._life = 0
        self._orders: deque[WriteArchive | DropArchive] = deque()
        self._work: Steps | None = None

    def order(self, order: WriteArchive | DropArchive) -> None:
        self._orders.append(order)
        if self._work is None:
            self._begin()

    def read(self, order: ReadArchive) -> None:
        life = self._life
        self._schedule(self._chance.choice((0, 1, 3)), lambda: self._answer(order, life))

    def idle(self) -> bool:
        return self._work is None

    def found(self) -> FoundArchives:
        return FoundArchives(self.directory)

    def kill(self) -> None:
        """The process dies: what it wrote is there, what it was about to do is not done."""
        self._life += 1
        self._orders.clear()
        self._work = None

    def lose_power(self) -> None:
        self.directory.lose_power()

    def _begin(self) -> None:
        order = self._orders.popleft()
        self._work = self._write(order) if isinstance(order, WriteArchive) else self._drop(order)
        self._take_step(self._life)

    def _take_step(self, life: int) -> None:
        if life != self._life or self._work is None:
            return
        try:
            step, duration_ms = next(self._work)
        except StopIteration:
            self._work = None
            if self._orders:
                self._begin()
            return
        self._watch(step)
        self._schedule(duration_ms, lambda: self._take_step(life))

    def _write(self, order: WriteArchive) -> Steps:
        while self._full():
            yield "wait for room in an archive", RETRY_MS
        name = archive_name(order.stream_id, order.segment)
        file = self.directory.find(name) or self.directory.create(name)
        yield "cut archive", self._takes()
        file.trim(order.offset)
        middle = self._chance.randint(0, len(order.data))
        for at, piece in ((0, order.data[:middle]), (middle, order.data[middle:])):
            yield "write archive", self._takes()
            file.write(order.offset + at, piece)
        yield "flush archive", self._takes()
        file.flush()
        if order.offset == 0:
            yield "sync archive directory", self._takes()
            self.directory.sync()
        self._tell(ArchiveWritten(order.ticket))

    def _drop(self, order: DropArchive) -> Steps:
        prefix = f"{order.stream_id}/"
        names = [archive_name(order.stream_id, segment) for segment in order.segments]
        for name in names or [name for name in self.directory.names() if name.startswith(prefix)]:
            yield "drop archive", self._takes()
            self.directory.unlink(name)
            self.directory.sync()

    def _answer(self, order: ReadArchive, life: int) -> None:
        if life != self._life:
            return
        file = self.directory.find(archive_name(order.stream_id, order.segment))
        if file is None:
            self._tell(ArchiveRead(order.ticket, b"", f"segment {order.segment} of the stream is not there"))
        else:
            self._tell(ArchiveRead(order.ticket, file.read(order.offset, order.length)))
