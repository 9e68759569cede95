"""The streams of a data directory that no node uses: their files, the journal's part, the gaps, and salvage.

Salvage keeps every intact chunk, and puts placeholders in place of missing ones. A file with damage, or behind a gap,
is rewritten beside itself; then the old one is kept elsewhere and the new one takes its place. Placeholders stand
before the chunk that follows a gap, or at the end. For a missing beginning one placeholder is enough: a stream may
begin anywhere.

A gap between two messages of the journal cannot be repaired: the stream stays stopped.

Not here: the files chunk by chunk and placeholders (`broker.streams.survey`), the journal
(`node.disk.offline_directory`).
"""

import os
from collections.abc import Iterator

from warren.broker.journal.journal import Journal
from warren.broker.journal.queue_index import QueueIndex
from warren.broker.model.replica_set import POSITION_BITS
from warren.broker.streams.offsets import offset_of, position_of
from warren.broker.streams.survey import ArchiveSurvey, ChunkPlace, StreamSurvey, placeholder_chunks
from warren.errors import StoreError
from warren.node.disk import file_names
from warren.node.disk.archives import FoundArchives, segment_path
from warren.node.disk.file_io import (
    DIRECTORY_MODE,
    FILE_MODE,
    flush_file,
    os_error_text,
    sync_directory,
    write_all,
)
from warren.node.disk.file_names import STREAMS, UNFINISHED_SUFFIX
from warren.node.disk.offline_directory import MessageOwner, OfflineDirectory


class OfflineStream:
    """One stream; `owner` is None if the metadata does not know the files."""

    def __init__(self, stream_id: int, owner: MessageOwner | None, survey: StreamSurvey) -> None:
        self.stream_id = stream_id
        self.owner = owner
        self.survey = survey
        # the journal's ranges, in order: the first offset, and the one after the last
        self.rest: list[tuple[int, int]] = []
        # the same for ranges that are neither in the journal nor in files
        self.missing: list[tuple[int, int]] = []
        # the epoch of its positions
        self.epoch: int = 0

    def fillable(self) -> list[tuple[int, int]]:
        """The gaps before the journal's first message: placeholders in files can fill them."""
        begins = self.rest[0][0] if self.rest else None
        return [(first, behind) for first, behind in self.missing if begins is None or behind <= begins]

    def sound(self) -> bool:
        return not self.missing and not any(segment.damaged_at for segment in self.survey.segments)

    def describe(self) -> str:
        if self.owner is None:
            return f"stream number {self.stream_id}"
        return f"stream '{self.owner.name}' in vhost '{self.owner.vhost}'"

    def faults(self) -> list[str]:
        """Its faults, in sentences."""
        who = self.describe()
        damaged = [segment for segment in self.survey.segments if segment.damaged_at]
        faults = [f"segment {segment.number} of {who} is {segment.tail()}" for segment in damaged]
        for first, behind in self.missing:
            verb = "is" if behind == first + 1 else "are"
            faults.append(f"{offsets_in_words(first, behind)} of {who} {verb} missing")
        return faults


def offsets_in_words(first: int, behind: int) -> str:
    return f"offset {first}" if behind == first + 1 else f"offsets {first} to {behind - 1}"


def live_offset_ranges(queue_index: QueueIndex) -> list[tuple[int, int]]:
    """The journal's ranges of a stream: the first offset, and the one after the last, in order."""
    ranges: list[tuple[int, int]] = []
    removed = queue_index.removed_at(0)
    for positions in queue_index.position_ranges():
        for position in range(int(positions.first), int(positions.last) + 1):
            if removed.has(position):
                continue
            offset = int(offset_of(position))
            if ranges and ranges[-1][1] == offset:
                ranges[-1] = (ranges[-1][0], offset + 1)
            else:
                ranges.append((offset, offset + 1))
    return ranges


def offline_streams(offline: OfflineDirectory, journal: Journal) -> list[OfflineStream]:
    """All streams that have files, or that the metadata knows."""
    files = FoundArchives(os.path.join(offline.path, file_names.STREAMS))
    known = [queue_id for queue_id, owner in offline.owners.items() if owner.kind == "stream"]
    found: list[OfflineStream] = []
    for stream_id in sorted({*files.streams(), *known}):
        owner = offline.owners.get(stream_id)
        if owner is None:
            found.append(OfflineStream(stream_id, None, StreamSurvey(files, stream_id, [])))
            continue
        queue_index = journal.queue_indexes[stream_id]
        rest = live_offset_ranges(queue_index)
        stream = OfflineStream(stream_id, owner, StreamSurvey(files, stream_id, rest))
        stream.rest = rest
        stream.epoch = int(queue_index.next_position) >> POSITION_BITS
        stream.missing = stream.survey.missing(int(offset_of(queue_index.next_position)))
        found.append(stream)
    return found


class StreamSalvage:
    """One stream's files, and where the old ones are kept."""

    def __init__(self, directory: str, kept: str, stream: OfflineStream) -> None:
        assert stream.owner is not None, "the metadata knows the stream"
        self._streams = os.path.join(directory, STREAMS)
        self._kept = os.path.join(kept, STREAMS, str(stream.stream_id))
        self._stream = stream
        self._name = stream.owner.name
        # by the offset after the gap
        self._gaps = {behind: first for first, behind in stream.fillable()}
        firsts = {chunk.first for chunk in stream.survey.chunks()}
        # gaps that no chunk follows
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
            # how many offsets were before it is unknown
            return placeholder_chunks(position_of(self._stream.epoch, behind - 1), 1, 0, self._name)
        position = position_of(before.last_position >> POSITION_BITS, first)
        return placeholder_chunks(position, behind - first, before.last_ms, self._name)

    def _path(self, segment: int) -> str:
        return segment_path(self._streams, self._stream.stream_id, segment)

    def _replace(self, segment: int, pieces: Iterator[bytes]) -> None:
        path, unfinished = self._path(segment), self._path(segment) + UNFINISHED_SUFFIX
        os.makedirs(os.path.dirname(path), DIRECTORY_MODE, exist_ok=True)
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
            os.makedirs(self._kept, DIRECTORY_MODE, exist_ok=True)
            os.replace(path, os.path.join(self._kept, os.path.basename(path)))
            sync_directory(self._kept)
        if at > 0:
            os.replace(unfinished, path)
        else:
            os.unlink(unfinished)
        sync_directory(os.path.dirname(path))
        sync_directory(self._streams)


def salvage_streams(directory: str, kept: str, streams: list[OfflineStream]) -> None:
    """All faulty streams that the metadata knows."""
    try:
        for stream in streams:
            if stream.owner is not None and not stream.sound():
                StreamSalvage(directory, kept, stream).run()
    except OSError as error:
        raise StoreError(f"the files of a stream cannot be salvaged: {os_error_text(error)}") from error
