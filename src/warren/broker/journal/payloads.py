"""The payload of a message: the bytes that journal records and replicas have of it.

::

    0   i64 body_bytes
    8   i64 expiration_ms
    16  u32 frame_bytes_max, u16 channel, u16 1 if the message has a publishing id
    24  u32 names_bytes
    28  names, content

The names are the envelope's tail (exchange and routing key as short strings), then the copy keys as long strings,
because keys in CC and BCC have no length limit. Priority, deadline, position and durability are not part of the
payload: they belong to a message in one queue, or stand in the record's header.

Not here: the record around the payload, and its checksums (`broker.journal.records`).
"""

from typing import Final
from zlib import crc32

from librt.strings import BytesWriter, read_i32_be, read_i64_be, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

from warren.broker.model.deduplication import NO_IDENTITY, PublishingIdentity, identity_at
from warren.broker.model.message import Envelope, Message
from warren.errors import StoreError

PREFIX_BYTES: Final[i64] = 28
"""The size of a payload up to its names."""

IDENTIFIED: Final[i64] = 1

LOW_32: Final[i64] = 0xFFFFFFFF


def message_payload(message: Message) -> tuple[bytes, i64]:
    """The payload of a message, and its checksum."""
    payload = payload_prefix(message) + message.content
    return payload, crc32(payload)


def payload_prefix(message: Message) -> bytes:
    """A payload without the content."""
    envelope = message.envelope
    names = envelope.tail
    if envelope.copy_keys:
        names += _long_strings(envelope.copy_keys)
    out = BytesWriter()
    write_i64_be(out, message.body_bytes)
    write_i64_be(out, message.expiration_ms)
    frame_bytes_max: i64 = (message.frame_bytes_max ^ 0x80000000) - 0x80000000
    identified: i64 = IDENTIFIED if message.identified else 0
    write_i64_be(out, frame_bytes_max << 32 | message.channel << 16 | identified)
    write_i32_be(out, i32(len(names)))
    out.write(names)
    return out.getvalue()


def _long_strings(keys: list[str]) -> bytes:
    out = BytesWriter()
    for key in keys:
        text = key.encode("utf-8", "surrogateescape")
        write_i32_be(out, i32(len(text)))
        out.write(text)
    return out.getvalue()


def payload_body_bytes(data: bytes, payload_start: i64) -> i64:
    """The size of the body in the message payload that starts at this byte of `data`."""
    return read_i64_be(data, payload_start)


def payload_names_bytes(data: bytes, payload_start: i64) -> i64:
    """The size of the names in the message payload that starts at this byte of `data`."""
    return i64(read_i32_be(data, payload_start + PREFIX_BYTES - 4)) & LOW_32


def payload_is_identified(payload: bytes) -> bool:
    return read_i64_be(payload, 16) & IDENTIFIED != 0


def payload_identity(data: bytes, payload_start: i64) -> PublishingIdentity:
    """The publishing id of the message with the complete payload that starts at this byte of `data`."""
    if read_i64_be(data, payload_start + 16) & IDENTIFIED == 0:
        return NO_IDENTITY
    return identity_at(data, payload_start + PREFIX_BYTES + payload_names_bytes(data, payload_start))


def decode_message(
    payload: bytes, priority: i64, persistent: bool, envelopes: dict[bytes, Envelope] | None = None
) -> Message:
    """The message of a payload. `envelopes` is a cache that the caller bounds; it saves an object per message."""
    size: i64 = len(payload)
    if size < PREFIX_BYTES:
        raise StoreError(f"a stored message is cut short: {size} bytes")
    body_bytes: i64 = read_i64_be(payload, 0)
    word: i64 = read_i64_be(payload, 16)
    content_start: i64 = PREFIX_BYTES + payload_names_bytes(payload, 0)
    if body_bytes < 0 or content_start + body_bytes > size:
        raise StoreError(f"a stored message contradicts itself: {size} bytes for a body of {body_bytes}")
    names = payload[PREFIX_BYTES:content_start]
    envelope = envelopes.get(names) if envelopes is not None else None
    if envelope is None:
        envelope = _envelope_of(names)
        if envelopes is not None:
            envelopes[names] = envelope
    message = Message(
        envelope,
        payload[content_start:],
        (word >> 16) & 0xFFFF,
        body_bytes,
        (word >> 32) & LOW_32,
        persistent,
        priority,
        read_i64_be(payload, 8),
    )
    message.identified = word & IDENTIFIED != 0
    return message


def _envelope_of(names: bytes) -> Envelope:
    exchange, at = _text_at(names, 0, 1)
    routing_key, at = _text_at(names, at, 1)
    copy_keys: list[str] = []
    while at < len(names):
        key, at = _text_at(names, at, 4)
        copy_keys.append(key)
    return Envelope(exchange, routing_key, copy_keys)


def _text_at(names: bytes, at: int, length_bytes: int) -> tuple[str, int]:
    start = at + length_bytes
    end = start + int.from_bytes(names[at:start], "big")
    if end > len(names) or start > len(names):
        raise StoreError("a stored message contradicts itself: its names do not end where they should")
    return names[start:end].decode("utf-8", "surrogateescape"), end
