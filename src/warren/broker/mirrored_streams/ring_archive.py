"""The archive of a mirrored stream, as the stream that its master has sees it.

Not here: who writes it (`broker.mirrored_streams.archivist`), what the others are told (`broker.mirrors.mirrored_log`).
"""

from typing import final

from mypy_extensions import i64

from warren.broker.mirrored_streams.stream_copy import StreamCopy
from warren.broker.mirrors.mirrored_log import MirroredLog
from warren.model.archive import Archive, ArchiveAsker, ArchiveWriter


@final
class RingArchive(Archive):
    """Stands between a master's stream and the copy that its node has."""

    def __init__(self, copy: StreamCopy, log: MirroredLog) -> None:
        self._copy: StreamCopy = copy
        self._log: MirroredLog = log

    def write(self, segment: i64, at: i64, data: bytes, writer: ArchiveWriter) -> None:
        self._copy.archivist.write(segment, at, data, writer)

    def read(self, segment: i64, at: i64, length: i64, asker: ArchiveAsker) -> None:
        self._copy.archive.read(segment, at, length, asker)

    def withdraw(self, asker: ArchiveAsker) -> None:
        self._copy.archive.withdraw(asker)

    def drop(self, segments: list[int]) -> None:
        """What was kept too long; the others are told up to where."""
        self._copy.archive.drop(segments)
        self._log.gone_to(self._copy.catalog.first_position() - 1)

    def close(self) -> None:
        """The copy keeps it."""
