"""Simulated files and directories: writes are visible at once, and durable only after a flush.

A killed process loses none of its writes. When the power goes, every flushed byte stays. Each unflushed sector is as it
was (zeros if it never was), or as it was written, or as some earlier write left it, and one of them may be torn in the
middle. A name that was created, moved or removed since its directory was flushed leads to its old file, or to any it
led to since.

Archive files of streams are written piece by piece, flushed, read, and lost like any others. Orders are carried out one
after another, in steps that take time; the node may die between any two. Reads do not wait for writes.

Invariant: after a power loss nothing is left to lose.

Not here: who writes what in which order (`sim.disk`), the contents (`broker.journal`, `broker.streams`).
"""

from collections import deque
from collections.abc import Callable, Iterator
from random import Random

from warren.broker.journal.recovery import JournalFiles
from warren.broker.model.archive import ArchiveFiles
from warren.broker.model.effects import DropArchive, ReadArchive, WriteArchive
from warren.broker.model.events import ArchiveRead, ArchiveWritten, Event

SECTOR_BYTES = 512
WRITTEN_BACK = 0.25
"""How often the kernel writes a sector by itself before it is written to again."""


class SimulatedFile:
    """One file, written at explicit offsets."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._contents = bytearray()
        self._certain = bytearray()
        self._dirty: dict[int, None] = {}

    def __len__(self) -> int:
        return len(self._contents)

    def write(self, offset: int, data: bytes) -> None:
        if not data:
            return
        end = offset + len(data)
        touched = range(offset // SECTOR_BYTES, (end - 1) // SECTOR_BYTES + 1)
        for sector in touched:
            if sector in self._dirty and self._chance.random() < WRITTEN_BACK:
                self._write_back(sector)
        _extend(self._contents, end)
        self._contents[offset:end] = data
        self._dirty.update(dict.fromkeys(touched))

    def reserve(self, size: int) -> None:
        """Make the file at least that long; new bytes are zeros."""
        _extend(self._contents, size)

    def trim(self, size: int) -> None:
        """Make the file at most that long. After a power loss before a flush, it may have its old length."""
        del self._contents[size:]
        self._dirty = {sector: None for sector in self._dirty if sector * SECTOR_BYTES < size}
        if self._chance.random() < WRITTEN_BACK:
            del self._certain[size:]

    def flush(self) -> None:
        """Everything written so far is durable."""
        del self._certain[len(self._contents) :]
        _extend(self._certain, len(self._contents))
        for sector in self._dirty:
            self._write_back(sector)
        del self._certain[len(self._contents) :]
        self._dirty.clear()

    def read(self, offset: int = 0, length: int | None = None) -> bytes:
        end = len(self._contents) if length is None else offset + length
        return bytes(self._contents[offset:end])

    def flushed(self) -> bool:
        return not self._dirty and len(self._certain) == len(self._contents)

    def lose_power(self) -> None:
        chance = self._chance
        dirty = list(self._dirty)
        kept_share = chance.choice((0.0, 0.5, 0.9, 1.0))
        kept = [sector for sector in dirty if chance.random() < kept_share]
        torn = kept[-1] if kept and chance.random() < 0.5 else None
        for sector in kept:
            self._write_back(sector, torn=sector == torn)
        if chance.random() < 0.5:
            _extend(self._certain, len(self._contents))
        self._contents = bytearray(self._certain)
        self._dirty.clear()

    def _write_back(self, sector: int, torn: bool = False) -> None:
        begin = sector * SECTOR_BYTES
        data = self._contents[begin : begin + SECTOR_BYTES]
        if torn:
            data = data[: self._chance.randint(0, len(data))]
        _extend(self._certain, begin + len(data))
        self._certain[begin : begin + len(data)] = data


class SimulatedDirectory:
    """Files by name."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._names: dict[str, SimulatedFile] = {}
        self._certain: dict[str, SimulatedFile] = {}
        # where each name led since the directory was flushed; None: nowhere
        self._since: dict[str, list[SimulatedFile | None]] = {}

    def names(self) -> list[str]:
        return sorted(self._names)

    def find(self, name: str) -> SimulatedFile | None:
        return self._names.get(name)

    def create(self, name: str) -> SimulatedFile:
        """Create an empty file in place of one with this name."""
        made = SimulatedFile(self._chance)
        self._lead(name, made)
        return made

    def rename(self, name: str, to: str) -> None:
        moved = self._names[name]
        self._lead(to, moved)
        self._lead(name, None)

    def unlink(self, name: str) -> None:
        if name in self._names:
            self._lead(name, None)

    def sync(self) -> None:
        self._certain = dict(self._names)
        self._since.clear()

    def lose_power(self) -> None:
        for name, versions in self._since.items():
            led_to = self._chance.choice([self._certain.get(name), *versions])
            self._certain.pop(name, None)
            if led_to is not None:
                self._certain[name] = led_to
        self._since.clear()
        self._names = dict(sorted(self._certain.items()))
        for file in dict.fromkeys(self._names.values()):
            file.lose_power()

    def _lead(self, name: str, file: SimulatedFile | None) -> None:
        self._since.setdefault(name, []).append(file)
        self._names.pop(name, None)
        if file is not None:
            self._names[name] = file


def _extend(contents: bytearray, size: int) -> None:
    if size > len(contents):
        contents.extend(bytes(size - len(contents)))


CHECKPOINT = "checkpoint"


def segment_name(number: int) -> str:
    return f"{number:012}.seg"


def index_name(number: int) -> str:
    return f"{number:012}.idx"


class SimulatedJournalFiles(JournalFiles):
    """The journal's files as recovery reads them."""

    def __init__(self, directory: SimulatedDirectory) -> None:
        self._directory = directory

    def checkpoint(self) -> bytes | None:
        return self._content(CHECKPOINT)

    def segments(self) -> list[int]:
        return [int(name[:-4]) for name in self._directory.names() if name.endswith(".seg")]

    def segment(self, number: int) -> bytes:
        content = self._content(segment_name(number))
        assert content is not None
        return content

    def index(self, number: int) -> bytes | None:
        return self._content(index_name(number))

    def has_index(self, number: int) -> bool:
        return self._directory.find(index_name(number)) is not None

    def _content(self, name: str) -> bytes | None:
        file = self._directory.find(name)
        return None if file is None else file.read()


RETRY_MS = 100

Schedule = Callable[[int, Callable[[], None]], None]
Steps = Iterator[tuple[str, int]]


def archive_name(stream_id: int, segment: int) -> str:
    return f"{stream_id}/{segment:012}.chunks"


class SimulatedArchiveFiles(ArchiveFiles):
    """The files of all streams as recovery reads them."""

    def __init__(self, directory: SimulatedDirectory) -> None:
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

    def _file(self, stream_id: int, segment: int) -> SimulatedFile:
        file = self._directory.find(archive_name(stream_id, segment))
        assert file is not None
        return file


class SimulatedArchives:
    """The archives of one node. `takes` gives the duration of the next write or flush, `full` whether there is no
    space."""

    def __init__(
        self,
        chance: Random,
        schedule: Schedule,
        emit: Callable[[Event], None],
        watch: Callable[[str], None],
        takes: Callable[[], int],
        full: Callable[[], bool],
    ) -> None:
        self.directory = SimulatedDirectory(chance)
        self._chance = chance
        self._schedule = schedule
        self._emit = emit
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

    def found(self) -> SimulatedArchiveFiles:
        return SimulatedArchiveFiles(self.directory)

    def kill(self) -> None:
        """The process dies: its writes stay, its unfinished work does not."""
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
        self._emit(ArchiveWritten(order.ticket))

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
            self._emit(ArchiveRead(order.ticket, b"", f"segment {order.segment} of the stream is not there"))
        else:
            self._emit(ArchiveRead(order.ticket, file.read(order.offset, order.length)))
