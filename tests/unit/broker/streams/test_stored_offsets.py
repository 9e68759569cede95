"""The stored offsets of named readers."""

from typing import Any

import pytest

from tests.unit.broker.streams.stage import PretendReader, Stage
from warren.broker.model.reader_positions import NAMES_MAX
from warren.errors import ChannelFault


def named(stage: Stage, credit: int = 1_000, **arguments: Any) -> PretendReader:
    return stage.reader(credit, x_stream_consumer_name="n", **{"x_stream_offset": "stored", **arguments})


def ack(stage: Stage, reader: PretendReader, *offsets: int) -> None:
    for entry, offset in zip(list(reader.entries), reader.offsets(), strict=True):
        if offset in offsets:
            stage.stream.ack(entry)


def a_second_passes(stage: Stage) -> None:
    stage.turn.now_ms += 1_000
    stage.turn.fire_timers()


def test_nothing_is_stored_of_a_reader_that_acks_nothing() -> None:
    stage = Stage()
    stage.fill(5)
    reader = named(stage)
    assert reader.offsets() == [0, 1, 2, 3, 4]
    stage.stream.requeue(list(reader.entries))
    stage.stream.remove_consumer(reader)
    assert stage.stream.stored_offsets() == {}


def test_acks_without_a_gap_are_stored_once_a_second() -> None:
    stage = Stage()
    stage.fill(10)
    reader = named(stage)
    ack(stage, reader, 0, 1, 3)
    assert stage.stream.stored_offsets() == {}
    a_second_passes(stage)
    assert stage.stream.stored_offsets() == {"n": 1}
    ack(stage, reader, 2)
    assert stage.stream.stored_offsets() == {"n": 1}
    a_second_passes(stage)
    assert stage.stream.stored_offsets() == {"n": 3}


def test_progress_is_stored_when_the_reader_leaves_and_the_next_one_resumes_behind_it() -> None:
    stage = Stage()
    stage.fill(10)
    reader = named(stage)
    ack(stage, reader, 0, 1, 2, 6)
    stage.stream.requeue([entry for entry in reader.entries if reader.entries.index(entry) not in (0, 1, 2, 6)])
    stage.stream.remove_consumer(reader)
    assert stage.stream.stored_offsets() == {"n": 2}
    assert named(stage).offsets() == list(range(3, 10))


def test_acks_after_the_reader_left_count_too() -> None:
    stage = Stage()
    stage.fill(4)
    reader = named(stage)
    stage.stream.remove_consumer(reader)
    ack(stage, reader, 0, 1)
    a_second_passes(stage)
    assert stage.stream.stored_offsets() == {"n": 1}
    stage.stream.requeue(reader.entries[2:])
    a_second_passes(stage)
    assert stage.stream.stored_offsets() == {"n": 1}


def test_unwritten_progress_is_visible_to_the_next_reader_at_once() -> None:
    stage = Stage()
    stage.fill(10)
    ack(stage, named(stage), 0, 1, 2, 3)
    assert named(stage).offsets() == [4, 5, 6, 7, 8, 9]


def test_filtered_messages_count_as_processed() -> None:
    stage = Stage()
    for number in range(9):
        stage.publish(b"x", headers={"x-stream-filter-value": "red" if number in (2, 5) else "blue"})
    stage.flush()
    reader = named(stage, x_stream_filter="red")
    a_second_passes(stage)
    assert stage.stream.stored_offsets() == {"n": 1}
    ack(stage, reader, 2)
    a_second_passes(stage)
    assert stage.stream.stored_offsets() == {"n": 4}
    ack(stage, reader, 5)
    a_second_passes(stage)
    assert stage.stream.stored_offsets() == {"n": 8}


def test_a_reader_without_matching_messages_still_progresses() -> None:
    stage = Stage()
    reader = named(stage, x_stream_filter="red")
    stage.fill(7)
    a_second_passes(stage)
    assert (reader.entries, stage.stream.stored_offsets()) == ([], {"n": 6})


def test_a_chunk_counts_as_a_whole() -> None:
    stage = Stage()
    stage.fill(3_000)
    reader = named(stage, x_stream_chunks=True)
    stage.stream.ack(reader.entries[0])
    a_second_passes(stage)
    assert stage.stream.stored_offsets() == {"n": reader.offsets()[1] - 1}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [({}, [0, 1, 2]), ({"x_stream_offset_default": "last"}, [2]), ({"x_stream_offset_default": 1}, [1, 2])],
)
def test_with_nothing_stored_the_default_counts(arguments: dict[str, Any], expected: list[int]) -> None:
    stage = Stage()
    stage.fill(3)
    assert named(stage, **arguments).offsets() == expected


def test_a_reader_that_begins_elsewhere_takes_its_name_with_it() -> None:
    stage = Stage()
    stage.fill(10)
    ack(stage, named(stage), *range(10))
    again = named(stage, x_stream_offset="first")
    ack(stage, again, 0, 1)
    a_second_passes(stage)
    assert stage.stream.stored_offsets() == {"n": 1}


def test_names_do_not_mix() -> None:
    stage = Stage()
    stage.fill(10)
    ack(stage, named(stage), 0)
    other = stage.reader(x_stream_consumer_name="m", x_stream_offset=5)
    ack(stage, other, 5, 6)
    a_second_passes(stage)
    assert stage.stream.stored_offsets() == {"n": 0, "m": 6}


def test_readers_without_a_name_leave_no_trace() -> None:
    stage = Stage()
    stage.fill(10)
    reader = stage.reader(x_stream_offset="first")
    ack(stage, reader, *range(10))
    a_second_passes(stage)
    assert stage.stream.stored_offsets() == {}


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ({"x_stream_offset": "stored"}, "invalid arg 'x-stream-offset' .* there is no x-stream-consumer-name"),
        ({"x_stream_consumer_name": ""}, "invalid arg 'x-stream-consumer-name'"),
        ({"x_stream_consumer_name": "n" * 256}, "invalid arg 'x-stream-consumer-name'"),
        ({"x_stream_consumer_name": 5}, "invalid arg 'x-stream-consumer-name'"),
        (
            {"x_stream_consumer_name": "n", "x_stream_offset": "stored", "x_stream_offset_default": "soon"},
            "invalid_stream_offset_arg",
        ),
    ],
)
def test_invalid_arguments_are_refused(arguments: dict[str, Any], fault: str) -> None:
    with pytest.raises(ChannelFault, match=fault):
        Stage().stream.add_consumer(PretendReader(**arguments))


def test_one_name_too_many_is_refused_and_no_other_is_dropped() -> None:
    stage = Stage()
    stage.fill(5)
    for number in range(NAMES_MAX - 1):
        stage.reader(x_stream_probe=True, x_stream_consumer_name=f"r{number}", x_stream_store=3)
    assert named(stage, 1).offsets() == [0]
    refused = "queue 's' in vhost '/' keeps the offsets of 1000 names, and has no room for 'more'"
    more = {"x_stream_consumer_name": "more"}
    for arguments in (more, {"x_stream_group": "more"}, {**more, "x_stream_probe": True, "x_stream_store": 1}):
        with pytest.raises(ChannelFault, match=refused):
            stage.stream.add_consumer(PretendReader(**arguments))
    stage.reader(x_stream_probe=True, **more)
    named(stage, 1)
    stage.reader(1, x_stream_consumer_name="r7", x_stream_offset="stored")
    stage.reader(x_stream_probe=True, x_stream_consumer_name="r8", x_stream_store=-1)
    stage.reader(1, **more)
    assert len(stage.stream.stored_offsets()) == NAMES_MAX - 2
