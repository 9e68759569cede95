"""Pretend files and the directory they are in, as a kernel and a disk keep them: what was written is seen at once, and
certain only once it was flushed.

A process that is killed loses nothing it wrote. When the power goes, every flushed byte stays; of what was not flushed
each sector is as it was (zeros if it never was), or as it was written, or as some write before the last left it, and
one of them may be torn in the middle. A name that was made, moved or removed and whose directory was not flushed since
leads to what it led to before, or to anything it led to since.

Invariant: after a loss of power nothing is left to lose.

Not here: who writes what in which order (`sim.disk`).
"""

from random import Random

SECTOR_BYTES = 512
WRITTEN_BACK = 0.25
"""How often the kernel writes a sector to the disk by itself before it is written to again."""


class PretendFile:
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
        """Make the file at least so long; what is new is zeros."""
        _extend(self._contents, size)

    def trim(self, size: int) -> None:
        """Make the file at most so long. When the power goes before a flush, it may be as long as it was."""
        del self._contents[size:]
        self._dirty = {sector: None for sector in self._dirty if sector * SECTOR_BYTES < size}
        if self._chance.random() < WRITTEN_BACK:
            del self._certain[size:]

    def flush(self) -> None:
        """Everything written so far is certain from here on."""
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


class PretendDirectory:
    """Files by name."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._names: dict[str, PretendFile] = {}
        self._certain: dict[str, PretendFile] = {}
        # what each name led to since the directory was flushed; None: to nothing
        self._since: dict[str, list[PretendFile | None]] = {}

    def names(self) -> list[str]:
        return sorted(self._names)

    def find(self, name: str) -> PretendFile | None:
        return self._names.get(name)

    def create(self, name: str) -> PretendFile:
        """An empty file, instead of the one that had this name."""
        made = PretendFile(self._chance)
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

    def _lead(self, name: str, file: PretendFile | None) -> None:
        self._since.setdefault(name, []).append(file)
        self._names.pop(name, None)
        if file is not None:
            self._names[name] = file


def _extend(contents: bytearray, size: int) -> None:
    if size > len(contents):
        contents.extend(bytes(size - len(contents)))
