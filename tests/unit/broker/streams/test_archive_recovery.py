"""The chunks of an archive after a crash."""

from pathlib import Path

import pytest

from tests.unit.broker.streams.test_chunk import chunk_of
from warren.broker.streams.archive_index import ArchiveIndex, recover_archive_index
from warren.broker.streams.chunk import ChunkHead
from warren.errors import StoreError
from warren.node.disk import archives
from warren.node.disk.archives import FoundArchives, segment_path

CHUNKS = [chunk_of([b"body"] * 3, ["key"] * 3, first) for first in (1, 4, 7, 10)]


def written(path: Path, *segments: bytes) -> FoundArchives:
    (path / "5").mkdir()
    for number, data in enumerate(segments, 1):
        Path(segment_path(str(path), 5, number)).write_bytes(data)
    return FoundArchives(str(path))


def found(files: FoundArchives) -> ArchiveIndex:
    return recover_archive_index(files, 5, 1_000_000)


def test_all_chunks_are_found(tmp_path: Path) -> None:
    files = written(tmp_path, CHUNKS[0] + CHUNKS[1], CHUNKS[2] + CHUNKS[3])
    catalog = found(files)
    assert (catalog.first(), catalog.end(), files.streams()) == (0, 12, [5])
    kept = catalog.with_offset(8)
    assert kept is not None
    assert (kept.segment, kept.at, kept.first) == (2, 0, 6)


@pytest.mark.parametrize("missing", [1, 8, 64, 100])
def test_an_incomplete_last_chunk_is_overwritten(tmp_path: Path, missing: int) -> None:
    catalog = found(written(tmp_path, CHUNKS[0] + CHUNKS[1][:-missing]))
    assert catalog.end() == 3
    assert catalog.place() == (1, len(CHUNKS[0]))


def test_the_only_chunk_of_a_segment_is_overwritten_if_it_is_incomplete(tmp_path: Path) -> None:
    torn = CHUNKS[1][:100] + bytes(len(CHUNKS[1]) - 100)
    catalog = found(written(tmp_path, CHUNKS[0], torn))
    assert catalog.end() == 3
    assert catalog.place() == (2, 0)
    catalog.add(2, 0, ChunkHead(CHUNKS[1]))
    assert catalog.place() == (2, len(CHUNKS[1]))


def test_any_of_the_last_written_chunks_may_be_incomplete(tmp_path: Path) -> None:
    for hurt in range(4):
        directory = tmp_path / str(hurt)
        directory.mkdir()
        chunks = [*CHUNKS[:hurt], CHUNKS[hurt][:100] + bytes(len(CHUNKS[hurt]) - 100), *CHUNKS[hurt + 1 :]]
        catalog = found(written(directory, b"".join(chunks)))
        assert (catalog.end(), catalog.place()) == (3 * hurt, (1, sum(map(len, CHUNKS[:hurt]))))


def test_recovered_chunks_are_flushed_before_they_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[str] = []
    monkeypatch.setattr(archives, "flush_file", lambda descriptor, path, flush: flushed.append(path))
    monkeypatch.setattr(archives, "sync_directory", flushed.append)
    found(written(tmp_path, CHUNKS[0], CHUNKS[1]))
    assert flushed == [segment_path(str(tmp_path), 5, 2), str(tmp_path / "5")]


def test_damage_before_the_end_is_reported(tmp_path: Path) -> None:
    files = written(tmp_path, CHUNKS[0][:8] + bytes(200), CHUNKS[1])
    with pytest.raises(StoreError, match="segment 1 of the stream at byte 0"):
        found(files)


def test_a_missing_segment_is_reported(tmp_path: Path) -> None:
    files = written(tmp_path, CHUNKS[0], CHUNKS[1], CHUNKS[2])
    Path(segment_path(str(tmp_path), 5, 2)).unlink()
    with pytest.raises(StoreError, match="offset 3 is missing: a chunk begins with 6"):
        found(files)


def test_a_stream_without_files_is_empty(tmp_path: Path) -> None:
    assert found(FoundArchives(str(tmp_path / "nowhere"))).empty()
