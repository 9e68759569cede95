"""The port between a stream and its archive files.

Not here: the journal, which has the messages that are in no archive file yet (`broker.model.ports.QueueLog`).
"""

from abc import abstractmethod

from mypy_extensions import i64, mypyc_attr, trait


@trait
class ArchiveReadWaiter:
    """Waits for a read from an archive."""

    @abstractmethod
    def archive_read(self, data: bytes, error: str) -> None:
        """The requested bytes; or none, and the error."""


@trait
class ArchiveWriteWaiter:
    """Waits for a write to an archive."""

    @abstractmethod
    def archive_written(self) -> None:
        """The write is flushed."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Archive:
    """One stream's files: numbered *segments*, which are appended to or deleted, and never rewritten."""

    @abstractmethod
    def write(self, segment: i64, at: i64, data: bytes, waiter: ArchiveWriteWaiter) -> None:
        """Write to a segment, and truncate it after the data; at offset 0 a new segment begins."""

    @abstractmethod
    def read(self, segment: i64, at: i64, length: i64, waiter: ArchiveReadWaiter) -> None:
        """Read a piece; the waiter is called in this turn or later, even if the segment is dropped meanwhile."""

    @abstractmethod
    def withdraw(self, waiter: ArchiveReadWaiter) -> None:
        """Cancel the reads of this waiter."""

    @abstractmethod
    def drop(self, segments: list[int]) -> None: ...

    @abstractmethod
    def close(self) -> None:
        """The stream was deleted: remove all its files."""


@mypyc_attr(allow_interpreted_subclasses=True)
class ArchiveFiles:
    """The files of all streams at the start of a node, before anything is written."""

    @abstractmethod
    def streams(self) -> list[int]:
        """The streams that have files."""

    @abstractmethod
    def segments(self, stream_id: int) -> list[int]:
        """The segments of a stream, in order."""

    @abstractmethod
    def size(self, stream_id: int, segment: int) -> int: ...

    @abstractmethod
    def read(self, stream_id: int, segment: int, at: int, length: int) -> bytes:
        """A piece of a segment; shorter if the segment ends before."""

    @abstractmethod
    def secure(self, stream_id: int, segment: int) -> None:
        """Flush a segment: a process that was killed may have written it without a flush."""
