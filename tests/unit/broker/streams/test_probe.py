"""The answers to probes."""

from typing import Any

import pytest

from tests.unit.broker.streams.stage import PretendReader, Stage
from warren.errors import ChannelFault
from warren.wire.field_tables import Timestamp


def probed(stage: Stage, **arguments: Any) -> dict[str, Any]:
    reader = stage.reader(x_stream_probe=True, **arguments)
    assert len(reader.entries) == 1
    assert reader.bodies() == [b""]
    headers = dict(reader.messages[0].headers())
    assert sorted(headers) == ["x-stream-end", "x-stream-first", "x-stream-offset"]
    return headers


def test_an_empty_stream_begins_and_ends_at_the_same_place() -> None:
    assert probed(Stage()) == {"x-stream-first": 0, "x-stream-end": 0, "x-stream-offset": 0}


def test_the_end_is_behind_the_last_committed_message() -> None:
    stage = Stage()
    stage.fill(12)
    stage.publish(b"not yet")
    stage.end_turn()
    assert probed(stage)["x-stream-end"] == 12


@pytest.mark.parametrize(
    ("start", "expected"), [("first", 0), ("last", 2_999), ("next", 3_000), (17, 17), (9_999, 9_999)]
)
def test_its_own_argument_is_resolved(start: object, expected: int) -> None:
    stage = Stage()
    stage.fill(3_000)
    assert probed(stage, x_stream_offset=start)["x-stream-offset"] == expected


def test_a_time_is_the_first_offset_from_then_on_or_the_end() -> None:
    stage = Stage()
    begun_s = stage.turn.now_ms // 1000
    stage.fill(3_000, each_ms=10)
    assert probed(stage, x_stream_offset=Timestamp(begun_s + 5))["x-stream-offset"] == 500
    assert probed(stage, x_stream_offset=Timestamp(begun_s + 500))["x-stream-offset"] == 3_000
    assert probed(stage, x_stream_offset=Timestamp(begun_s - 500))["x-stream-offset"] == 0


def test_expired_messages_are_below_the_first_offset() -> None:
    stage = Stage(bytes_max=4_000_000, segment_bytes=1_000_000)
    stage.fill(20_000)
    told = probed(stage, x_stream_offset=3)
    assert told["x-stream-first"] == told["x-stream-offset"] == stage.stream.first_offset() > 10_000


def test_a_probe_is_answered_once() -> None:
    stage = Stage()
    reader = stage.reader(x_stream_probe=True)
    stage.fill(10)
    stage.stream.ack(reader.entries[0])
    stage.settle()
    assert len(reader.entries) == 1


def test_a_probe_may_store_how_far_others_have_come() -> None:
    stage = Stage()
    stage.fill(50)
    told = probed(stage, x_stream_consumer_name="spark", x_stream_store=30, x_stream_offset="stored")
    assert told["x-stream-offset"] == 30
    assert stage.stream.stored_offsets() == {"spark": 29}


def test_a_probe_may_have_a_name_forgotten() -> None:
    stage = Stage()
    stage.fill(50)
    probed(stage, x_stream_consumer_name="spark", x_stream_store=30)
    told = probed(stage, x_stream_consumer_name="spark", x_stream_store=-1, x_stream_offset="stored")
    assert told["x-stream-offset"] == 0
    assert stage.stream.stored_offsets() == {}


@pytest.mark.parametrize(
    "arguments",
    [
        {"x_stream_store": 30},
        {"x_stream_store": -2, "x_stream_consumer_name": "n"},
        {"x_stream_store": "x", "x_stream_consumer_name": "n"},
    ],
)
def test_invalid_stores_are_refused(arguments: dict[str, Any]) -> None:
    stage = Stage()
    with pytest.raises(ChannelFault, match="invalid arg 'x-stream-store' for queue 's' in vhost '/'"):
        stage.stream.add_consumer(PretendReader(x_stream_probe=True, **arguments))
    assert stage.stream.stored_offsets() == {}


def test_a_probe_with_invalid_arguments_stores_nothing() -> None:
    stage = Stage()
    with pytest.raises(ChannelFault, match="invalid arg 'x-stream-offset' for queue 's' in vhost '/'"):
        probed(stage, x_stream_consumer_name="spark", x_stream_store=30, x_stream_offset="nowhere")
    assert stage.stream.stored_offsets() == {}
