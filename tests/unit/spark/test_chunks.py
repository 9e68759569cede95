"""Chunks as the broker writes them become the rows that were sent."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from tests.unit.spark.chunk_making import START_MS, Sent, chunk_of, without_bodies
from warren.spark.arrow_columns import arrow_schema
from warren.spark.options import COLUMNS
from warren.spark.stream_chunks import ArrowChunk, ChunkProjection, DamagedChunk
from warren.wire.properties import Properties

MESSAGES = [
    Sent(b"one", "shop", "orders.new", Properties(message_id="m-1", delivery_mode=2, headers={"table": 4})),
    Sent(b"", "", "", Properties()),
    Sent(b"x" * 300_000, "shop", "größe", Properties(content_type="text/plain", timestamp=1_700_000_000, priority=3)),
    Sent(b"four", "shop", "k", Properties(message_id="m-4", app_id="till", expiration="100", reply_to="")),
]


def rows(data: bytes, columns: tuple[str, ...] = tuple(COLUMNS), start: int = 0, end: int = 1 << 60) -> pa.RecordBatch:
    return ChunkProjection(columns, partition=3).batch(ArrowChunk(data), start, end)


def rows_without_bodies(data: bytes, columns: tuple[str, ...]) -> pa.RecordBatch:
    return ChunkProjection(columns, partition=3).batch(ArrowChunk(without_bodies(data), whole=False), 0, 1 << 60)


def test_every_column_has_the_sent_values() -> None:
    batch = rows(chunk_of(MESSAGES, first_offset=70))
    batch.validate(full=True)
    assert batch.schema == arrow_schema(tuple(COLUMNS))
    arrived = [datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=START_MS + offset) for offset in range(70, 74)]
    assert batch.column("partition").to_pylist() == [3] * 4
    assert batch.column("offset").to_pylist() == [70, 71, 72, 73]
    assert batch.column("timestamp").to_pylist() == arrived
    assert batch.column("exchange").to_pylist() == ["shop", "", "shop", "shop"]
    assert batch.column("routing_key").to_pylist() == ["orders.new", "", "größe", "k"]
    assert batch.column("message_id").to_pylist() == ["m-1", None, None, "m-4"]
    assert batch.column("headers").to_pylist() == [[("table", "4")], None, None, None]
    assert batch.column("body").to_pylist() == [sent.body for sent in MESSAGES]


def test_properties_are_null_where_they_are_absent() -> None:
    found = rows(chunk_of(MESSAGES)).column("properties").to_pylist()
    present = [{name: value for name, value in each.items() if value is not None} for each in found]
    assert present == [
        {"delivery_mode": 2},
        {},
        {"content_type": "text/plain", "priority": 3, "timestamp": 1_700_000_000},
        {"app_id": "till", "expiration": "100", "reply_to": ""},
    ]


def test_only_messages_within_the_offsets_are_taken() -> None:
    chunk = chunk_of(MESSAGES, first_offset=10)
    assert rows(chunk, ("offset", "body"), 11, 13).to_pylist() == [
        {"offset": 11, "body": b""},
        {"offset": 12, "body": MESSAGES[2].body},
    ]
    assert rows(chunk, ("offset",), 0, 11).to_pylist() == [{"offset": 10}]


def test_columns_come_in_the_order_they_are_asked_for() -> None:
    assert rows(chunk_of(MESSAGES[:1]), ("body", "offset")).schema.names == ["body", "offset"]


def test_a_chunk_without_its_bodies_has_all_other_columns() -> None:
    chunk = chunk_of(MESSAGES)
    columns = tuple(name for name in COLUMNS if name != "body")
    assert rows_without_bodies(chunk, columns) == rows(chunk, columns)
    with pytest.raises(DamagedChunk):
        rows_without_bodies(chunk, ("body",))


def test_bodies_are_not_copied() -> None:
    chunk = chunk_of(MESSAGES)
    values = rows(chunk, ("body",)).column("body").buffers()[2]
    whole = pa.py_buffer(chunk)
    assert whole.address <= values.address < whole.address + whole.size


def test_the_epoch_of_a_position_is_no_part_of_the_offset() -> None:
    assert ArrowChunk(chunk_of(MESSAGES, first_offset=5, epoch=9)).first_offset == 5


@pytest.mark.parametrize("at", [0, 4, 9, 13, 20, 70, 200, -3])
def test_a_changed_byte_is_found(at: int) -> None:
    damaged = bytearray(chunk_of(MESSAGES))
    damaged[at] ^= 0x40
    with pytest.raises(DamagedChunk):
        ArrowChunk(bytes(damaged))


@pytest.mark.parametrize("size", [0, 10, 64, 90])
def test_a_chunk_that_is_cut_within_its_columns_is_found(size: int) -> None:
    with pytest.raises(DamagedChunk):
        ArrowChunk(chunk_of(MESSAGES)[:size])
    with pytest.raises(DamagedChunk):
        ArrowChunk(chunk_of(MESSAGES)[:size], whole=False)


def test_text_that_is_no_utf8_is_shown_with_its_bytes_in_base64() -> None:
    sent = Sent(b"", "shop", "caf\udce9", Properties(message_id="\udcff1"))
    batch = rows(chunk_of([sent, MESSAGES[0]]), ("routing_key", "message_id"))
    batch.validate(full=True)
    assert batch.to_pylist()[0] == {
        "routing_key": "Not UTF-8, base64 is: Y2Fm6Q==",
        "message_id": "Not UTF-8, base64 is: /zE=",
    }
    assert batch.to_pylist()[1] == {"routing_key": "orders.new", "message_id": "m-1"}
