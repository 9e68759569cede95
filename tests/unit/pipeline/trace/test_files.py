"""Trace files in micro-batches: every line once, while the trace goes on; without Spark."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from tests.unit.pipeline.trace.written import Written
from warren.pipeline.errors import PipelineError
from warren.pipeline.trace.files import Offsets, PieceSlice, TraceReader, TraceSelection

MUCH = 1 << 30
LIMIT = ReadAllAvailable()


def reader(directory: Path, max_bytes: int = MUCH, fail_on_data_loss: bool = True, traces: Any = ()) -> TraceReader:
    return TraceReader(TraceSelection(str(directory), traces, max_bytes, fail_on_data_loss))


def kept(offsets: Offsets) -> Offsets:
    """As Spark's checkpoint gives it back."""
    return json.loads(json.dumps(offsets))


def rows(source: TraceReader, start: Offsets, end: Offsets) -> list[tuple[str, int, int, bytes]]:
    found = []
    for each in source.partitions(start, end):
        for batch in source.read(each):
            found += [tuple(row.values()) for row in batch.to_pylist()]
    return found


def read_on(source: TraceReader, start: Offsets) -> tuple[list[bytes], Offsets]:
    end = kept(source.latestOffset(start, LIMIT))
    return [row[3] for row in rows(source, start, end)], end


def test_every_line_is_read_once_over_rotations_and_restarts(tmp_path: Path) -> None:
    written = Written(tmp_path)
    offsets: Offsets = reader(tmp_path).initialOffset()
    read: list[bytes] = []
    for count in (1, 0, 3, 17, 2, 40, 1):
        written.append(count)
        lines, offsets = read_on(reader(tmp_path), offsets)
        read += lines
    written.close()
    assert read == written.lines


def test_a_micro_batch_reads_the_same_again_when_files_were_put_aside_since(tmp_path: Path) -> None:
    written = Written(tmp_path)
    written.append(3)
    source = reader(tmp_path)
    end = kept(source.latestOffset({}, LIMIT))
    before = rows(source, {}, end)
    written.append(30)
    assert rows(reader(tmp_path), {}, end) == before
    lines, _ = read_on(reader(tmp_path), end)
    written.close()
    assert [row[3] for row in before] + lines == written.lines


def test_a_limit_cuts_between_lines_and_loses_none(tmp_path: Path) -> None:
    written = Written(tmp_path, piece_bytes=100)
    written.append(100)
    written.close()
    source, offsets, read, batches = reader(tmp_path, max_bytes=37), {}, [], 0
    while True:
        lines, end = read_on(source, offsets)
        if end == offsets:
            break
        assert 0 < sum(map(len, lines)) <= 100
        read, offsets, batches = read + lines, end, batches + 1
    assert read == written.lines
    assert batches > 10


def test_traces_share_a_limit_and_stay_separate(tmp_path: Path) -> None:
    one, two = Written(tmp_path, "one"), Written(tmp_path, "two")
    one.append(30)
    two.append(3)
    source = reader(tmp_path, max_bytes=60)
    end = kept(source.latestOffset({}, LIMIT))
    first = rows(source, {}, end)
    assert [row[3] for row in first if row[0] == "two"] == two.lines
    assert {row[0] for row in first} == {"one", "two"}
    assert len({(row[0], row[1], row[2]) for row in first}) == len(first)
    only = reader(tmp_path, traces=("two",))
    assert [row[0] for row in rows(only, {}, only.latestOffset({}, LIMIT))] == ["two"] * 3
    one.close()
    two.close()


def test_where_a_line_stands_is_where_it_is_in_its_file(tmp_path: Path) -> None:
    written = Written(tmp_path)
    written.append(20)
    written.close()
    source = reader(tmp_path)
    for trace, number, byte, line in rows(source, {}, source.latestOffset({}, LIMIT)):
        finished = tmp_path / f"{trace}.log.{number}"
        octets = (finished if finished.exists() else tmp_path / f"{trace}.log").read_bytes()
        assert octets[byte : byte + len(line) + 1] == line + b"\n"


def test_nothing_more_is_no_batch(tmp_path: Path) -> None:
    written = Written(tmp_path)
    source = reader(tmp_path)
    assert source.latestOffset({}, LIMIT) == {}
    written.append(5)
    end = kept(source.latestOffset({}, LIMIT))
    assert source.latestOffset(end, LIMIT) == end
    written.append_octets(b'{"n":')
    assert source.latestOffset(end, LIMIT) == end
    written.close()


def test_a_read_ends_at_the_end_of_the_files_when_it_began(tmp_path: Path) -> None:
    written = Written(tmp_path)
    written.append(5)
    source = reader(tmp_path)
    source.prepareForTriggerAvailableNow()
    written.append(20)
    later = Written(tmp_path, "later")
    later.append(1)
    lines, end = read_on(source, {})
    assert lines == written.lines[:5]
    assert read_on(source, end) == ([], end)
    written.close()
    later.close()


def test_a_line_without_an_end_is_one_when_its_file_is_finished(tmp_path: Path) -> None:
    (tmp_path / "orders.log.1").write_bytes(b'{"n":0}\n{"n":')
    (tmp_path / "orders.log").write_bytes(b'{"n":2}\n{"n":')
    assert read_on(reader(tmp_path), {})[0] == [b'{"n":0}', b'{"n":', b'{"n":2}']


def test_long_lines_and_empty_ones_are_lines(tmp_path: Path) -> None:
    long = b"x" * (5 * 1024 * 1024)
    (tmp_path / "orders.log").write_bytes(b"\n" + long + b"\n\n{}\n")
    source = reader(tmp_path)
    found = rows(source, {}, source.latestOffset({}, LIMIT))
    assert [(row[2], row[3]) for row in found] == [(0, b""), (1, long), (len(long) + 2, b""), (len(long) + 3, b"{}")]


def test_files_that_are_gone_before_they_were_read_are_an_error_or_passed_over(tmp_path: Path) -> None:
    written = Written(tmp_path, pieces_max=2)
    written.append(3)
    _, offsets = read_on(reader(tmp_path), {})
    written.append(60)
    with pytest.raises(
        PipelineError, match=r"trace 'orders' in .* cannot be read on: file 1 was not read to its end, and"
    ):
        read_on(reader(tmp_path), offsets)
    lines, end = read_on(reader(tmp_path, fail_on_data_loss=False), offsets)
    assert lines == written.lines[-len(lines) :]
    written.append(1)
    assert read_on(reader(tmp_path), end)[0] == written.lines[-1:]
    written.close()


@pytest.mark.parametrize("fail_on_data_loss", [True, False])
def test_finished_files_that_were_read_may_be_deleted(tmp_path: Path, fail_on_data_loss: bool) -> None:
    written = Written(tmp_path)
    offsets: Offsets = {}
    read: list[bytes] = []
    places: list[tuple[int, int]] = []
    for count in (13, 1, 20, 1, 7):
        written.append(count)
        source = reader(tmp_path, fail_on_data_loss=fail_on_data_loss)
        end = kept(source.latestOffset(offsets, LIMIT))
        found = rows(source, offsets, end)
        read += [row[3] for row in found]
        places += [(row[1], row[2]) for row in found]
        offsets = end
        for finished in tmp_path.glob("orders.log.*"):
            finished.unlink()
        written.restart()
    written.close()
    assert read == written.lines
    assert len(set(places)) == len(places)


def test_finished_files_that_were_not_read_are_missed(tmp_path: Path) -> None:
    written = Written(tmp_path)
    written.append(3)
    _, offsets = read_on(reader(tmp_path), {})
    written.append(20)
    written.close()
    for finished in tmp_path.glob("orders.log.*"):
        finished.unlink()
    with pytest.raises(PipelineError, match=r"file 1 was not read to its end, and the first that is there is"):
        read_on(reader(tmp_path), offsets)


def test_a_file_that_is_gone_when_a_task_comes_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "orders.log").touch()
    with pytest.raises(PipelineError, match="cannot be read on: file 7 is gone"):
        list(reader(tmp_path).read(PieceSlice("orders", 7, 0, 10)))


def test_a_trace_that_was_deleted_and_begun_anew_is_noticed(tmp_path: Path) -> None:
    written = Written(tmp_path, piece_bytes=1000)
    written.append(10)
    _, offsets = read_on(reader(tmp_path), {})
    (tmp_path / "orders.log").unlink()
    written.append(2)
    with pytest.raises(PipelineError, match="80 bytes of file 1 were read, and it has"):
        read_on(reader(tmp_path), offsets)
    assert read_on(reader(tmp_path, fail_on_data_loss=False), offsets)[0] == written.lines[-2:]
    written.append(20)
    with pytest.raises(PipelineError, match="byte 80 of file 1 is no beginning of a line any more"):
        read_on(reader(tmp_path), offsets)
    written.close()


def test_a_trace_in_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "orders.log").write_bytes(b"=" * 80 + b"\n2026-11-15 9:51:50:014: Message published\n")
    with pytest.raises(PipelineError, match="trace 'orders' is written as text, for people; start it with format json"):
        read_on(reader(tmp_path), {})
