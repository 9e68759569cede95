"""A pretend disk: what was appended is certain only once it was flushed.

A crash keeps every flushed byte and, of the rest, a prefix that chance decides: none, some or all of it. With `torn`
the last byte that survived may be damaged, as when the power goes in the middle of a sector.

Invariant: of each file, `flushed <= len(contents)`, and the first `flushed` bytes survive any crash unchanged.

Not here: what is written (the journal), when it is flushed (the node).
"""

from random import Random


class PretendFile:
    """One append-only file."""

    def __init__(self) -> None:
        self._contents = bytearray()
        self._flushed = 0

    def append(self, data: bytes) -> int:
        """Add bytes at the end; the offset they begin at."""
        offset = len(self._contents)
        self._contents += data
        return offset

    def flush(self) -> int:
        """Make everything appended so far certain; how many bytes that is."""
        self._flushed = len(self._contents)
        return self._flushed

    def read(self, offset: int = 0, length: int | None = None) -> bytes:
        end = len(self._contents) if length is None else offset + length
        return bytes(self._contents[offset:end])

    def truncate(self, size: int) -> None:
        """Cut the file, as recovery does with a torn tail; the cut is certain at once."""
        del self._contents[size:]
        self._flushed = min(self._flushed, size)

    def unflushed_bytes(self) -> int:
        return len(self._contents) - self._flushed

    def crash(self, chance: Random, torn: bool) -> None:
        survived = self._flushed + chance.randint(0, self.unflushed_bytes())
        del self._contents[survived:]
        if torn and survived > self._flushed:
            self._contents[-1] ^= 1 << chance.randrange(8)
        self._flushed = len(self._contents)


class PretendDisk:
    """A node's files by name."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._files: dict[str, PretendFile] = {}

    def file(self, name: str) -> PretendFile:
        """The file of this name, made if it is not there."""
        return self._files.setdefault(name, PretendFile())

    def names(self) -> list[str]:
        return sorted(self._files)

    def remove(self, name: str) -> None:
        del self._files[name]

    def crash(self, torn: bool = False) -> None:
        """The power went: what was not flushed may be lost."""
        for name in self.names():
            self._files[name].crash(self._chance, torn)
