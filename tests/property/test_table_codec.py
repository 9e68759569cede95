"""Field tables: what is written can be read, and no bytes do harm."""

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from tests.property.peer_faults import fault_of
from tests.property.wire_strategies import field_bytes, surrogate_text, tables
from warren.errors import SYNTAX_ERROR
from warren.wire.field_tables import Table, decode_table, encode_table
from warren.wire.field_types import skip_table


def same(left: object, right: object) -> bool:
    """Equality that tells `True` from `1` and looks into containers."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, Decimal) and isinstance(right, Decimal):
        return left.as_tuple() == right.as_tuple()
    return left == right


@given(tables())
def test_a_table_comes_back_as_it_was_written(table: Table) -> None:
    encoded = encode_table(table)
    assert int.from_bytes(encoded[:4], "big") == len(encoded) - 4
    assert same(decode_table(encoded, 4, len(encoded)), table)


@given(st.binary(max_size=300))
def test_bytes_are_text_and_back_without_loss(octets: bytes) -> None:
    content = b"\x01kS" + len(octets).to_bytes(4, "big") + octets
    table = decode_table(content, 0, len(content))
    assert encode_table(table)[4:] == content


@given(surrogate_text(255))
def test_any_name_comes_back(name: str) -> None:
    encoded = encode_table({name: None})
    assert decode_table(encoded, 4, len(encoded)) == {name: None}


@given(st.one_of(st.binary(max_size=200), field_bytes()))
def test_any_bytes_decode_or_are_a_syntax_error(content: bytes) -> None:
    fault = fault_of(lambda: decode_table(content, 0, len(content)))
    assert fault is None or fault.code == SYNTAX_ERROR


@given(st.one_of(st.binary(max_size=200), field_bytes()))
def test_skipping_accepts_exactly_what_decoding_accepts(content: bytes) -> None:
    skipping = fault_of(lambda: skip_table(content, 0, len(content), 1))
    decoding = fault_of(lambda: decode_table(content, 0, len(content)))
    assert str(skipping) == str(decoding)


@given(field_bytes())
def test_a_decoded_table_can_be_encoded_again(content: bytes) -> None:
    if fault_of(lambda: decode_table(content, 0, len(content))) is None:
        table = decode_table(content, 0, len(content))
        encoded = encode_table(table)
        assert same(decode_table(encoded, 4, len(encoded)), table)


@given(tables(), st.binary(max_size=20), st.binary(max_size=20))
def test_decoding_keeps_within_its_range(table: Table, before: bytes, after: bytes) -> None:
    encoded = encode_table(table)[4:]
    data = before + encoded + after
    assert same(decode_table(data, len(before), len(before) + len(encoded)), table)
