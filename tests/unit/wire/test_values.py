"""Arguments and field tables; values that do not fit are refused on writing."""

import tracemalloc
from decimal import Decimal

import pytest
from librt.strings import BytesWriter

from tests.support.amqp_values import Typed
from tests.support.amqp_values import write_table as written_by_the_tests
from warren.errors import FRAME_ERROR, SYNTAX_ERROR, ConnectionFault
from warren.wire.field_tables import Long, Table, Timestamp, decode_table, encode_table
from warren.wire.field_types import DEPTH_MAX, skip_table
from warren.wire.scalars import write_long, write_longlong, write_octet, write_short, write_shortstr
from warren.wire.values import ArgumentReader


def decoded(content: bytes) -> Table:
    return decode_table(content, 0, len(content))


def skipped(content: bytes) -> None:
    skip_table(content, 0, len(content), 1)


def field(value: bytes) -> bytes:
    return b"\x01k" + value


def nested(depth: int) -> bytes:
    """The content of a table with this many nested tables."""
    content = b""
    for _ in range(depth - 1):
        content = field(b"F" + len(content).to_bytes(4, "big") + content)
    return content


@pytest.mark.parametrize(
    ("wire", "value"),
    [
        (b"t\x00", False),
        (b"t\x02", True),
        (b"b\xff", -1),
        (b"B\xff", 255),
        (b"s\xff\xfe", -2),
        (b"u\xff\xfe", 65534),
        (b"I\xff\xff\xff\xfd", -3),
        (b"i\xff\xff\xff\xfd", 4294967293),
        (b"l" + b"\xff" * 8, -1),
        (b"L" + b"\xff" * 8, -1),
        (b"f\x3f\xc0\x00\x00", 1.5),
        (b"d\x3f\xf8\x00\x00\x00\x00\x00\x00", 1.5),
        (b"D\x02\x00\x00\x01\x3b", Decimal("3.15")),
        (b"D\xc8\xff\xff\xff\xff", Decimal("4294967295E-200")),
        (b"S\x00\x00\x00\x02\xc3\xa9", "é"),
        (b"S\x00\x00\x00\x01\xff", "\udcff"),
        (b"x\x00\x00\x00\x02\x00\xff", b"\x00\xff"),
        (b"A\x00\x00\x00\x03Vt\x01", [None, True]),
        (b"F\x00\x00\x00\x03\x01aV", {"a": None}),
        (b"T" + b"\xff" * 8, Timestamp(18446744073709551615)),
        (b"V", None),
    ],
)
def test_every_field_type_of_rabbitmq_has_its_python_value(wire: bytes, value: object) -> None:
    found = decoded(field(wire))["k"]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("value", "letter"),
    [
        (True, "t"),
        (2147483647, "I"),
        (-2147483648, "I"),
        (2147483648, "l"),
        (-2147483649, "l"),
        (9223372036854775807, "l"),
        ("text", "S"),
        (1.25, "d"),
    ],
)
def test_a_value_is_written_with_its_natural_type(value: object, letter: str) -> None:
    typed = Typed(letter, value.encode() if isinstance(value, str) else value)
    assert encode_table({"k": value}) == written_by_the_tests({"k": typed})


def test_every_long_takes_eight_octets() -> None:
    assert encode_table({"count": Long(1)}) == b"\x00\x00\x00\x0f\x05countl" + bytes(7) + b"\x01"


def test_a_name_given_twice_means_its_first_value() -> None:
    assert decoded(field(b"B\x01") + field(b"B\x02")) == {"k": 1}


def test_a_decimal_without_a_fraction_is_written_as_a_whole_number() -> None:
    assert decoded(encode_table({"k": Decimal("12E+3")})[4:]) == {"k": Decimal(12000)}


@pytest.mark.parametrize(
    "content",
    [
        b"\x01",
        b"\x01k",
        b"\x05k",
        field(b"I\x00\x00\x00"),
        field(b"l" + bytes(7)),
        field(b"B"),
        field(b"S\x00\x00"),
        field(b"S\x00\x00\x00\x02a"),
        field(b"S\xff\xff\xff\xff"),
        field(b"F\x00\x00\x00\x01\x00"),
        field(b"A\x00\x00\x00\x02I\x00"),
        field(b"A\x00\x00\x00\x01I" + bytes(4)),
        field(b"Q"),
        field(b"\x00"),
        field(b"f\x7f\xc0\x00\x00"),
        field(b"f\xff\x80\x00\x00"),
        field(b"d\x7f\xf8" + bytes(6)),
        field(b"d\xff\xf0" + bytes(6)),
    ],
)
def test_a_malformed_table_is_a_syntax_error_decoded_or_skipped(content: bytes) -> None:
    for read in (decoded, skipped):
        with pytest.raises(ConnectionFault) as fault:
            read(content)
        assert fault.value.code == SYNTAX_ERROR


@pytest.mark.parametrize("letter", [b"S", b"x", b"A", b"F"])
def test_a_size_that_reads_as_negative_is_refused(letter: bytes) -> None:
    # as a signed number it would lead back to the start of its own field, and never end
    content = field(letter + (2**32 - 7).to_bytes(4, "big"))
    for read in (decoded, skipped):
        with pytest.raises(ConnectionFault, match="a field of 4294967289 octets overruns its table"):
            read(content)


def test_tables_nest_as_deep_as_the_limit_and_no_deeper() -> None:
    content = nested(DEPTH_MAX)
    depth = 1
    table: object = decoded(content)
    while isinstance(table, dict) and table:
        table = table["k"]
        depth += 1
    assert depth == DEPTH_MAX
    skipped(content)
    for read in (decoded, skipped):
        with pytest.raises(ConnectionFault, match="nested deeper"):
            read(nested(DEPTH_MAX + 1))


def test_arrays_count_towards_the_depth_too() -> None:
    content = b""
    for _ in range(DEPTH_MAX):
        content = b"A" + len(content).to_bytes(4, "big") + content
    for read in (decoded, skipped):
        with pytest.raises(ConnectionFault, match="nested deeper"):
            read(field(content))


@pytest.mark.parametrize(
    "content",
    [
        b"".join(b"\x04" + number.to_bytes(4, "big") + b"V" for number in range(20_000)),
        field(b"A\x00\x01\x86\xa0" + b"F\x00\x00\x00\x00" * 20_000),
        field(b"A\x00\x01\x86\xa0" + b"V" * 100_000),
        field(b"A\x00\x01\x86\xa0" + b"S\x00\x00\x00\x00" * 20_000),
    ],
    ids=["names", "empty tables", "nothings", "empty strings"],
)
def test_the_costliest_tables_take_memory_in_proportion_to_their_bytes(content: bytes) -> None:
    tracemalloc.start()
    try:
        table = decoded(content)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert table
    assert peak_bytes <= 50 * len(content)


def test_a_table_that_contains_itself_is_refused_on_writing() -> None:
    table: Table = {}
    table["k"] = table
    with pytest.raises(ValueError, match=f"nests at most {DEPTH_MAX}"):
        encode_table(table)


@pytest.mark.parametrize(
    "value",
    [
        object(),
        2**63,
        -(2**63) - 1,
        float("nan"),
        float("inf"),
        Decimal(-1),
        Decimal("NaN"),
        Decimal("1E-256"),
        Decimal(4294967296),
        Decimal("1E+10"),
        Timestamp(-1),
        Timestamp(2**64),
        Long(2**63),
    ],
)
def test_a_value_no_table_can_carry_is_refused_on_writing(value: object) -> None:
    with pytest.raises(ValueError):
        encode_table({"k": value})


def test_timestamps_compare_sort_and_hash_by_their_seconds() -> None:
    assert sorted([Timestamp(2), Timestamp(1)]) == [Timestamp(1), Timestamp(2)]
    assert len({Timestamp(1), Timestamp(1), Long(1)}) == 2
    assert repr([Timestamp(1), Long(2)]) == "[Timestamp(1), Long(2)]"


def test_a_short_string_of_255_bytes_is_the_longest() -> None:
    out = BytesWriter()
    write_shortstr(out, "é" * 127 + "a")
    assert out.getvalue() == b"\xff" + ("é" * 127 + "a").encode()
    with pytest.raises(ValueError, match="at most 255 bytes, this one has 256"):
        write_shortstr(out, "é" * 128)


def test_integers_use_all_their_bits_and_no_more() -> None:
    out = BytesWriter()
    write_octet(out, 0xFE)
    write_short(out, 0xFEDC)
    write_long(out, 0xFEDCBA98)
    write_longlong(out, 0xFEDCBA9876543210)
    assert out.getvalue() == bytes.fromhex("fe fedc fedcba98 fedcba9876543210")


@pytest.mark.parametrize(
    ("write", "too_large"), [(write_octet, 2**8), (write_short, 2**16), (write_long, 2**32), (write_longlong, 2**64)]
)
def test_an_integer_that_does_not_fit_is_refused(write, too_large) -> None:  # type: ignore[no-untyped-def]
    for value in (-1, too_large):
        with pytest.raises(ValueError, match=f"not {value}"):
            write(BytesWriter(), value)


def test_arguments_are_read_in_order_within_their_range() -> None:
    octets = b"\xff" + bytes.fromhex("fe fedc fedcba98 ffffffffffffffff") + b"\x02ab\x00\x00\x00\x01c\x05" + b"\xff"
    reader = ArgumentReader(octets, 1, len(octets) - 1)
    assert (reader.octet(), reader.short(), reader.long(), reader.longlong()) == (0xFE, 0xFEDC, 0xFEDCBA98, -1)
    assert (reader.shortstr(), reader.longstr()) == ("ab", b"c")
    assert not reader.at_end()
    assert reader.bits() == 5
    assert reader.at_end()


@pytest.mark.parametrize("read", ["octet", "bits", "short", "long", "longlong", "shortstr", "text", "longstr", "table"])
def test_reading_past_the_end_quotes_the_arguments_as_rabbitmq_does(read: str) -> None:
    octets = b"zz\x05zz"
    reader = ArgumentReader(octets, 2, 2 if read in ("octet", "bits") else 3)
    with pytest.raises(ConnectionFault) as fault:
        getattr(reader, read)()
    assert fault.value.code == FRAME_ERROR
    assert fault.value.text == ("cannot decode <<>>" if read in ("octet", "bits") else "cannot decode <<5>>")


def test_a_long_quotation_is_cut_to_fit_a_reply_text() -> None:
    reader = ArgumentReader(b"\xc8" * 100_000, 0, 100_000)
    reply_text = reader.fault().reply_text()
    assert len(reply_text) == 255
    assert reply_text.startswith("FRAME_ERROR - cannot decode <<200,200,")
    assert reply_text.endswith("200,20...")


def test_bytes_that_are_not_utf8_survive_and_are_noticed_in_text() -> None:
    reader = ArgumentReader(b"\x02\xff\xfe\x02\xff\xfe", 0, 6)
    assert reader.shortstr().encode("utf-8", "surrogateescape") == b"\xff\xfe"
    assert not reader.malformed_text
    assert reader.text().encode("utf-8", "surrogateescape") == b"\xff\xfe"
    assert reader.malformed_text
