"""The PROXY header, from whole ones, split ones and bad ones."""

import socket
import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.node.proxy_protocol import (
    BODY_BYTES_MAX,
    LINE_BYTES_MAX,
    SIGNATURE,
    ProxiedAddresses,
    ProxyHeaderReader,
    ProxyHeaderRefused,
)

CLIENT = ProxiedAddresses(("192.0.2.7", 50112), ("198.51.100.1", 5672))
CLIENT_6 = ProxiedAddresses(("2001:db8::7", 50112), ("2001:db8::1", 5672))
LOCAL, PROXY = 0x20, 0x21
TCP4, TCP6, UDP4, UNIX, UNSPECIFIED = 0x11, 0x21, 0x12, 0x31, 0x00


def binary(command: int, family: int, body: bytes) -> bytes:
    return SIGNATURE + struct.pack(">BBH", command, family, len(body)) + body


def addresses(source: str, target: str, source_port: int = 50112, target_port: int = 5672) -> bytes:
    family = socket.AF_INET6 if ":" in source else socket.AF_INET
    packed = socket.inet_pton(family, source) + socket.inet_pton(family, target)
    return packed + struct.pack(">HH", source_port, target_port)


FOUR = addresses("192.0.2.7", "198.51.100.1")
SIX = addresses("2001:db8::7", "2001:db8::1")
EXTENSION = b"\x04\x00\x03abc"


def read(data: bytes) -> tuple[ProxiedAddresses | None, bytes]:
    """Read as from a socket, never more than requested: the header, and the unread bytes."""
    reader = ProxyHeaderReader()
    while reader.wanted:
        piece, data = data[: reader.wanted], data[reader.wanted :]
        assert piece, "it wants more than there is"
        reader.feed(piece)
    return reader.ends, data


@pytest.mark.parametrize(
    ("header", "ends"),
    [
        (b"PROXY TCP4 192.0.2.7 198.51.100.1 50112 5672\r\n", CLIENT),
        (b"PROXY TCP6 2001:db8::7 2001:db8::1 50112 5672\r\n", CLIENT_6),
        (b"PROXY UNKNOWN\r\n", None),
        (b"PROXY UNKNOWN ffff:: ffff:: 1 2\r\n", None),
        (b"PROXY TCP6 ::ffff:192.0.2.7 ::ffff:198.51.100.1 50112 5672\r\n", CLIENT),
        (binary(PROXY, TCP4, FOUR), CLIENT),
        (binary(PROXY, TCP6, SIX), CLIENT_6),
        (binary(PROXY, TCP6, addresses("::ffff:192.0.2.7", "::ffff:198.51.100.1")), CLIENT),
        (binary(PROXY, TCP4, FOUR + EXTENSION), CLIENT),
        (binary(PROXY, TCP4, FOUR + bytes(BODY_BYTES_MAX - len(FOUR))), CLIENT),
        (binary(LOCAL, UNSPECIFIED, b""), None),
        (binary(LOCAL, TCP4, FOUR), None),
        (binary(PROXY, UNSPECIFIED, b""), None),
        (binary(PROXY, UDP4, FOUR), None),
        (binary(PROXY, UNIX, bytes(216)), None),
    ],
)
@pytest.mark.parametrize("rest", [b"", b"AMQP\0\0\x09\x01", b"\r\n\r\n\0\r\nQUIT\n", b"\n"])
def test_a_header_is_read_and_the_bytes_after_it_are_left(
    header: bytes, ends: ProxiedAddresses | None, rest: bytes
) -> None:
    assert read(header + rest) == (ends, rest)


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (b"AMQP\0\0\x09\x01\x01\0\0\0", "no PROXY header"),
        (b"GET / HTTP/1.1\r\n", "no PROXY header"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\x00", "no PROXY header"),
        (b"PROXY TCP4 192.0.2.7 198.51.100.1 50112\r\n", "two addresses and two ports"),
        (b"PROXY TCP5 192.0.2.7 198.51.100.1 50112 5672\r\n", "two addresses and two ports"),
        (b"PROXY  TCP4 192.0.2.7 198.51.100.1 50112 5672\r\n", "two addresses and two ports"),
        (b"PROXY TCP4 2001:db8::7 2001:db8::1 50112 5672\r\n", "not of TCP4"),
        (b"PROXY TCP4 192.0.2.777 198.51.100.1 50112 5672\r\n", "not of TCP4"),
        (b"PROXY TCP6 fe80::7%\x1b[31m fe80::1 50112 5672\r\n", "not of TCP6"),
        (b"PROXY TCP4 192.0.2.7 198.51.100.1 50112 65536\r\n", "ports"),
        (b"PROXY TCP4 192.0.2.7 198.51.100.1 -1 5672\r\n", "ports"),
        (b"PROXY TCP4 192.0.2.7 198.51.100.1 50112 5672\n\n\n", "does not end"),
        (b"PROXY UNKNOWN " + b"x" * LINE_BYTES_MAX, "does not end"),
        (binary(0x31, TCP4, FOUR), "version and command are 0x31"),
        (binary(0x22, TCP4, FOUR), "version and command are 0x22"),
        (binary(PROXY, TCP4, FOUR[:-1]), "11 bytes instead of 12"),
        (binary(PROXY, TCP6, FOUR), "12 bytes instead of 36"),
        (binary(PROXY, TCP4, bytes(BODY_BYTES_MAX + 1)), "more than 4096"),
    ],
)
def test_a_malformed_header_is_refused_with_the_reason(header: bytes, reason: str) -> None:
    with pytest.raises(ProxyHeaderRefused, match=reason):
        read(header + b"more of it")


def test_a_line_of_the_greatest_length_is_read() -> None:
    line = b"PROXY UNKNOWN " + b"x" * (LINE_BYTES_MAX - 16) + b"\r\n"
    assert len(line) == LINE_BYTES_MAX
    assert read(line + b"AMQP") == (None, b"AMQP")


@given(st.binary(max_size=300), st.sampled_from([b"", b"PROXY ", b"PROXY TCP4 ", SIGNATURE, SIGNATURE + b"\x21\x11"]))
def test_any_bytes_are_read_or_refused(data: bytes, start: bytes) -> None:
    reader, given = ProxyHeaderReader(), start + data
    with suppress(ProxyHeaderRefused):
        while reader.wanted and given:
            piece, given = given[: reader.wanted], given[reader.wanted :]
            reader.feed(piece)
    assert 0 <= reader.wanted <= BODY_BYTES_MAX
