"""Streams on a real disk: killed under load, bigger than memory, older than they may be, damaged, deleted.

`WARREN_KILLS` sets how often the node is killed.
"""

import os
import random
import re
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.durability.siege import SMALL_SEGMENT_BYTES, altered_node
from tests.durability.stream_books import BODY_BYTES, StreamBooks, body_of
from tests.durability.visiting import declare, store, visit
from tests.support.amqp_client import Channel, Connection, ServerHungUp
from tests.support.deadlines import eventually
from tests.support.node_process import NodeProcess
from tests.support.operator import Operator

KILLS = int(os.environ.get("WARREN_KILLS", "6"))
DEADLINE_S = 60.0
WINDOW = 200
STREAM = {"x-queue-type": "stream"}
SMALL_SEGMENTS = {**STREAM, "x-stream-max-segment-size-bytes": 2_000_000}
BODY = bytes(10_000)


def begin_reading(channel: Channel, stream: str, offset: object, prefetch: int = 100) -> None:
    channel.call("basic.qos", prefetch_count=prefetch)
    channel.consume(stream, arguments={"x-stream-offset": offset})


def read(channel: Channel, end: int) -> Iterator[tuple[int, bytes]]:
    """Offsets and bodies, up to the last one before the end."""
    offset = -1
    while offset < end - 1:
        delivery = channel.expect("basic.deliver", DEADLINE_S)
        offset = delivery.headers["x-stream-offset"]
        yield offset, delivery.body
        if delivery.delivery_tag % 50 == 0:
            channel.ack(delivery.delivery_tag, multiple=True)


def whole(node: NodeProcess, stream: str, end: int, offset: object = "first") -> list[tuple[int, bytes]]:
    """All there is from an offset on, and the end is known."""
    with visit(node) as channel:
        begin_reading(channel, stream, offset)
        return list(read(channel, end))


def files(node: NodeProcess) -> list[Path]:
    return sorted(node.data.glob("streams/*/*.chunks"))


def taken_bytes(paths: Iterable[Path]) -> int:
    """By those that are still there when they are looked at."""
    sizes = []
    for path in paths:
        with suppress(FileNotFoundError):
            sizes.append(path.stat().st_size)
    return sum(sizes)


def facts(node: NodeProcess, stream: str) -> dict[str, Any]:
    found: dict[str, Any] = Operator(node.addresses["http"]).read("queues", "/", stream)
    return found


# -- killed under load


def publish_until(dying: threading.Event, books: StreamBooks, channel: Channel, name: str) -> None:
    channel.confirm()
    waiting: deque[tuple[int, int]] = deque()
    sent = 0
    while True:
        while len(waiting) < WINDOW and not dying.is_set():
            number = books.next_number(name)
            sent += 1
            waiting.append((sent, number))
            channel.publish("", "log", body_of(name, number))
        confirm = channel.next(DEADLINE_S)
        assert confirm.name == "basic.ack"
        told = confirm.delivery_tag
        for tag, number in [one for one in waiting if one[0] == told or (confirm.multiple and one[0] < told)]:
            waiting.remove((tag, number))
            books.was_confirmed(name, number)


def read_until(dying: threading.Event, books: StreamBooks, channel: Channel, name: str) -> None:
    # one of them begins anew each time, the other where it was; the end of all this is the node's
    begin_reading(channel, "log", 0 if name == "old" else books.read_to())
    for offset, body in read(channel, 1 << 40):
        books.saw(offset, body)


def client(act: Callable[..., None], *arguments: Any, address: tuple[str, int]) -> threading.Thread:
    dying, books = arguments[0], arguments[1]

    def meet() -> None:
        connection = Connection(address, DEADLINE_S)
        try:
            connection.shake_hands("/")
            act(dying, books, connection.channel(), arguments[2])
        finally:
            connection.socket.close()

    def run() -> None:
        try:
            meet()
        except (OSError, ServerHungUp) as error:
            if not dying.is_set():
                books.complain(f"{arguments[2]} lost its connection: {error!r:.300}")
        except Exception as error:
            books.complain(f"{arguments[2]} failed: {error!r:.300}")

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def proves_something(node: NodeProcess, books: StreamBooks) -> bool:
    """Whether the load was large enough: a busy machine lets clients do little before the node is killed."""
    return len(books.confirmed) > 1_000 and len(files(node)) > 1


@pytest.mark.timeout(240 + 20 * KILLS)
def test_no_offset_is_lost_or_changes_its_meaning_by_kill_nine(tmp_path: Path) -> None:
    node = altered_node(tmp_path, SMALL_SEGMENT_BYTES)
    books, chance = StreamBooks(), random.Random(KILLS)
    try:
        declare(node, "log", SMALL_SEGMENTS)
        kills = 0
        while not books.complaints and (kills < KILLS or not proves_something(node, books)):
            kills += 1
            dying = threading.Event()
            clients = [
                client(publish_until, dying, books, "a", address=node.amqp),
                client(publish_until, dying, books, "b", address=node.amqp),
                client(read_until, dying, books, "old", address=node.amqp),
                client(read_until, dying, books, "new", address=node.amqp),
            ]
            time.sleep(chance.uniform(0.1, 1.5))
            dying.set()
            node.kill()
            for thread in clients:
                thread.join(DEADLINE_S)
                assert not thread.is_alive()
            node.start()
        with visit(node) as channel:
            end = channel.counts("log")[0]
        books.check(whole(node, "log", end))
        written = len(files(node))
        node.restart()
        books.check(whole(node, "log", end))
    finally:
        node.kill()
    assert books.complaints[:10] == []
    assert "queue.stopped" not in node.log()
    assert books.reread > 1_000
    assert written > 1


# -- bigger than memory, older than it may be


def test_the_memory_of_a_stream_is_bounded(node: NodeProcess) -> None:
    declare(node, "log", STREAM)
    for _ in range(3):
        store(node, "log", [BODY] * 1000)
    eventually(lambda: facts(node, "log")["disk_bytes"] > 28_000_000, "chunks are written")
    found = facts(node, "log")
    assert (found["type"], found["messages"], found["message_bytes"]) == ("stream", 3000, 30_000_000)
    assert (found["first_offset"], found["committed_offset"], found["segments"]) == (0, 2999, 1)
    assert found["memory"] < 4_000_000
    journal = taken_bytes(node.data.glob("journal/*.seg"))
    assert journal < 30_000_000 + 40_000_000, "what is in chunks leaves the journal"


def _all_is_in_chunks(found: dict[str, Any]) -> bool:
    """Whether less than a chunk's worth is not: then nothing goes any more while it is read."""
    return int(found["messages"] - found["disk_bytes"] // len(BODY)) * len(BODY) < 1_000_000


def test_messages_beyond_the_length_limit_go_with_their_files(node: NodeProcess, again: str) -> None:
    declare(node, "log", {**SMALL_SEGMENTS, "x-max-length-bytes": 4_000_000})
    for _ in range(3):
        store(node, "log", [BODY] * 500)
    eventually(lambda: facts(node, "log")["messages"] < 800, "old messages expire")
    eventually(lambda: _all_is_in_chunks(facts(node, "log")), "all messages are in chunks")
    eventually(lambda: taken_bytes(files(node)) < 8_000_000, "old files are removed")
    kept = whole(node, "log", 1500)
    first = kept[0][0]
    assert first > 0
    assert [offset for offset, _body in kept] == list(range(first, 1500))
    # a reader that asks for expired messages begins with the first that is left
    assert whole(node, "log", 1500, 0)[0][0] >= first
    if again == "crash":
        node.kill()
        node.start()
    else:
        node.restart()
    assert whole(node, "log", 1500)[0][0] >= first
    store(node, "log", [b"next"])
    assert whole(node, "log", 1501, 1500) == [(1500, b"next")]


def test_the_files_of_a_stream_go_with_it(node: NodeProcess) -> None:
    declare(node, "log", STREAM)
    declare(node, "other", STREAM)
    for stream in ("log", "other"):
        store(node, stream, [BODY] * 300)
    eventually(lambda: len(files(node)) == 2, "chunks are written")
    with visit(node) as channel:
        channel.call("queue.delete", queue="log")
    eventually(lambda: len(files(node)) == 1, "the files of a deleted stream are removed")
    node.kill()
    node.start()
    assert len(whole(node, "other", 300)) == 300


def test_files_of_a_stream_that_is_gone_are_deleted_at_the_start(node: NodeProcess) -> None:
    declare(node, "log", STREAM)
    store(node, "log", [BODY] * 300)
    eventually(lambda: len(files(node)) == 1, "chunks are written")
    node.stop()
    stray = node.data / "streams" / "4711"
    stray.mkdir()
    (stray / files(node)[0].name).write_bytes(files(node)[0].read_bytes())
    node.start()
    eventually(lambda: not stray.exists(), "files of no stream are removed")
    assert len(whole(node, "log", 300)) == 300


# -- damaged


@pytest.mark.parametrize(("at", "where"), [(0, "segment 1 of the stream at byte 0"), (-100, "at byte")])
def test_a_stream_whose_files_are_damaged_is_stopped(node: NodeProcess, at: int, where: str) -> None:
    declare(node, "log", SMALL_SEGMENTS)
    declare(node, "other", STREAM)
    store(node, "log", [BODY] * 500)
    store(node, "other", [b"unharmed"])
    eventually(lambda: facts(node, "log")["disk_bytes"] > 4_000_000, "chunks are written")
    node.stop()
    damaged = files(node)[0 if at == 0 else -1]
    data = bytearray(damaged.read_bytes())
    data[at] ^= 0xFF
    damaged.write_bytes(data)
    node.start()
    eventually(lambda: "queue.stopped" in node.log(), "the damage is noticed")
    assert where in node.log()
    with visit(node) as channel:
        channel.call("basic.qos", prefetch_count=10)
        channel.send("basic.consume", queue="log", arguments={"x-stream-offset": "first"})
        close = channel.expect("channel.close")
        assert close.reply_code == 404
        assert "is stopped" in close.reply_text
        channel.send("channel.close-ok")
    with visit(node) as channel:
        channel.confirm()
        channel.publish("", "log", b"refused")
        assert channel.next().name == "basic.nack"
    assert whole(node, "other", 1) == [(0, b"unharmed")]
    assert facts(node, "log")["state"] == "stopped"
    with visit(node) as channel:
        channel.call("queue.delete", queue="log")
    eventually(lambda: damaged not in files(node), "the files of a deleted stream are removed")


@pytest.mark.parametrize("lost", ["everything", "the last file"])
def test_a_stream_whose_files_are_gone_is_stopped(node: NodeProcess, lost: str) -> None:
    declare(node, "log", SMALL_SEGMENTS)
    store(node, "log", [BODY] * 500)
    eventually(lambda: facts(node, "log")["disk_bytes"] > 4_000_000, "chunks are written")
    node.stop()
    if lost == "everything":
        shutil.rmtree(files(node)[0].parent)
    else:
        files(node)[-1].unlink()
    node.start()
    eventually(lambda: "queue.stopped" in node.log(), "the damage is noticed")
    assert re.search(r"offset \d+ is missing", node.log())
    assert facts(node, "log")["state"] == "stopped"


def test_a_chunk_that_was_being_written_is_written_again(node: NodeProcess) -> None:
    declare(node, "log", STREAM)
    store(node, "log", [body_of("a", number) for number in range(1, 5001)])
    eventually(lambda: bool(files(node)), "chunks are written")
    node.kill()
    # the journal keeps the messages of a chunk until the chunk is reported as written
    with open(files(node)[0], "ab") as file:
        file.write(files(node)[0].read_bytes()[:70_000])
    node.start()
    assert [offset for offset, _body in whole(node, "log", 5000)] == list(range(5000))
    store(node, "log", [bytes(BODY_BYTES)] * 2000)
    node.restart()
    assert [offset for offset, _body in whole(node, "log", 7000)] == list(range(7000))
