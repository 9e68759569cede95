"""Writers for AMQP integers and strings: big-endian unsigned integers, short strings, long strings.

A value that does not fit raises a `ValueError`: it is a bug in the caller, not a fault of the peer. Strings are UTF-8
with `surrogateescape`, so bytes that are not UTF-8 leave as they came.

Not here: reading the arguments of a method (`wire.values`), values in field tables (`wire.field_tables`).
"""

from typing import Final

from librt.strings import BytesWriter, write_i16_be, write_i32_be, write_i64_be
from mypy_extensions import i16, i32, i64, u8

SHORTSTR_BYTES_MAX: Final = 255
REPLY_TEXT_BYTES_MAX: Final = 241
"""The bytes of a short string that remain after `FRAME_ERROR - `."""


def lossless_text(octets: bytes) -> str:
    """Any bytes as text that encodes to the same bytes."""
    # without a strict attempt first: the exception for a hostile name would cost several decodings
    return octets.decode("utf-8", "surrogateescape")


def write_octet(out: BytesWriter, value: int) -> None:
    if not 0 <= value <= 0xFF:
        raise ValueError(f"an octet carries 0 to 255, not {value}")
    out.append(value)


def write_short(out: BytesWriter, value: int) -> None:
    if not 0 <= value <= 0xFFFF:
        raise ValueError(f"a short integer carries 0 to 65535, not {value}")
    write_i16_be(out, i16(value - 0x10000 if value > 0x7FFF else value))


def write_long(out: BytesWriter, value: int) -> None:
    if not 0 <= value <= 0xFFFFFFFF:
        raise ValueError(f"a long integer carries 0 to 4294967295, not {value}")
    write_i32_be(out, i32(value - 0x100000000 if value > 0x7FFFFFFF else value))


def write_longlong(out: BytesWriter, value: int) -> None:
    if not 0 <= value <= 0xFFFFFFFFFFFFFFFF:
        raise ValueError(f"a long long integer carries 0 to 18446744073709551615, not {value}")
    write_i64_be(out, i64(value - 0x10000000000000000 if value > 0x7FFFFFFFFFFFFFFF else value))


def write_shortstr(out: BytesWriter, text: str) -> None:
    encoded = text.encode("utf-8", "surrogateescape")
    size = len(encoded)
    if size > SHORTSTR_BYTES_MAX:
        raise ValueError(f"a short string carries at most 255 bytes, this one has {size}")
    out.append(size)
    out.write(encoded)


def write_longstr(out: BytesWriter, data: bytes) -> None:
    write_long(out, len(data))
    out.write(data)


def patch_size(out: BytesWriter, size_at: i64) -> None:
    """Write the number of octets after `size_at + 4` into the four octets at `size_at`."""
    size: i64 = len(out) - size_at - 4
    out[size_at] = u8((size >> 24) & 0xFF)
    out[size_at + 1] = u8((size >> 16) & 0xFF)
    out[size_at + 2] = u8((size >> 8) & 0xFF)
    out[size_at + 3] = u8(size & 0xFF)


def octets_text(before: str, data: bytes, start: i64, end: i64) -> str:
    """A reply text that quotes octets in RabbitMQ's format, `<<1,2,3>>`, cut to the length of a reply text."""
    shown_end: i64 = min(end, start + REPLY_TEXT_BYTES_MAX)
    octets = ",".join([str(octet) for octet in data[start:shown_end]])
    text = f"{before}<<{octets}>>"
    if len(text) > REPLY_TEXT_BYTES_MAX:
        return text[: REPLY_TEXT_BYTES_MAX - 3] + "..."
    return text
