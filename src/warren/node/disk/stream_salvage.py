"""Puts the files of a stream in order again: whatever is whole stays, and stopgaps take the place of what is missing.

A file that has damage in it, or stands behind a gap, is written anew beside itself; then it is kept elsewhere, and the
new one takes its place. Stopgaps stand before the chunk that follows a gap, or at the end. Where nothing is left of
what came first, one stopgap is enough: a stream may begin anywhere.

What the journal lacks between two of its own messages is beyond this: the stream stays stopped.

Not here: what is missing (`node.disk.offline_streams`), stopgaps (`stream.stopgap`).
"""

import os
from collections.abc import Iterator

from warren.errors import StoreError
from warren.model.rings import POSITION_BITS
from warren.node.disk.archive_files import segment_path
from warren.node.disk.durable import flush_file, reason_of, sync_directory, write_all
from warren.node.disk.names import STREAMS, UNFINISHED_SUFFIX
from warren.node.disk.offline_streams import FoundStream
from warren.stream.offsets import position_of
from warren.stream.stopgap import stopgaps
from warren.stream.survey import ArchiveSurvey, ChunkPlace

FILE_MODE = 0o640


class StreamSalvage:
    """One stream's files, and where what they were is kept."""

    def __init__(self, directory: str, kept: str, stream: FoundStream) -> None:
        assert stream.owner is not None, "somebody knows what should be there"
        self._streams = os.path.join(directory, STREAMS)
        self._kept = os.path.join(kept, STREAMS, str(stream.stream_id))
        self._stream = stream
        self._name = stream.owner.name
        # by the offset behind it
        self._gaps = {behind: first for first, behind in stream.fillable()}
        firsts = {chunk.first for chunk in stream.survey.chunks()}
        # those that no chunk follows
        self._last_gaps = sorted(set(self._gaps) - firsts)
        self._before: ChunkPlace | None = None

    def run(self) -> None:
        segments = self._stream.survey.segments
        for segment in segments:
            is_last = segment is segments[-1]
            gaps = any(chunk.first in self._gaps for chunk in segment.chunks) or (is_last and self._last_gaps)
            if segment.damaged_at or gaps:
                self._replace(segment.number, self._pieces(segment, is_last))
            elif segment.chunks:
                self._before = segment.chunks[-1]
        if not segments:
            self._replace(1, self._last_stopgaps())

    def _pieces(self, segment: ArchiveSurvey, is_last: bool) -> Iterator[bytes]:
        with open(self._path(segment.number), "rb") as file:
            for chunk in segment.chunks:
                yield from self._stopgaps_before(chunk.first)
                yield os.pread(file.fileno(), chunk.length, chunk.at)
                self._before = chunk
        if is_last:
            yield from self._last_stopgaps()

    def _last_stopgaps(self) -> Iterator[bytes]:
        for behind in self._last_gaps:
            yield from self._stopgaps_before(behind)

    def _stopgaps_before(self, behind: int) -> list[bytes]:
        first = self._gaps.get(behind)
        if first is None:
            return []
        before = self._before
        if before is None:
            # what there was before that is not known either
            return stopgaps(position_of(self._stream.epoch, behind - 1), 1, 0, self._name)
        position = position_of(before.last_position >> POSITION_BITS, first)
        return stopgaps(position, behind - first, before.last_ms, self._name)

    def _path(self, segment: int) -> str:
        return segment_path(self._streams, self._stream.stream_id, segment)

    def _replace(self, segment: int, pieces: Iterator[bytes]) -> None:
        path, unfinished = self._path(segment), self._path(segment) + UNFINISHED_SUFFIX
        os.makedirs(os.path.dirname(path), 0o750, exist_ok=True)
        at = 0
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
        try:
            for piece in pieces:
                write_all(descriptor, piece, at)
                at += len(piece)
            flush_file(descriptor, unfinished, os.fdatasync)
        finally:
            os.close(descriptor)
        if os.path.exists(path):
            os.makedirs(self._kept, 0o750, exist_ok=True)
            os.replace(path, os.path.join(self._kept, os.path.basename(path)))
            sync_directory(self._kept)
        if at > 0:
            os.replace(unfinished, path)
        else:
            os.unlink(unfinished)
        sync_directory(os.path.dirname(path))
        sync_directory(self._streams)


def salvage_streams(directory: str, kept: str, streams: list[FoundStream]) -> None:
    """All that are not sound and that somebody knows."""
    try:
        for stream in streams:
            if stream.owner is not None and not stream.sound():
                StreamSalvage(directory, kept, stream).run()
    except OSError as error:
        raise StoreError(f"the files of a stream cannot be salvaged: {reason_of(error)}") from error
