"""Properties as text and back."""

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.client.errors import CannotConvert
from warren.client.outbox.outbox import properties_text, stored_properties
from warren.wire.field_tables import Long, Timestamp
from warren.wire.properties import Properties

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | words
    | st.binary(max_size=20)
    | st.integers(0, 2**32 - 1).map(lambda number: Decimal(number).scaleb(-2))
    | st.integers(0, 2**63 - 1).map(Timestamp)
    | st.integers(-(2**63), 2**63 - 1).map(Long),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words | st.just("$bytes"), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(words, values, max_size=4), st.integers(0, 2**64 - 1))
def test_properties_are_read_as_they_were_written(headers: dict[str, object], timestamp: int) -> None:
    properties = Properties(headers=headers, content_type="text/plain", delivery_mode=2, timestamp=timestamp)
    assert stored_properties(properties_text(properties)) == properties


def test_json_values_are_stored_plain_and_without_the_message_id() -> None:
    text = properties_text(Properties(message_id="a", type="order", headers={"table": 4, "cups": ["tea", b"\x00"]}))
    assert json.loads(text) == {"type": "order", "headers": {"table": 4, "cups": ["tea", {"$bytes": "AA=="}]}}


@pytest.mark.parametrize(
    "properties",
    [
        Properties(headers={"set": {1}}),
        Properties(headers={"huge": 2**70}),
        Properties(headers={"endless": float("inf")}),
        Properties(headers={"not text": "\udcff"}),
        Properties(content_type="x" * 256),
        Properties(priority=300),
    ],
)
def test_properties_that_amqp_or_text_cannot_carry_are_refused(properties: Properties) -> None:
    with pytest.raises(CannotConvert, match="the message's properties cannot be sent: "):
        properties_text(properties)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"colour": "blue"}',
        '{"headers": 1}',
        '{"headers": {"a": {"$colour": 1}}}',
        '{"headers": {"a": {"$decimal": "x"}}}',
        '{"priority": "high"}',
    ],
)
def test_invalid_properties_of_another_writer_are_reported(text: str) -> None:
    with pytest.raises(CannotConvert, match="the row's properties cannot be read: "):
        stored_properties(text)
