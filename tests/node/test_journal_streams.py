"""`warren journal` on the streams of real nodes: its findings, and the messages it keeps of damaged streams."""

import json
import shutil
import time
import urllib.request
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pika
import pytest

from tests.durability.visiting import DEADLINE_S, declare, store
from tests.support.node_process import NodeProcess
from warren.broker.streams.chunk import ChunkHead
from warren.broker.streams.tail import CHUNK_BYTES
from warren.cli.main import run

Captured = pytest.CaptureFixture[str]
ARGUMENTS = {"x-queue-type": "stream", "x-stream-max-segment-size-bytes": 2_000_000}
COUNT = 600
BODY_BYTES = 10_000


def body_of(number: int) -> bytes:
    return b"%d" % number + bytes(BODY_BYTES)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    """Stopped, with a stream that is in several files, and the rest in the journal."""
    started = NodeProcess(tmp_path, "--amqp", "127.0.0.1:0")
    declare(started, "log", ARGUMENTS)
    store(started, "log", [body_of(number) for number in range(COUNT)])
    deadline = time.monotonic() + DEADLINE_S
    # messages that are being written when the node stops are in the journal as well as in a file
    while len(files(started)) < 3 or live_bytes(started) >= CHUNK_BYTES:
        assert time.monotonic() < deadline, "chunks are not written"
        time.sleep(0.02)
    started.stop()
    yield started
    if started.alive:
        started.kill()


def live_bytes(node: NodeProcess) -> int:
    """The messages of the journal that are in no file of the stream."""
    host, port = node.addresses["http"]
    with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=DEADLINE_S) as answer:
        [line] = [line for line in answer.read().decode().splitlines() if line.startswith("warren_journal_live_bytes ")]
    return int(line.split()[1])


def files(node: NodeProcess) -> list[Path]:
    return sorted(node.data.glob("streams/*/*.chunks"))


def inspected(node: NodeProcess, capsys: Captured) -> tuple[int, dict[str, Any], dict[str, Any]]:
    """The exit code, all findings, and those about the stream."""
    code = run(["journal", "inspect", str(node.data), "--json"])
    findings = json.loads(capsys.readouterr().out)
    return code, findings, findings["streams"][0]


def read(node: NodeProcess, end: int) -> dict[int, bytes]:
    """All messages by offset; None for offsets reported as lost."""
    found: dict[int, bytes] = {}
    with pika.BlockingConnection(pika.ConnectionParameters(*node.amqp)) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=100)
        arguments = {"x-stream-offset": "first"}
        for method, properties, body in channel.consume("log", arguments=arguments, inactivity_timeout=30):
            assert method is not None, "it is not read to its end"
            offset = properties.headers["x-stream-offset"]
            found[offset] = b"" if properties.headers.get("x-warren-lost") else body
            channel.basic_ack(method.delivery_tag)
            if offset == end - 1:
                return found
    raise AssertionError("it ended before its end")


def first_chunk_end(path: Path) -> int:
    with path.open("rb") as file:
        return int(ChunkHead(file.read(64)).length)


def first_whole(stream: dict[str, Any]) -> int:
    """The first offset that is left."""
    firsts = [one["first_offset"] for one in stream["segments"]] + [first for first, _last in stream["in_journal"]]
    return min(int(first) for first in firsts)


def lose_last(paths: list[Path]) -> None:
    paths[-1].unlink()


def lose_second(paths: list[Path]) -> None:
    paths[1].unlink()


def lose_all(paths: list[Path]) -> None:
    shutil.rmtree(paths[0].parent)


def spoil_body(paths: list[Path]) -> None:
    """In the second chunk of the first file."""
    data = bytearray(paths[0].read_bytes())
    data[first_chunk_end(paths[0]) + 5_000] ^= 0xFF
    paths[0].write_bytes(data)


def spoil_head(paths: list[Path]) -> None:
    data = bytearray(paths[0].read_bytes())
    data[0] ^= 0xFF
    paths[0].write_bytes(data)


def test_inspect_names_streams_their_segments_and_offsets(node: NodeProcess, capsys: Captured) -> None:
    code, findings, stream = inspected(node, capsys)
    assert (code, findings["faults"]) == (0, [])
    assert (stream["name"], stream["vhost"], stream["missing"]) == ("log", "/", [])
    assert [one["segment"] for one in stream["segments"]] == list(range(1, len(files(node)) + 1))
    ranges = [(one["first_offset"], one["last_offset"]) for one in stream["segments"]]
    ranges += [(first, last) for first, last in stream["in_journal"]]
    assert (ranges[0][0], ranges[-1][1]) == (0, COUNT - 1)
    assert all(before[1] + 1 == after[0] for before, after in pairwise(ranges))
    assert {one["tail"] for one in stream["segments"]} == {"clean"}
    assert run(["journal", "inspect", str(node.data)]) == 0
    shown = capsys.readouterr().out
    assert f"{ranges[1][0]} to {ranges[1][1]}" in shown


@pytest.mark.parametrize("spoil", [lose_last, lose_second, lose_all, spoil_body, spoil_head])
def test_salvage_keeps_every_message_that_is_whole_at_its_offset(
    node: NodeProcess, capsys: Captured, spoil: Callable[[list[Path]], None]
) -> None:
    spoil(files(node))
    code, findings, stream = inspected(node, capsys)
    assert code == 1
    assert findings["faults"]
    missing = {offset for first, last in stream["missing"] for offset in range(first, last + 1)}
    # retention may have removed the first messages
    assert missing or spoil is spoil_head
    spoilt = {path.name: path.read_bytes() for path in files(node)}
    assert run(["journal", "salvage", str(node.data), "--yes"]) == 0
    assert ("Salvage puts stopgaps in the place of offset" in capsys.readouterr().out) == bool(missing)
    for path in node.data.glob("salvage-*/streams/*/*"):
        assert path.read_bytes() == spoilt[path.name]
    assert inspected(node, capsys)[:1] == (0,)
    node.start()
    found = read(node, COUNT)
    begin = first_whole(stream)
    assert begin < COUNT // 2 or spoil is lose_all
    kept = {offset for offset in range(begin, COUNT) if offset not in missing}
    assert {offset for offset, body in found.items() if body} == kept
    assert all(found[offset] == body_of(offset) for offset in kept)
    assert sorted(found) == list(range(min(found), COUNT))
    store(node, "log", [b"more"])
    assert read(node, COUNT + 1)[COUNT] == b"more"
