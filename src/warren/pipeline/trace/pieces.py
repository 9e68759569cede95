"""The files of a trace as one log that only grows: a position is the number of a piece and a byte in it.

::

    NAME.log.3   NAME.log.4   NAME.log.5      finished: they never change, and the oldest are deleted
    NAME.log                                  being written: piece 6, the one after the last that is finished
    .NAME.log.last                            5, the number of the last finished one, which may be deleted by now

When a file is full it is put aside under exactly the number it was counted by, so a position stays what it is. Between
looking for a file and opening it the trace may do just that. So whoever opens `NAME.log` looks for the last finished
piece before and after: if it is the same, what was opened is the piece behind it. That one is the highest number of a
file, or the one that the trace has written down, which it does a moment after it has put the file aside.

Lines are whole up to the last line feed. What follows it in the file that is being written is not there yet; in a
finished file it is a line, too, if one that a crash cut off.

What was read may be gone: deleted before it was read, or begun anew because somebody deleted the files. A position
tells, as far as it can: its piece is before the first or behind the last, or has fewer bytes.

Not here: which lines are read when (`trace.files`), what is in them (`trace.lines`).
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

from warren.pipeline.errors import PipelineError

FILE: Final = re.compile(r"(?P<trace>(?!\.)[^/\x00]+)\.log(?:\.(?P<number>[1-9]\d{0,17}))?")
BLOCK_BYTES: Final = 64 * 1024
ATTEMPTS: Final = 100
"""How often a trace may put files aside while one is looked for."""


@dataclass(frozen=True, order=True)
class Position:
    """Before this byte of this piece everything is read."""

    number: int
    byte: int


@dataclass(frozen=True)
class Standing:
    """The pieces of a trace that are there, with the bytes of their whole lines, and whether each is finished."""

    sizes: dict[int, int]
    finished: int
    """The number of the last finished piece, 0 if there is none."""

    @property
    def first(self) -> int:
        return min(self.sizes)

    @property
    def end(self) -> Position:
        last = max(self.sizes)
        return self.settled(Position(last, self.sizes[last]))

    def settled(self, position: Position) -> Position:
        """The same place; behind a finished piece it is the beginning of the next, so that the piece may be deleted."""
        if position.number <= self.finished and position.byte >= self.sizes.get(position.number, 0):
            return Position(position.number + 1, 0)
        return position

    def lost(self, position: Position) -> str:
        """What is gone of what should be read from here on, in words; empty if nothing is."""
        if position.number < self.first:
            return f"file {position.number} was not read to its end, and the first that is there is {self.first}"
        last = max(self.finished + 1, *self.sizes)
        if position.number > last:
            return f"file {position.number} was read, and the last that is there is {last}"
        size = self.sizes.get(position.number, 0)
        if position.byte > size:
            return f"{position.byte} bytes of file {position.number} were read, and it has {size}"
        gone = [number for number in range(position.number, self.finished) if number not in self.sizes]
        return f"file {gone[0]} is gone" if gone else ""

    def resumed(self, position: Position) -> Position:
        """Where what is left begins, of what should be read from here on."""
        if not self.first <= position.number <= max(self.finished + 1, *self.sizes):
            return Position(self.first, 0)
        return Position(position.number, 0) if position.byte > self.sizes.get(position.number, 0) else position

    def bytes_between(self, start: Position, end: Position) -> int:
        within = [size for number, size in self.sizes.items() if start.number <= number < end.number]
        return max(sum(within) - start.byte + end.byte, 0)


def traces_in(directory: str) -> list[str]:
    """The traces of which there are files, by the names the files have."""
    return sorted({found["trace"] for found in _files(directory)})


def standing(directory: str, trace: str) -> Standing | None:
    """What there is of a trace; None if there is nothing."""
    for _ in range(ATTEMPTS):
        before = _last_finished(directory, trace)
        file = _being_written(directory, trace)
        whole = None
        if file is not None:
            with file:
                whole = _whole_bytes(file)
        last = _last_finished(directory, trace)
        if before == last:
            sizes = _sizes(directory, trace, _finished(directory, trace)) | ({} if whole is None else {last + 1: whole})
            return Standing(sizes, last) if sizes else None
    raise PipelineError(f"the files of trace {trace!r} in {directory} change faster than they can be listed")


def opened(directory: str, trace: str, number: int) -> BinaryIO | None:
    """A piece that has been there, whatever it is called by now; None if it is there no more."""
    for _ in range(ATTEMPTS):
        try:
            return open(f"{_path(directory, trace)}.{number}", "rb")
        except FileNotFoundError:
            pass
        file = _being_written(directory, trace)
        if file is not None and _last_finished(directory, trace) + 1 == number:
            return file
        if file is not None:
            file.close()
        if number not in _finished(directory, trace):
            return None
    return None


def line_end(file: BinaryIO, start: int, wanted: int, end: int) -> int:
    """Behind the last line that ends between `start` and `wanted`; if none does, behind the first from there on."""
    at = wanted
    while at > start:
        begin = max(at - BLOCK_BYTES, start)
        found = _read(file, begin, at - begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        at = begin
    at = wanted
    while at < end:
        block = _read(file, at, min(BLOCK_BYTES, end - at))
        found = block.find(b"\n")
        if found >= 0:
            return at + found + 1
        if not block:
            break
        at += len(block)
    return end


def _being_written(directory: str, trace: str) -> BinaryIO | None:
    try:
        return open(_path(directory, trace), "rb")
    except FileNotFoundError:
        return None


def _whole_bytes(file: BinaryIO) -> int:
    """How many bytes of a file that is being written are whole lines."""
    at = os.fstat(file.fileno()).st_size
    while at > 0:
        begin = max(at - BLOCK_BYTES, 0)
        found = _read(file, begin, at - begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        at = begin
    return 0


def _read(file: BinaryIO, at: int, size: int) -> bytes:
    return os.pread(file.fileno(), size, at)


def _sizes(directory: str, trace: str, numbers: list[int]) -> dict[int, int]:
    sizes: dict[int, int] = {}
    for number in sorted(numbers):
        try:
            sizes[number] = os.stat(f"{_path(directory, trace)}.{number}").st_size
        except FileNotFoundError:
            # deleted since it was listed
            sizes.clear()
    return sizes


def _finished(directory: str, trace: str) -> list[int]:
    return [int(found["number"]) for found in _files(directory) if found["trace"] == trace and found["number"]]


def _last_finished(directory: str, trace: str) -> int:
    """The number of the last finished piece, whether it is there or not; 0 if there was none."""
    return max([*_finished(directory, trace), _written_down(directory, trace)])


def _written_down(directory: str, trace: str) -> int:
    try:
        with open(os.path.join(directory, f".{trace}.log.last"), "rb") as file:
            return int(file.read())
    except (FileNotFoundError, ValueError):
        return 0


def _files(directory: str) -> Iterator[re.Match[str]]:
    try:
        names = os.listdir(directory)
    except OSError as error:
        raise PipelineError(f"there are no trace files in {directory}: {error.strerror}") from None
    return (found for name in names if (found := FILE.fullmatch(name)) is not None)


def _path(directory: str, trace: str) -> str:
    return os.path.join(directory, f"{trace}.log")
