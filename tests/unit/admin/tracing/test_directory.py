"""Which trace files are visible over HTTP, and their names."""

import asyncio
from pathlib import Path

import pytest

from warren.admin.tracing.files import CHUNK_BYTES, TraceDirectory, TraceFileFacts, file_name, is_trace_file


async def content(directory: TraceDirectory, name: str, tail_bytes: int | None = None) -> list[bytes]:
    opened = directory.opened(name, tail_bytes)
    assert opened is not None
    chunks = [chunk async for chunk in opened.chunks()]
    assert sum(len(chunk) for chunk in chunks) == opened.size_bytes
    return chunks


@pytest.mark.parametrize(
    ("trace", "file"),
    [
        ("t1", "t1.log"),
        ("ä b", "ä b.log"),
        ("a/b", "a%2Fb.log"),
        ("a%2Fb", "a%252Fb.log"),
        ("..", "%2E..log"),
        (".hidden", "%2Ehidden.log"),
        ("a\nb\\", "a%0Ab%5C.log"),
    ],
)
def test_a_trace_has_a_file_of_its_own_that_can_be_asked_for(trace: str, file: str) -> None:
    assert file_name(trace) == file
    assert is_trace_file(file)


@pytest.mark.parametrize("trace", ["", "a" * 237, "é" * 119])
def test_a_name_that_is_none_or_too_long_is_refused(trace: str) -> None:
    with pytest.raises(ValueError):
        file_name(trace)


@pytest.mark.parametrize("name", ["..", "../x.log", "a/b.log", ".x.log", "x", "x.log.0", "x.log.", "x.log\0", ""])
def test_other_names_are_not_looked_for(name: str, tmp_path: Path) -> None:
    directory = TraceDirectory(str(tmp_path / "traces"))
    (tmp_path / "traces").mkdir()
    (tmp_path / "x.log").write_bytes(b"secret")
    assert not is_trace_file(name)
    assert directory.opened(name, None) is None
    assert not directory.delete(name)


def test_only_plain_files_of_traces_are_there(tmp_path: Path) -> None:
    (tmp_path / "t.log").write_bytes(b"12345")
    (tmp_path / "t.log.1").write_bytes(b"1")
    (tmp_path / "notes.txt").write_bytes(b"1")
    (tmp_path / "d.log").mkdir()
    (tmp_path / "link.log").symlink_to("notes.txt")
    directory = TraceDirectory(str(tmp_path))
    assert directory.listed() == [TraceFileFacts("t.log", 5), TraceFileFacts("t.log.1", 1)]
    for name in ("d.log", "link.log"):
        assert directory.opened(name, None) is None
        assert not directory.delete(name)
    assert TraceDirectory(str(tmp_path / "missing")).listed() == []
    assert directory.delete("t.log")
    assert not directory.delete("t.log")


def test_a_file_is_streamed_as_long_as_it_was_when_it_was_opened(tmp_path: Path) -> None:
    text = b"0123456789\n" * (CHUNK_BYTES // 4)
    (tmp_path / "t.log").write_bytes(text)
    directory = TraceDirectory(str(tmp_path))

    async def read_while_it_grows() -> list[bytes]:
        opened = directory.opened("t.log", None)
        assert opened is not None
        with (tmp_path / "t.log").open("ab") as file:
            file.write(b"more\n")
        return [chunk async for chunk in opened.chunks()]

    chunks = asyncio.run(read_while_it_grows())
    assert b"".join(chunks) == text
    assert max(len(chunk) for chunk in chunks) <= CHUNK_BYTES


def test_the_tail_is_whole_lines(tmp_path: Path) -> None:
    (tmp_path / "t.log").write_bytes(b"first\nsecond\nthird\n")
    directory = TraceDirectory(str(tmp_path))
    assert asyncio.run(content(directory, "t.log", 8)) == [b"third\n"]
    assert asyncio.run(content(directory, "t.log", 6)) == []
    assert asyncio.run(content(directory, "t.log", 0)) == []
    assert asyncio.run(content(directory, "t.log", 100)) == [b"first\nsecond\nthird\n"]
