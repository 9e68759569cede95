"""Protocol Buffers: what is written is read again, as the format's own examples have it, and no bytes do harm."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.node.etcd.protobuf import Message, message, number, octets, text

FIELDS = st.integers(1, 2**29 - 1)


@pytest.mark.parametrize(
    ("written", "wire"),
    [
        (number(1, 150), b"\x08\x96\x01"),
        (text(2, "testing"), b"\x12\x07testing"),
        (message(3, number(1, 150)), b"\x1a\x03\x08\x96\x01"),
        (number(1, -1), b"\x08" + b"\xff" * 9 + b"\x01"),
        (number(16, True), b"\x80\x01\x01"),
        (number(1, 0) + octets(2, b"") + text(3, ""), b""),
        (message(1, b""), b"\x0a\x00"),
    ],
)
def test_fields_are_written_as_the_format_says(written: bytes, wire: bytes) -> None:
    assert written == wire


@given(FIELDS, st.integers(-(2**63), 2**63 - 1))
def test_a_signed_number_is_read_as_it_was_written(field: int, value: int) -> None:
    assert Message(number(field, value)).number(field) == value


@given(FIELDS, st.integers(0, 2**64 - 1))
def test_an_unsigned_number_is_read_as_it_was_written(field: int, value: int) -> None:
    assert Message(number(field, value)).identity(field) == value


@given(st.lists(st.binary()))
def test_a_field_may_come_more_than_once(values: list[bytes]) -> None:
    read = Message(b"".join(message(5, octets(1, value)) for value in values))
    assert [inner.octets(1) for inner in read.messages(5)] == values


def test_a_field_that_is_missing_has_its_default() -> None:
    empty = Message(b"")
    assert (empty.number(1), empty.flag(1), empty.octets(1), empty.text(1), empty.texts(1)) == (0, False, b"", "", [])
    assert empty.message(1).number(1) == 0


def test_fields_that_nobody_asks_for_are_passed_over() -> None:
    eight_octets, four_octets = b"\x09" + bytes(8), b"\x15" + bytes(4)
    read = Message(eight_octets + four_octets + number(3, 7) + text(4, "x") + number(5, 8))
    assert (read.number(3), read.number(5)) == (7, 8)


@pytest.mark.parametrize("data", [b"\x08", b"\x08\xff", b"\x0a\x05ab", b"\x0b", b"\x08" + b"\xff" * 11])
def test_what_is_cut_short_or_no_message_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        Message(data)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_refused(data: bytes) -> None:
    with suppress(ValueError):
        Message(data)
