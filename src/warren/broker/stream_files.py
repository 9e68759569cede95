"""The files of a node's streams: what each stream finds of its own when it is made, and what belongs to none.

Not here: what is in them (`stream`), orders about them (`store.archives`).
"""

from typing import final

from mypy_extensions import i64

from warren.errors import StoreError
from warren.model.archive import Archive, ArchiveFiles
from warren.model.ports import QueueLog
from warren.model.turn import Turn
from warren.store.archives import Archives
from warren.stream.catalog import Catalog
from warren.stream.recovery import found_catalog
from warren.stream.unkept import UnkeptArchive, UnkeptLog


@final
class FoundStream:
    """What was found of one stream, and why it cannot be used; empty if it can."""

    def __init__(self, catalog: Catalog, damage: str = "") -> None:
        self.catalog: Catalog = catalog
        self.damage: str = damage


@final
class StreamFiles:
    """All of a node's. Without a disk streams are in memory alone."""

    def __init__(self, turn: Turn, kept: bool, files: ArchiveFiles | None) -> None:
        self.archives: Archives = Archives(turn)
        self._kept: bool = kept
        self._files: ArchiveFiles | None = files
        # streams that have files and that nobody has asked for
        self._unclaimed: dict[int, None] = {}
        if files is not None:
            self._unclaimed = dict.fromkeys(files.streams())

    def found(self, queue_id: int, segment_bytes: i64) -> FoundStream:
        """What there is of a stream that was there before the node started; nothing of one that is new."""
        if self._files is None or queue_id not in self._unclaimed:
            return FoundStream(Catalog(segment_bytes))
        del self._unclaimed[queue_id]
        try:
            return FoundStream(found_catalog(self._files, queue_id, segment_bytes))
        except StoreError as fault:
            return FoundStream(Catalog(segment_bytes), str(fault))

    def archive(self, queue_id: int) -> Archive:
        return self.archives.open(queue_id) if self._kept else UnkeptArchive()

    def log_or_none(self, log: QueueLog | None) -> QueueLog:
        """A stream needs one, if only to tell it what it will not need again."""
        return UnkeptLog() if log is None else log

    def drop(self, queue_id: int) -> None:
        """A stream is not held here any more: delete what was found of it, if nobody has asked for that."""
        if queue_id in self._unclaimed:
            del self._unclaimed[queue_id]
            self.archives.open(queue_id).close()

    def drop_unclaimed(self, known: list[int]) -> None:
        """Delete the files of streams that are gone: all but those of queues that somebody knows."""
        for queue_id in sorted(set(self._unclaimed).difference(known)):
            del self._unclaimed[queue_id]
            self.archives.open(queue_id).close()
