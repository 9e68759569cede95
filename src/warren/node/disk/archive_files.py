"""The files of streams as they are found at a start.

::

    streams/ID/NNNNNNNNNNNN.chunks    a segment of the stream that was created by revision ID

Not here: what the bytes mean (`stream.recovery`), writing them (`node.disk.archive_writer`).
"""

import os
import re

from warren.model.archive import ArchiveFiles
from warren.node.disk.durable import flush_file, sync_directory

_SEGMENT = re.compile(r"(\d{12})\.chunks")
_STREAM = re.compile(r"\d{1,20}")


def stream_path(streams: str, stream_id: int) -> str:
    return os.path.join(streams, str(stream_id))


def segment_path(streams: str, stream_id: int, segment: int) -> str:
    return os.path.join(stream_path(streams, stream_id), f"{segment:012}.chunks")


class FoundArchives(ArchiveFiles):
    """The real files behind the port that recovery reads."""

    def __init__(self, streams: str) -> None:
        self._streams = streams

    def streams(self) -> list[int]:
        if not os.path.isdir(self._streams):
            return []
        # as `secure` does to what is in one of them
        sync_directory(self._streams)
        sync_directory(os.path.dirname(self._streams))
        return sorted(int(name) for name in os.listdir(self._streams) if _STREAM.fullmatch(name))

    def segments(self, stream_id: int) -> list[int]:
        path = stream_path(self._streams, stream_id)
        names = os.listdir(path) if os.path.isdir(path) else []
        return sorted(int(found[1]) for found in map(_SEGMENT.fullmatch, names) if found)

    def size(self, stream_id: int, segment: int) -> int:
        return os.path.getsize(segment_path(self._streams, stream_id, segment))

    def read(self, stream_id: int, segment: int, at: int, length: int) -> bytes:
        with open(segment_path(self._streams, stream_id, segment), "rb") as file:
            return os.pread(file.fileno(), length, at)

    def secure(self, stream_id: int, segment: int) -> None:
        path = segment_path(self._streams, stream_id, segment)
        with open(path, "rb") as file:
            flush_file(file.fileno(), path, os.fdatasync)
        sync_directory(os.path.dirname(path))
