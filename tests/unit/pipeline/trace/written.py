"""Trace files as a node writes them, by the very code of a node: numbered lines, in pieces of a few lines each.

Not here: reading them.
"""

from functools import partial
from pathlib import Path

from warren.admin.tracing.files import TraceFile, TraceRotation


class Written:
    """A trace that is being written; `lines` is everything that was."""

    def __init__(self, directory: Path, name: str = "orders", piece_bytes: int = 40, pieces_max: int = 1000) -> None:
        rotation = TraceRotation(piece_bytes, pieces_max)
        self._open = partial(TraceFile, str(directory), f"{name}.log", b"{", rotation)
        self._file = self._open()
        self.lines: list[bytes] = []

    def append(self, count: int) -> None:
        numbers = range(len(self.lines), len(self.lines) + count)
        added = [b'{"n":%d}' % number for number in numbers]
        self._file.append(line + b"\n" for line in added)
        self.lines += added

    def append_octets(self, octets: bytes) -> None:
        self._file.append([octets])

    def restart(self) -> None:
        """As by a node that was stopped and started."""
        self._file.close()
        self._file = self._open()

    def close(self) -> None:
        self._file.close()
