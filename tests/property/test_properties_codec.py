"""Content headers: a scan agrees with decoding, an edit touches nothing but what it is told to."""

from hypothesis import given
from hypothesis import strategies as st

from tests.property.peer_faults import fault_of
from tests.property.wire_strategies import header_payloads, mutated, properties, surrogate_text, tables
from warren.errors import FRAME_ERROR, SYNTAX_ERROR, UNEXPECTED_FRAME
from warren.wire.field_tables import Table
from warren.wire.field_types import name_end, skip_value
from warren.wire.properties import (
    Properties,
    decode_properties,
    edit_headers,
    encode_header_payload,
    encode_properties,
    find_header,
)
from warren.wire.property_scan import PropertyScan

any_payload = st.one_of(header_payloads(), mutated(header_payloads()), st.binary(max_size=60))
names = st.lists(surrogate_text(4), max_size=4)


def scanned(payload: bytes) -> PropertyScan | None:
    """The scan of a payload, or nothing if it was refused."""
    scan = PropertyScan()
    fault = fault_of(lambda: scan.scan(payload, 0, len(payload)))
    assert fault is None or fault.code in (SYNTAX_ERROR, FRAME_ERROR, UNEXPECTED_FRAME)
    return scan if fault is None else None


def decoded(payload: bytes) -> Properties | None:
    fault = fault_of(lambda: decode_properties(payload, 0, len(payload)))
    return decode_properties(payload, 0, len(payload)) if fault is None else None


def raw_headers(payload: bytes) -> list[tuple[bytes, bytes]]:
    """Name and value of each header, as bytes."""
    scan = scanned(payload)
    assert scan is not None
    fields = []
    at = scan.headers_start
    while at < scan.headers_end:
        value_at = name_end(payload, at, scan.headers_end)
        after = skip_value(payload, value_at, scan.headers_end, 1)
        fields.append((payload[at + 1 : value_at], payload[value_at:after]))
        at = after
    return fields


def ranges(data: bytes, scan: PropertyScan) -> tuple[bytes, bytes]:
    return data[scan.expiration_start : scan.expiration_end], data[scan.headers_start : scan.headers_end]


def text(octets: bytes) -> str:
    return octets.decode("utf-8", "surrogateescape")


@given(properties(), st.integers(0, 2**63 - 1))
def test_properties_come_back_as_they_were_written(written: Properties, body_bytes: int) -> None:
    payload = encode_header_payload(written, body_bytes)
    assert decoded(payload) == written
    scan = scanned(payload)
    assert scan is not None
    assert (scan.class_id, scan.body_bytes) == (60, body_bytes)


@given(properties(), st.integers(0, 2**63 - 1))
def test_properties_alone_are_the_end_of_the_whole_header(written: Properties, body_bytes: int) -> None:
    whole = encode_header_payload(written, body_bytes)
    assert whole[12:] == encode_properties(written)


@given(any_payload)
def test_a_scan_agrees_with_decoding(payload: bytes) -> None:
    scan, found = scanned(payload), decoded(payload)
    if scan is None or found is None:
        assert scan is None
        assert found is None
        return
    assert scan.delivery_mode == (found.delivery_mode or 0)
    assert scan.priority == (-1 if found.priority is None else found.priority)
    assert text(payload[scan.expiration_start : scan.expiration_end]) == (found.expiration or "")
    assert text(payload[scan.user_id_start : scan.user_id_end]) == (found.user_id or "")
    assert text(payload[scan.reply_to_start : scan.reply_to_end]) == (found.reply_to or "")
    assert (scan.headers_start > 0) == (found.headers is not None)


@given(header_payloads(), st.binary(max_size=20), st.binary(max_size=20))
def test_a_scan_keeps_within_its_range(payload: bytes, before: bytes, after: bytes) -> None:
    alone, within = scanned(payload), PropertyScan()
    data, start = before + payload + after, len(before)
    fault = fault_of(lambda: within.scan(data, start, start + len(payload)))
    assert (fault is None) == (alone is not None)
    if alone is not None:
        assert ranges(data, within) == ranges(payload, alone)


@given(header_payloads(), st.binary(max_size=4))
def test_a_header_is_found_if_and_only_if_it_is_there(payload: bytes, unlikely: bytes) -> None:
    scan = scanned(payload)
    if scan is None:
        return
    fields = raw_headers(payload)
    for key in [unlikely] + [name for name, _ in fields]:
        at = find_header(payload, scan.headers_start, scan.headers_end, key)
        values = [value for name, value in fields if name == key]
        assert (at >= 0) == bool(values)
        assert at < 0 or payload[at : at + len(values[0])] == values[0]


@given(header_payloads(), names, tables(), st.booleans())
def test_an_edit_keeps_every_other_byte(payload: bytes, remove: list[str], add: Table, drop_expiration: bool) -> None:
    if scanned(payload) is None:
        return
    edited = edit_headers(payload, remove, add, drop_expiration)
    dropped = {*remove, *add}
    kept = [(name, value) for name, value in raw_headers(payload) if text(name) not in dropped]
    after = raw_headers(edited)
    assert after[: len(kept)] == kept
    assert [text(name) for name, _ in after[len(kept) :]] == list(add)
    before_properties, after_properties = decoded(payload), decoded(edited)
    assert before_properties is not None
    assert after_properties is not None
    if drop_expiration:
        before_properties.expiration = None
    if before_properties.headers is None:
        assert (after_properties.headers is None) == (not add)
    before_properties.headers = after_properties.headers
    assert after_properties == before_properties
    assert edited[:12] == payload[:12]


@given(header_payloads(), names, tables(), st.booleans())
def test_an_edit_done_twice_is_done_once(payload: bytes, remove: list[str], add: Table, drop_expiration: bool) -> None:
    if scanned(payload) is None:
        return
    edited = edit_headers(payload, remove, add, drop_expiration)
    assert edit_headers(edited, remove, add, drop_expiration) == edited


@given(header_payloads())
def test_an_edit_of_nothing_changes_nothing(payload: bytes) -> None:
    if scanned(payload) is not None:
        assert edit_headers(payload, [], {}) == payload
