"""A delivered message differs from the published one in one header only."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.broker.streams.stage import message_of
from warren.broker.model.message import Envelope, Message
from warren.broker.streams.chunk import Chunk, ChunkBuilder, message_in, with_offset
from warren.wire.field_tables import Long
from warren.wire.frames import content_frames
from warren.wire.properties import Properties, edit_headers, encode_header_payload

names = st.one_of(st.text(max_size=10), st.just("x-stream-offset"))
tables = st.none() | st.dictionaries(names, st.integers(-1000, 1000) | st.text(max_size=10), max_size=4)
texts = st.none() | st.text(max_size=20)


@given(tables, texts, texts, texts, st.none() | st.integers(0, 9), st.integers(0, 2**43))
def test_the_offset_is_put_where_an_edit_would_put_it(
    headers: Any, kind: str | None, encoding: str | None, app: str | None, priority: int | None, offset: int
) -> None:
    properties = Properties(
        headers=headers, content_type=kind, content_encoding=encoding, app_id=app, priority=priority
    )
    payload = encode_header_payload(properties, 4)
    message = Message(Envelope("x", "k"), content_frames(payload, b"body", 7, 4096), 7, 4, 4096)
    shown = with_offset(message, offset)
    assert shown.header_payload() == edit_headers(payload, [], {"x-stream-offset": Long(offset)})
    assert (shown.body(), shown.channel, shown.envelope) == (b"body", 7, message.envelope)


@given(tables, st.sampled_from([0, 1, 5_000, 131_064, 131_065, 400_000]), st.integers(0, 2**43))
def test_a_message_from_a_chunk_equals_the_published_one(headers: Any, size: int, offset: int) -> None:
    message = message_of(bytes(size), headers)
    builder = ChunkBuilder()
    builder.add(offset + 1, 0, message)
    shown = message_in(Chunk(builder.finish()), 0, message.envelope, offset)
    assert shown.header_payload() == with_offset(message, offset).header_payload()
    assert (shown.body(), shown.body_bytes) == (bytes(size), size)
    assert shown.headers()["x-stream-offset"] == offset
    content, at, largest = shown.content, 0, 0
    while at < len(content):
        frame = int.from_bytes(content[at + 3 : at + 7], "big") + 8
        largest = max(largest, frame)
        at += frame
    assert at == len(content)
    assert largest <= shown.frame_bytes_max <= 131_072
