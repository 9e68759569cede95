"""Records merged into messages of JSON arrays, and taken apart again."""

import json
import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from warren.client import CannotConvert, Message
from warren.client.batches import BATCH_BYTES_MAX, batch_messages, batch_records, json_text


def sizes(records: list[object], max_bytes: int) -> list[int]:
    return [len(each.body) for each in batch_messages(records, "b", max_bytes=max_bytes)]


def ids(message: Message) -> str | None:
    return message.properties.message_id if message.properties is not None else None


def test_a_message_is_as_long_as_it_may_be_and_no_longer() -> None:
    records: list[object] = ["x" * 8] * 6
    assert sizes(records, 2 + 3 * 10 + 2) == [34, 34]
    assert sizes(records, 2 + 3 * 10 + 2 - 1) == [23, 23, 23]


def test_every_record_of_any_size_is_in_one_message_in_order() -> None:
    chance = random.Random(3)
    records = [{"n": number, "x": "y" * chance.randrange(200)} for number in range(2000)]
    messages = list(batch_messages(records, "orders", max_bytes=1000))
    assert max(len(each.body) for each in messages) <= 1000
    assert [row for each in messages for row in batch_records(each.body)] == records


def test_the_same_records_under_the_same_id_are_the_same_messages() -> None:
    first, second = (list(batch_messages(range(100), "day-1", max_bytes=100)) for _ in range(2))
    assert [(ids(each), each.body) for each in first] == [(ids(each), each.body) for each in second]
    assert [ids(each) for each in first] == ["day-1-1", "day-1-2", "day-1-3"]


def test_nothing_is_no_message() -> None:
    assert list(batch_messages([], "none")) == []


def test_a_message_has_at_most_four_megabytes_unless_it_is_said_otherwise() -> None:
    records = ["z" * 998] * 5000
    assert [len(each.body) <= BATCH_BYTES_MAX for each in batch_messages(records, "many")] == [True, True]
    assert BATCH_BYTES_MAX == 4_000_000


def test_a_record_that_fills_a_message_is_sent_and_one_byte_more_is_refused() -> None:
    assert sizes(["x" * 96], 100) == [100]
    with pytest.raises(CannotConvert, match="record 0 of batch b has 99 bytes, and a message of 100 has no room for"):
        sizes(["x" * 97], 100)


def test_values_without_a_json_form_are_written_exactly() -> None:
    row = {
        "amount": Decimal("10.10"),
        "large": Decimal("1E+3"),
        "day": date(2026, 2, 28),
        "at": datetime(2026, 2, 28, 12, tzinfo=UTC),
        "key": b"\x00\xff",
        "took": timedelta(seconds=1.5),
        "none": float("nan"),
        7: True,
    }
    assert json.loads(json_text(row)) == {
        "amount": "10.10",
        "large": "1000",
        "day": "2026-02-28",
        "at": "2026-02-28T12:00:00+00:00",
        "key": "AP8=",
        "took": "PT1.500000S",
        "none": None,
        "7": True,
    }


def test_a_record_without_a_form_in_json_is_named() -> None:
    with pytest.raises(CannotConvert, match="record 1 of batch b: object has no form in JSON, so it cannot be sent"):
        list(batch_messages([{}, {"x": object()}], "b"))


def test_numbers_are_read_to_the_digit() -> None:
    assert batch_records(b"[0.10, 1e2, 12345678901234567890]") == [
        Decimal("0.10"),
        Decimal("1e2"),
        12345678901234567890,
    ]
    assert [str(each) for each in batch_records(b"[0.10]")] == ["0.10"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "is not JSON in UTF-8"),
        (b"[1", "is not JSON in UTF-8"),
        (b"[NaN]", "JSON has no NaN"),
        (b'["\xff"]', "is not JSON in UTF-8"),
        (b"[]x", "is not JSON in UTF-8"),
        (b'{"a": 1}', "a batch is a JSON array, and this message of 8 bytes is none"),
        (b"[" * 200_000, "is nested too deep"),
    ],
)
def test_a_malformed_batch_is_refused_with_a_reason(body: bytes, reason: str) -> None:
    with pytest.raises(CannotConvert, match=reason):
        batch_records(body)
