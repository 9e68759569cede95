"""The seam between a stream and its own files.

Not here: the journal, which has what is in no file of a stream yet (`broker.model.ports.QueueLog`).
"""

from abc import abstractmethod

from mypy_extensions import i64, mypyc_attr, trait


@trait
class ArchiveReadWaiter:
    """Whoever reads from an archive."""

    @abstractmethod
    def archive_read(self, data: bytes, error: str) -> None:
        """What was asked for; or nothing, and why."""


@trait
class ArchiveWriteWaiter:
    """Whoever writes to an archive."""

    @abstractmethod
    def archive_written(self) -> None:
        """What was written is on disk."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Archive:
    """One stream's files: *segments*, which are numbered and only ever grow or go."""

    @abstractmethod
    def write(self, segment: i64, at: i64, data: bytes, writer: ArchiveWriteWaiter) -> None:
        """Put this into a segment, which ends with it; at 0 a new one begins."""

    @abstractmethod
    def read(self, segment: i64, at: i64, length: i64, asker: ArchiveReadWaiter) -> None:
        """Answered in this turn or later; a segment that was dropped meanwhile is still read."""

    @abstractmethod
    def withdraw(self, asker: ArchiveReadWaiter) -> None:
        """What it asked for is wanted no more."""

    @abstractmethod
    def drop(self, segments: list[int]) -> None: ...

    @abstractmethod
    def close(self) -> None:
        """The stream is gone, with all it had."""


@mypyc_attr(allow_interpreted_subclasses=True)
class ArchiveFiles:
    """The files of all streams as they are found at a start, before anything is written."""

    @abstractmethod
    def streams(self) -> list[int]:
        """The streams that have files."""

    @abstractmethod
    def segments(self, stream_id: int) -> list[int]:
        """Which segments of a stream there are, in order."""

    @abstractmethod
    def size(self, stream_id: int, segment: int) -> int: ...

    @abstractmethod
    def read(self, stream_id: int, segment: int, at: int, length: int) -> bytes:
        """A piece of one; shorter if the segment ends before."""

    @abstractmethod
    def secure(self, stream_id: int, segment: int) -> None:
        """Flush what is there of a segment: a process that was killed may have written it, and no more than that."""
