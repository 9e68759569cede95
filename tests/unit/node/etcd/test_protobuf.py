"""Protocol Buffers: round trips, the format's own examples, and malformed bytes."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.node.etcd.messages import ProtobufMessage, encode_bytes, encode_message, encode_number, encode_text

FIELDS = st.integers(1, 2**29 - 1)


@pytest.mark.parametrize(
    ("written", "wire"),
    [
        (encode_number(1, 150), b"\x08\x96\x01"),
        (encode_text(2, "testing"), b"\x12\x07testing"),
        (encode_message(3, encode_number(1, 150)), b"\x1a\x03\x08\x96\x01"),
        (encode_number(1, -1), b"\x08" + b"\xff" * 9 + b"\x01"),
        (encode_number(16, True), b"\x80\x01\x01"),
        (encode_number(1, 0) + encode_bytes(2, b"") + encode_text(3, ""), b""),
        (encode_message(1, b""), b"\x0a\x00"),
    ],
)
def test_fields_are_written_as_the_format_says(written: bytes, wire: bytes) -> None:
    assert written == wire


@given(FIELDS, st.integers(-(2**63), 2**63 - 1))
def test_a_signed_number_is_read_as_it_was_written(field: int, value: int) -> None:
    assert ProtobufMessage(encode_number(field, value)).number(field) == value


@given(FIELDS, st.integers(0, 2**64 - 1))
def test_an_unsigned_number_is_read_as_it_was_written(field: int, value: int) -> None:
    assert ProtobufMessage(encode_number(field, value)).identity(field) == value


@given(st.lists(st.binary()))
def test_a_field_may_come_more_than_once(values: list[bytes]) -> None:
    read = ProtobufMessage(b"".join(encode_message(5, encode_bytes(1, value)) for value in values))
    assert [inner.octets(1) for inner in read.messages(5)] == values


def test_a_field_that_is_missing_has_its_default() -> None:
    empty = ProtobufMessage(b"")
    assert (empty.number(1), empty.flag(1), empty.octets(1), empty.text(1), empty.texts(1)) == (0, False, b"", "", [])
    assert empty.message(1).number(1) == 0


def test_unknown_fields_are_passed_over() -> None:
    eight_octets, four_octets = b"\x09" + bytes(8), b"\x15" + bytes(4)
    read = ProtobufMessage(eight_octets + four_octets + encode_number(3, 7) + encode_text(4, "x") + encode_number(5, 8))
    assert (read.number(3), read.number(5)) == (7, 8)


@pytest.mark.parametrize("data", [b"\x08", b"\x08\xff", b"\x0a\x05ab", b"\x0b", b"\x08" + b"\xff" * 11])
def test_truncated_and_malformed_messages_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        ProtobufMessage(data)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_refused(data: bytes) -> None:
    with suppress(ValueError):
        ProtobufMessage(data)
