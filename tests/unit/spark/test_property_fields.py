"""Properties that are taken apart column by column are those that are decoded one by one."""

import json

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from warren.spark.arrow_columns import WIRE_ORDER, PropertyFields, header_column
from warren.spark.options import PROPERTIES
from warren.wire.field_tables import decode_table
from warren.wire.properties import Properties, encode_header_payload

TEXTS = st.one_of(st.none(), st.text(max_size=20))
HEADERS = st.one_of(st.none(), st.dictionaries(st.text(max_size=5), st.integers(-5, 5), max_size=3))
OCTETS = st.one_of(st.none(), st.integers(0, 255))
TIMES = st.one_of(st.none(), st.integers(0, 2**63 - 1))
STRATEGIES = {"text": TEXTS, "octet": OCTETS, "time": TIMES, "table": HEADERS}
MESSAGES = st.fixed_dictionaries({name: STRATEGIES[kind] for name, kind in WIRE_ORDER.items()})


def tail_of(fields: dict[str, object]) -> bytes:
    return encode_header_payload(Properties(**fields), 0)[12:]  # type: ignore[arg-type]


@settings(max_examples=50, phases=[Phase.generate])
@given(st.lists(MESSAGES, min_size=1, max_size=9))
def test_every_property_of_every_message_is_found(messages: list[dict[str, object]]) -> None:
    found = PropertyFields(pa.array([tail_of(fields) for fields in messages], pa.binary()))
    properties = found.struct()
    properties.validate(full=True)
    assert properties.to_pylist() == [{name: fields[name] for name in PROPERTIES} for fields in messages]
    assert found.text("message_id").to_pylist() == [fields["message_id"] for fields in messages]
    tables = [None if each is None else decode_table(each, 0, len(each)) for each in found.tables().to_pylist()]
    assert tables == [fields["headers"] for fields in messages]


def test_a_property_that_no_message_has_is_null_everywhere() -> None:
    found = PropertyFields(pa.array([b"\x00\x00", b"\x00\x00"], pa.binary()))
    assert found.text("message_id").to_pylist() == [None, None]
    assert found.tables().to_pylist() == [None, None]
    assert found.struct().to_pylist() == [dict.fromkeys(PROPERTIES)] * 2


def test_text_longer_than_the_remaining_bytes_reads_nothing() -> None:
    found = PropertyFields(pa.array([b"\x00\x80\xffabc"], pa.binary()))
    with pytest.raises(pa.ArrowInvalid):
        found.text("message_id")


def test_headers_that_are_no_utf8_fail_no_read_and_stay_different() -> None:
    """A dead letter has its routing key in a table of an array: one such message must not block its whole stream."""
    one, other = "\udcff", "\udcfe"
    death = {"queue": "q", "routing-keys": [one, "plain"], other: b"\xfd", "count": 2}
    headers = {one: one, other: b"\xfe", "x-death": [death]}
    tables = PropertyFields(pa.array([tail_of({"headers": headers})], pa.binary())).tables()
    found = dict(header_column(tables).to_pylist()[0])
    first, second, third = (f"Not UTF-8, base64 is: {text}" for text in ("/w==", "/g==", "/Q=="))
    assert {name: found[name] for name in (first, second)} == {first: first, second: second}
    expected = {"queue": "q", "routing-keys": [first, "plain"], second: third, "count": 2}
    assert json.loads(found["x-death"]) == [expected]
