"""Who published a message, and as which one: what a message says of itself so that it is kept once.

Two headers say it, `x-warren-publisher` and `x-warren-publishing-id`. Together they are the message's *identity*: a
publisher that does not know what became of a message publishes it again with the same one. Names and ids are texts;
a number stands for its decimal digits.

Whether a message has an identity is found out once, when a channel publishes it, and kept as `Message.identified`: it
goes with the message to disk and to other nodes. What the broker itself makes of a message, a dead letter say, has
the same headers and no identity, so that it is never taken for a repetition.

Invariant: an identity is compact. A long id is known by its digest, and so is a long name.

Not here: which identities a queue has seen (`model.window`).
"""

from hashlib import blake2b
from typing import Final

from librt.strings import read_i16_be, read_i32_be, read_i64_be
from mypy_extensions import i64

from warren.errors import ConnectionFault
from warren.wire.field_types import (
    LONG_STRING,
    SIGNED_8,
    SIGNED_16,
    SIGNED_32,
    SIGNED_64,
    SIGNED_64_OLD,
    UNSIGNED_8,
    UNSIGNED_16,
    UNSIGNED_32,
)
from warren.wire.properties import find_header
from warren.wire.property_scan import CONTENT_ENCODING, CONTENT_TYPE, FIXED_BYTES, HEADERS

PUBLISHER: Final = b"x-warren-publisher"
PUBLISHING_ID: Final = b"x-warren-publishing-id"

ID_BYTES_MAX: Final = 16
NAME_BYTES_MAX: Final = 64
"""What is longer is known by a digest of 16 bytes."""

FRAME_HEAD_BYTES: Final[i64] = 7

Identity = tuple[bytes, bytes]
"""A publisher, and one of its ids; both empty if there is none."""

NOBODY: Final[Identity] = (b"", b"")


def is_text_or_number(kind: i64) -> bool:
    """Whether a field of this type can name something."""
    return (
        kind == LONG_STRING
        or kind in (SIGNED_8, UNSIGNED_8, SIGNED_16, UNSIGNED_16)
        or kind in (SIGNED_32, UNSIGNED_32, SIGNED_64, SIGNED_64_OLD)
    )


def identity_in(data: bytes, start: i64, end: i64) -> Identity:
    """What the headers in the table content `data[start:end]`, which was found to be sound, say together."""
    publisher_at: i64 = find_header(data, start, end, PUBLISHER)
    if publisher_at < 0:
        return NOBODY
    id_at: i64 = find_header(data, start, end, PUBLISHING_ID)
    if id_at < 0:
        return NOBODY
    publisher, publishing_id = _text_at(data, publisher_at), _text_at(data, id_at)
    if not publisher or not publishing_id:
        return NOBODY
    return _compact(publisher, NAME_BYTES_MAX), _compact(publishing_id, ID_BYTES_MAX)


def identity_at(data: bytes, at: i64) -> Identity:
    """That of the content that begins at this byte, which whoever sent it says is identified."""
    try:
        return _identity_at(data, at)
    except (ConnectionFault, IndexError):
        # another node vouched for it, and should not have
        return NOBODY


def _identity_at(data: bytes, at: i64) -> Identity:
    header: i64 = at + FRAME_HEAD_BYTES
    end: i64 = header + i64(read_i32_be(data, at + 3))
    flags: i64 = i64(read_i16_be(data, header + FIXED_BYTES - 2)) & 0xFFFF
    if not flags & HEADERS or end > len(data):
        return NOBODY
    start: i64 = header + FIXED_BYTES
    if flags & CONTENT_TYPE:
        start += 1 + data[start]
    if flags & CONTENT_ENCODING:
        start += 1 + data[start]
    size: i64 = i64(read_i32_be(data, start))
    start += 4
    if size < 0 or start + size > end:
        return NOBODY
    return identity_in(data, start, start + size)


def _text_at(data: bytes, at: i64) -> bytes:
    """The text of the field whose type octet is at `at`; empty for one that can name nothing."""
    kind: i64 = data[at]
    at += 1
    if kind == LONG_STRING:
        return data[at + 4 : at + 4 + i64(read_i32_be(data, at))]
    if not is_text_or_number(kind):
        return b""
    return str(int(_number_at(data, at, kind))).encode()


def _number_at(data: bytes, at: i64, kind: i64) -> i64:
    if kind == SIGNED_32:
        return i64(read_i32_be(data, at))
    if kind == UNSIGNED_32:
        return i64(read_i32_be(data, at)) & 0xFFFFFFFF
    if kind == SIGNED_16:
        return i64(read_i16_be(data, at))
    if kind == UNSIGNED_16:
        return i64(read_i16_be(data, at)) & 0xFFFF
    if kind in (SIGNED_64, SIGNED_64_OLD):
        return read_i64_be(data, at)
    number: i64 = data[at]
    return number - 256 if kind == SIGNED_8 and number > 127 else number


def _compact(text: bytes, longest: int) -> bytes:
    return text if len(text) <= longest else blake2b(text, digest_size=16).digest()
