"""Streams for tests to read, with distinct numbered messages."""

import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from warren.client import Message, Properties, blocking
from warren.wire.field_tables import Table

STREAM: Table = {"x-queue-type": "stream"}
DEADLINE_S = 120.0
TWO_CHUNKS_BYTES = 2_200_000


def declare(channel: blocking.Channel, arguments: Table | None = None) -> str:
    """A new stream with a unique name; returns the name."""
    name = f"stream-{uuid.uuid4().hex[:8]}"
    channel.declare_queue(name, durable=True, arguments=STREAM | (arguments or {}))
    return name


def publish(channel: blocking.Channel, stream: str, numbers: Iterable[int], body_bytes: int = 0) -> None:
    """Messages with these numbers, as their ids and in their bodies, confirmed."""
    channel.send_many([message(number, body_bytes) for number in numbers], routing_key=stream)
    channel.wait_for_confirms()


def message(number: int, body_bytes: int = 0) -> Message:
    return Message(b"%d" % number + b"." * body_bytes, Properties(message_id=str(number), delivery_mode=2))


def number_in(body: bytes) -> int:
    return int(body.rstrip(b"."))


def first_offset(channel: blocking.Channel, stream: str) -> int:
    """The first offset of the stream."""
    probe = channel.consume(stream, arguments={"x-stream-probe": True})
    first = probe.batch(DEADLINE_S)[0].headers["x-stream-first"]
    probe.cancel()
    assert isinstance(first, int)
    return first


def until_expired(channel: blocking.Channel, stream: str, published: Iterator[int], body_bytes: int) -> int:
    """Publish until the retention of a stream of small segments has taken the first messages; the first that is left.

    Nothing more expires after that: the stream has two chunks, each in its own segment, and little more.
    """
    publish(channel, stream, [next(published) for _ in range(TWO_CHUNKS_BYTES // body_bytes)], body_bytes)
    until_first_is(channel, stream, 1)
    return first_offset(channel, stream)


def until_first_is(channel: blocking.Channel, stream: str, at_least: int) -> None:
    """Wait until everything before this offset has expired; retention deletes one file at a time, after publishes."""
    deadline = time.monotonic() + DEADLINE_S
    while first_offset(channel, stream) < at_least:
        assert time.monotonic() < deadline, "it does not expire"
        time.sleep(0.02)


def batches_in(checkpoint: Path, log: str) -> int:
    """The number of micro-batches in a log of Spark's (`offsets`, `commits`)."""
    return len([name for name in (checkpoint / log).glob("*") if name.name.isdigit()])


def until_more_batches(checkpoint: Path, log: str, known: int, running: Callable[[], bool]) -> None:
    """Wait until the log has more entries, or the query is over."""
    deadline = time.monotonic() + DEADLINE_S
    while batches_in(checkpoint, log) <= known and running():
        assert time.monotonic() < deadline, "the query does not get on"
        time.sleep(0.02)
