"""Records merged into messages."""

import json
import random

import pytest

from warren.pipeline.load import records as batches
from warren.pipeline.load.records import BadRecord, LoadMessage, Record, RecordPacker


def packed(records: list[Record], max_bytes: int, file: str = "orders.csv") -> list[LoadMessage | BadRecord]:
    packer = RecordPacker(file, max_bytes)
    return [item for record in records for item in packer.add(record)] + list(packer.finish())


def record(place: int, size: int, key: str | None = None) -> Record:
    """An object of exactly so many bytes."""
    return Record(place, b'{"a":"%s"}' % (b"x" * (size - 8)), key)


def test_a_message_is_as_long_as_it_may_be_and_no_longer() -> None:
    found = packed([record(place, 10) for place in range(6)], 2 + 3 * 10 + 2)
    assert [len(each.body) for each in found if isinstance(each, LoadMessage)] == [34, 34]
    assert [(each.first, each.records) for each in found if isinstance(each, LoadMessage)] == [(0, 3), (3, 3)]


def test_one_byte_less_and_a_record_goes_into_the_next_message() -> None:
    found = packed([record(place, 10) for place in range(6)], 2 + 3 * 10 + 2 - 1)
    assert [each.records for each in found if isinstance(each, LoadMessage)] == [2, 2, 2]


def test_a_record_that_fills_a_message_is_sent_and_one_byte_more_is_not() -> None:
    assert [type(each) for each in packed([record(0, 98)], 100)] == [LoadMessage]
    assert packed([record(0, 99)], 100) == [
        BadRecord(0, record(0, 99).text, "has 99 bytes, and a message of 100 has no room for it")
    ]


def test_every_record_of_any_size_is_in_one_message_in_order() -> None:
    chance = random.Random(3)
    records = [
        Record(place, json.dumps({"n": place, "x": "y" * chance.randrange(200)}).encode()) for place in range(2000)
    ]
    found = packed(records, 1000)
    assert all(isinstance(each, LoadMessage) and len(each.body) <= 1000 for each in found)
    rows = [row for each in found if isinstance(each, LoadMessage) for row in json.loads(each.body)]
    assert [row["n"] for row in rows] == list(range(2000))


def test_records_of_one_key_are_merged_wherever_they_stand() -> None:
    records = [Record(place, b'{"n":%d}' % place, f"key {place % 3}") for place in range(9)]
    found = {each.key: json.loads(each.body) for each in packed(records, 1000) if isinstance(each, LoadMessage)}
    assert found == {f"key {key}": [{"n": place} for place in range(key, 9, 3)] for key in range(3)}


def test_records_that_wait_for_their_key_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "BUFFERED_BYTES_MAX", 100)
    packer = RecordPacker("f", 1000)
    sent = [item for place in range(30) for item in packer.add(record(place, 10, f"{place}"))]
    assert len(sent) == 20
    assert len(list(packer.finish())) == 10


def test_a_routing_key_that_is_too_long_is_refused() -> None:
    [found] = packed([Record(0, b"{}", "é" * 128)], 100)
    assert isinstance(found, BadRecord)
    assert found.reason == "its routing key has more than 255 bytes"


def test_ids_are_the_same_for_the_same_records_and_others_elsewhere() -> None:
    records = [record(place, 10) for place in range(6)]
    ids = [each.id for each in packed(records, 34) if isinstance(each, LoadMessage)]
    assert ids == [each.id for each in packed(records, 34) if isinstance(each, LoadMessage)]
    elsewhere = [each.id for each in packed(records, 34, "copy.csv") if isinstance(each, LoadMessage)]
    assert len({*ids, *elsewhere}) == 4
