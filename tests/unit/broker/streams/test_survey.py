"""The survey of a stream's files, and placeholder chunks."""

from pathlib import Path

from tests.unit.broker.streams.stage import message_of
from warren.broker.streams.archive_index import ArchiveIndex, recover_archive_index
from warren.broker.streams.chunk import Chunk, ChunkBuilder, ChunkHead
from warren.broker.streams.offsets import position_of
from warren.broker.streams.survey import StreamSurvey, placeholder_chunks
from warren.broker.streams.tail import CHUNK_MESSAGES
from warren.node.disk.archives import FoundArchives

STREAM_ID = 5
COUNT = 10


def chunk_from(offset: int, body: bytes = b"body") -> bytes:
    builder = ChunkBuilder()
    for number in range(offset, offset + COUNT):
        builder.add(position_of(1, number), 1_000 + number, message_of(body))
    return builder.finish()


def surveyed(folder: Path, *segments: bytes, rest: list[tuple[int, int]] | None = None) -> StreamSurvey:
    (folder / str(STREAM_ID)).mkdir(exist_ok=True)
    for number, data in enumerate(segments, 1):
        (folder / str(STREAM_ID) / f"{number:012}.chunks").write_bytes(data)
    return StreamSurvey(FoundArchives(str(folder)), STREAM_ID, rest or [])


def ranges(survey: StreamSurvey) -> list[tuple[int, int]]:
    return [(chunk.first, chunk.end) for chunk in survey.chunks()]


def spoilt(chunk: bytes, at: int) -> bytes:
    return chunk[:at] + bytes([chunk[at] ^ 0xFF]) + chunk[at + 1 :]


def test_chunks_are_found_with_their_offsets(tmp_path: Path) -> None:
    segments = (chunk_from(20) + chunk_from(30), chunk_from(40))
    survey = surveyed(tmp_path, *segments)
    assert ranges(survey) == [(20, 30), (30, 40), (40, 50)]
    assert [segment.tail() for segment in survey.segments] == ["clean", "clean"]
    assert survey.missing(60) == [(50, 60)]
    assert surveyed(tmp_path, *segments, rest=[(50, 53)]).missing(53) == []
    assert surveyed(tmp_path, *segments, rest=[(45, 53)]).missing(53) == []
    assert surveyed(tmp_path, *segments, rest=[(52, 53)]).missing(55) == [(50, 52), (53, 55)]


def test_the_next_chunk_behind_damage_is_found(tmp_path: Path) -> None:
    first = chunk_from(0)
    survey = surveyed(tmp_path, first + spoilt(chunk_from(10), 0) + spoilt(chunk_from(20), 80) + chunk_from(30), b"")
    assert ranges(survey) == [(0, 10), (30, 40)]
    assert survey.segments[0].tail() == f"damaged at byte {len(first)}"
    assert survey.missing(40) == [(10, 30)]


def test_a_chunk_in_a_message_is_not_taken_for_one_of_the_stream(tmp_path: Path) -> None:
    survey = surveyed(tmp_path, chunk_from(10) + spoilt(chunk_from(20, chunk_from(0)), 0) + chunk_from(30), b"")
    assert ranges(survey) == [(10, 20), (30, 40)]


def test_the_end_of_the_last_segment_may_have_been_under_way(tmp_path: Path) -> None:
    survey = surveyed(tmp_path, chunk_from(0), chunk_from(10) + chunk_from(20)[:100], rest=[(20, 30)])
    assert survey.segments[-1].tail() == f"torn at byte {len(chunk_from(10))}"
    assert ranges(survey) == [(0, 10), (10, 20)]
    assert survey.missing(30) == []


def test_the_only_chunk_of_a_stream_may_have_been_under_way(tmp_path: Path) -> None:
    survey = surveyed(tmp_path, chunk_from(0)[:100], rest=[(0, 30)])
    assert survey.segments[-1].tail() == "torn at byte 0"
    assert survey.missing(30) == []


def test_intact_chunks_behind_damage_count_unless_the_journal_has_the_messages(tmp_path: Path) -> None:
    chunks = [chunk_from(offset) for offset in range(0, 60, 10)]
    chunks[3] = spoilt(chunks[3], 80)
    survey = surveyed(tmp_path, b"".join(chunks))
    assert survey.segments[-1].tail() == f"damaged at byte {sum(map(len, chunks[:3]))}"
    assert ranges(survey) == [(0, 10), (10, 20), (20, 30), (40, 50), (50, 60)]
    assert survey.missing(60) == [(30, 40)]
    assert surveyed(tmp_path, b"".join(chunks), rest=[(60, 65)]).missing(65) == [(30, 40)]
    torn = surveyed(tmp_path, b"".join(chunks), rest=[(30, 65)])
    assert torn.segments[-1].tail() == f"torn at byte {sum(map(len, chunks[:3]))}"
    assert torn.missing(65) == []


def test_placeholder_chunks_continue_the_offsets(tmp_path: Path) -> None:
    count = int(CHUNK_MESSAGES) + 5
    pieces = placeholder_chunks(position_of(1, 10), count, 1_009, "log")
    assert [int(ChunkHead(piece).count) for piece in pieces] == [CHUNK_MESSAGES, 5]
    data = chunk_from(0) + b"".join(pieces) + chunk_from(10 + count)
    survey = surveyed(tmp_path, data)
    assert survey.missing(20 + count) == []
    catalog: ArchiveIndex = recover_archive_index(FoundArchives(str(tmp_path)), STREAM_ID, 1 << 30)
    assert (catalog.first(), catalog.end()) == (0, 20 + count)
    assert (Chunk(pieces[0]).routing_key(0), Chunk(pieces[0]).body(0)) == (b"log", b"")
