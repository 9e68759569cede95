"""What of a stream's archive is there after a restart.

Chunks are found by their heads, from one to the next. Those that were written last may not be whole, if the node ended
meanwhile: the next one is written in their place, and the journal has what they were made of. Anything else that is not
as it should be is damage.

Not here: the journal's part (`stream.stream`).
"""

from typing import Final

from mypy_extensions import i64

from warren.errors import StoreError
from warren.model.archive import ArchiveFiles
from warren.stream.catalog import Catalog
from warren.stream.chunk import HEADER_BYTES, Chunk, ChunkHead

HEAD_BYTES: Final = 64
assert HEAD_BYTES == HEADER_BYTES

CHUNKS_AT_ONCE_MAX: Final = 4
"""How many are written together. Of these any may not be whole if the node ended before they were flushed."""


def found_catalog(files: ArchiveFiles, stream_id: int, segment_bytes: i64) -> Catalog:
    """All chunks of a stream; a `StoreError` if one is missing."""
    catalog = Catalog(segment_bytes)
    segments = files.segments(stream_id)
    if segments:
        # what is found is forgotten in the journal, so it must not be lost with the next loss of power
        files.secure(stream_id, segments[-1])
    for segment in segments:
        _find_chunks(files, stream_id, segment, segment == segments[-1], catalog)
    return catalog


def _find_chunks(files: ArchiveFiles, stream_id: int, segment: int, last: bool, catalog: Catalog) -> None:
    size = files.size(stream_id, segment)
    heads: list[tuple[int, ChunkHead]] = []
    at, fault = 0, ""
    while at < size and not fault:
        try:
            head = ChunkHead(files.read(stream_id, segment, at, HEAD_BYTES))
            if at + int(head.length) > size:
                raise StoreError("a chunk is cut short")
            heads.append((at, head))
            at += int(head.length)
        except StoreError as error:
            fault = str(error)
    if fault and not last:
        raise StoreError(f"{fault}: segment {segment} of the stream at byte {at}")
    if last:
        whole = _whole_count(files, stream_id, segment, heads)
        if whole < len(heads):
            fault, at = "not whole", heads[whole][0]
            heads = heads[:whole]
    for start, found in heads:
        catalog.add(segment, start, found)
    if fault:
        catalog.torn = (segment, at)


def _whole_count(files: ArchiveFiles, stream_id: int, segment: int, heads: list[tuple[int, ChunkHead]]) -> int:
    """How many chunks there are before the first that is not whole; only the last few can be like that."""
    first = max(0, len(heads) - CHUNKS_AT_ONCE_MAX)
    for index, (at, head) in enumerate(heads[first:], first):
        try:
            Chunk(files.read(stream_id, segment, at, int(head.length)))
        except StoreError:
            return index
    return len(heads)
