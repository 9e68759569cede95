"""What one connection has written in a turn.

Most of it is small and gathers in one buffer. Something large is not copied into that: it leaves by itself, as it is,
between what was written before it and what comes behind.

Not here: when it leaves (`session.connection`), what must wait for the disk (`session.gate`).
"""

from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

APART_BYTES: Final[i64] = 262_144
"""What is as large as this is large."""


@final
class Output:
    """Bytes in their order."""

    def __init__(self) -> None:
        self.writer: BytesWriter = BytesWriter()
        self._pieces: list[bytes] = []
        self._pieces_bytes: i64 = 0

    def size(self) -> i64:
        return self._pieces_bytes + len(self.writer)

    def add_apart(self, data: bytes) -> None:
        """Something large."""
        self._pieces.append(self.writer.getvalue())
        self._pieces.append(data)
        self._pieces_bytes += len(self.writer) + len(data)
        self.writer = BytesWriter()

    def take(self) -> list[bytes]:
        """All of it, at least one piece; nothing is left."""
        pieces, self._pieces = self._pieces, []
        self._pieces_bytes = 0
        pieces.append(self.writer.getvalue())
        if len(self.writer) > 0:
            self.writer = BytesWriter()
        return pieces
