"""A message that is published again: the properties it keeps, gets and loses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import create_engine, text
from sqlalchemy.exc import OperationalError

from tests.unit.client.listening.messages import HandMade, with_headers
from warren.client.errors import SUMMARY_LENGTH_MAX
from warren.client.listening import retries
from warren.client.listening.retries import RetryAfter
from warren.client.transport import Outgoing
from warren.wire.properties import Properties, decode_properties, encode_header_payload

SECOND = RetryAfter(2, 1.5)
FAILURE = ValueError("no stock")
ADDED = {
    "x-origin-exchange": "shop",
    "x-origin-key": "orders.new",
    "x-error": "ValueError: no stock",
}


def headers_of(outgoing: Outgoing) -> dict[str, object]:
    assert outgoing.message.properties is not None
    assert outgoing.message.properties.headers is not None
    return outgoing.message.properties.headers


def retried(message: HandMade, again: RetryAfter = SECOND) -> Outgoing:
    return retries.retry_message(message, "orders", again, "queues", FAILURE)


def test_a_message_waits_for_its_delay_in_the_queue_of_its_step() -> None:
    moved = retried(HandMade(b"tea", Properties(message_id="7", headers={"table": 4})))
    assert (moved.exchange, moved.routing_key, moved.mandatory) == ("", "orders.retry.2", True)
    assert moved.message.body == b"tea"
    expected = Properties(
        message_id="7", delivery_mode=2, expiration="1500", headers={"table": 4, **ADDED, "x-retries": 1}
    )
    assert moved.message.properties == expected


def test_without_a_delay_it_is_back_in_its_queue() -> None:
    moved = retried(HandMade(), RetryAfter(0, 0.0))
    assert (moved.exchange, moved.routing_key) == ("", "orders")
    assert moved.message.properties is not None
    assert moved.message.properties.expiration is None


def test_by_a_delayed_exchange_the_delay_is_a_header() -> None:
    moved = retries.retry_message(with_headers(x_delay=-3), "orders", RetryAfter(1, 0.25), "delayed_exchange", FAILURE)
    assert (moved.exchange, moved.routing_key, moved.mandatory) == ("orders.delayed", "orders", False)
    assert headers_of(moved)["x-delay"] == 250


def test_the_count_goes_on_and_the_origin_stays() -> None:
    again = HandMade(
        routing_key="orders", exchange="", properties=retried(HandMade()).message.properties or Properties()
    )
    moved = retried(again)
    assert headers_of(moved) == {**ADDED, "x-retries": 2}


def test_properties_that_would_harm_a_moved_message_are_left_out() -> None:
    harmful = {
        "CC": ["others"],
        "x-warren-publisher": "till",
        "x-warren-publishing-id": 9,
        "x-death": [{"queue": "orders", "reason": "expired"}],
        "x-first-death-queue": "orders",
        "x-last-death-reason": "expired",
    }
    given = HandMade(properties=Properties(headers=dict(harmful), expiration="10", user_id="ada"))
    moved = retried(given)
    assert headers_of(moved) == {**ADDED, "x-retries": 1}
    assert moved.message.properties is not None
    assert moved.message.properties.user_id is None
    parked = retries.parking_message(given, "orders", 0, FAILURE).message.properties
    assert parked is not None
    assert (parked.expiration, parked.user_id) == (None, None)
    assert given.headers == harmful


def test_a_parked_message_has_its_origin_and_its_error() -> None:
    parked = retries.parking_message(with_headers(x_retries=2), "orders", 4, FAILURE)
    assert (parked.exchange, parked.routing_key, parked.mandatory) == ("", "orders.parked", True)
    assert headers_of(parked) == {**ADDED, "x-retries": 4, "x-origin-queue": "orders"}


def test_a_long_error_does_not_outgrow_its_header() -> None:
    moved = retries.parking_message(HandMade(), "orders", 0, ValueError("x" * 100_000))
    assert len(str(headers_of(moved)["x-error"])) == SUMMARY_LENGTH_MAX


def test_the_error_of_a_parked_message_has_no_values_of_its_statement() -> None:
    engine = create_engine("sqlite://")
    with engine.connect() as connection, pytest.raises(OperationalError) as failed:
        connection.execute(text("INSERT INTO nowhere VALUES (:name)"), {"name": "Ada Lovelace"})
    told = "OperationalError: (sqlite3.OperationalError) no such table: nowhere"
    for moved in (
        retries.parking_message(HandMade(), "orders", 0, failed.value),
        retries.parking_message_without_properties(HandMade(), "orders", failed.value),
        retries.retry_message(HandMade(), "orders", SECOND, "queues", failed.value),
    ):
        assert headers_of(moved)["x-error"] == told


@given(st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.text(), st.floats(), st.binary()))
def test_a_header_counts_only_if_it_is_a_count(found: object) -> None:
    expected = found if type(found) is int and found > 0 else 0
    assert retries.retries_done({"x-retries": found}) == expected


TEXT = st.one_of(st.none(), st.text(max_size=20))
NAMES = st.text(max_size=9).map("mine-{}".format)
VALUES = st.one_of(st.integers(-(2**40), 2**40), st.text(max_size=9), st.booleans(), st.none(), st.binary(max_size=9))


@given(TEXT, TEXT, st.one_of(st.none(), st.integers(0, 255)), st.dictionaries(NAMES, VALUES))
def test_all_else_is_kept_through_any_number_of_retries(
    content_type: str | None, reply_to: str | None, priority: int | None, headers: dict[str, object]
) -> None:
    properties = Properties(content_type=content_type, reply_to=reply_to, priority=priority, headers=dict(headers))
    message = HandMade(properties=properties)
    for _ in range(3):
        payload = encode_header_payload(retried(message).message.properties or Properties(), 0)
        message = HandMade(properties=decode_properties(payload, 0, len(payload)))
    found = message.properties
    assert (found.content_type, found.reply_to, found.priority) == (content_type, reply_to, priority)
    assert {name: found.headers[name] for name in headers} == headers  # type: ignore[index]
    assert retries.retries_done(message.headers) == 3
