"""A chunk returns its messages, and damaged bytes are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.broker.streams.stage import message_of
from warren.broker.streams.chunk import Chunk, ChunkBuilder, ChunkHead
from warren.errors import StoreError


def chunk_of(bodies: list[bytes], keys: list[str], first: int = 1) -> bytes:
    builder = ChunkBuilder()
    for index, (body, key) in enumerate(zip(bodies, keys, strict=True)):
        builder.add(first + index, 1_000 + index, message_of(body, {"n": index}, key))
    return builder.finish()


@given(st.lists(st.tuples(st.binary(max_size=9_000), st.text(max_size=20)), min_size=1, max_size=20))
def test_a_chunk_returns_the_messages_put_in(messages: list[tuple[bytes, str]]) -> None:
    bodies, keys = [body for body, _key in messages], [key for _body, key in messages]
    data = chunk_of(bodies, keys, first=7)
    chunk = Chunk(data)
    assert (chunk.head.first_position, chunk.head.count, chunk.head.length) == (7, len(messages), len(data))
    assert (chunk.head.first_ms, chunk.head.last_ms) == (1_000, 999 + len(messages))
    assert chunk.head.body_bytes == sum(map(len, bodies))
    for index, (body, key) in enumerate(messages):
        assert chunk.body(index) == body
        assert chunk.routing_key(index) == key.encode("utf-8", "surrogateescape")
        assert chunk.exchange(index) == b"x"
        assert chunk.arrived_ms(index) == 1_000 + index
        assert message_of(body, {"n": index}, key).header_payload()[12:] == chunk.properties(index)


def test_parts_begin_where_columns_may() -> None:
    data = chunk_of([b"abc", b"", b"12345678"], ["a", "bb", "ccc"])
    assert len(data) % 8 == 0
    assert data.index(b"abc12345678") % 8 == 0


@given(st.integers(0, 2_000), st.integers(1, 255))
def test_a_changed_octet_is_noticed(at: int, change: int) -> None:
    data = chunk_of([bytes([number]) * 100 for number in range(12)], ["key"] * 12)
    at %= len(data)
    damaged = data[:at] + bytes([data[at] ^ change]) + data[at + 1 :]
    with pytest.raises(StoreError):
        Chunk(damaged)


def test_bytes_cut_short_are_no_chunk() -> None:
    data = chunk_of([b"a" * 100], ["k"])
    for end in range(len(data)):
        with pytest.raises(StoreError):
            Chunk(data[:end])


def test_a_head_describes_its_chunk_without_the_rest() -> None:
    data = b"...." + chunk_of([b"a", b"b"], ["k", "k"], first=1 << 44 | 5)
    head = ChunkHead(data, 4)
    assert (head.count, head.first_position, head.length) == (2, 1 << 44 | 5, len(data) - 4)


def test_a_time_is_found() -> None:
    chunk = Chunk(chunk_of([b""] * 5, ["k"] * 5))
    assert [chunk.first_arrived_from(ms) for ms in (0, 1_000, 1_003, 1_004, 1_005)] == [0, 0, 3, 4, 5]
