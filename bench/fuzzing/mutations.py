"""Mutations of frames: each changes one detail, as a broken or hostile client would.

Most keep the framing valid, so that the fault reaches the session; some break the stream itself.

Not here: the frames they start from (`conversations`).
"""

import random
import struct
from collections.abc import Callable

CHANNELS = (1, 2, 3, 4) * 12 + (0, 5, 2047, 2048, 32767, 32768, 65535)
LENGTHS = (0, 1, 7, 255, 4096, 4097, 131072, 131073, 2**31 - 1, 2**31, 2**32 - 1)
LONG_NUMBERS = tuple(struct.pack(">I", number) for number in LENGTHS)
WIDE_NUMBERS = tuple(struct.pack(">Q", number) for number in (0, 1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1))
METHOD_IDS = tuple(
    struct.pack(">HH", class_id, method_id)
    for class_id in (10, 20, 30, 40, 50, 60, 85, 90, 0, 65535)
    for method_id in (10, 11, 20, 21, 30, 31, 40, 41, 50, 51, 60, 70, 71, 80, 90, 100, 110, 120, 0, 65535)
)
_PREFIX = struct.Struct(">BHI")


def framed(kind: int, channel: int, payload: bytes) -> bytes:
    return _PREFIX.pack(kind, channel, len(payload)) + payload + b"\xce"


def nesting_bomb(depth: int, letter: bytes = b"F") -> bytes:
    """A deeply nested table; each level has the length of all that follows."""
    inner = b""
    for _ in range(depth):
        head = b"\x01a" if letter == b"F" else b""
        inner = head + letter + struct.pack(">I", len(inner)) + inner
    return struct.pack(">I", len(inner)) + inner


BOMBS = tuple(nesting_bomb(depth, letter) for depth in (3, 63, 64, 65, 500, 9000) for letter in (b"F", b"A"))


def flip_bits(rng: random.Random, kind: int, channel: int, payload: bytes) -> bytes:
    spoilt = bytearray(payload)
    for _ in range(rng.randrange(1, 4) if payload else 0):
        spoilt[rng.randrange(len(spoilt))] ^= 1 << rng.randrange(8)
    return framed(kind, channel, bytes(spoilt))


def flip_late_octet(rng: random.Random, kind: int, channel: int, payload: bytes) -> bytes:
    """An offset behind the class and method ids, where names and flags are."""
    if len(payload) < 6:
        return framed(kind, channel, payload + b"\0")
    at = rng.randrange(4, len(payload))
    return framed(kind, channel, payload[:at] + bytes([rng.getrandbits(8)]) + payload[at + 1 :])


def flip_anywhere(rng: random.Random, kind: int, channel: int, payload: bytes) -> bytes:
    spoilt = bytearray(framed(kind, channel, payload))
    spoilt[rng.randrange(len(spoilt))] ^= 1 << rng.randrange(8)
    return bytes(spoilt)


def cut_payload(rng: random.Random, kind: int, channel: int, payload: bytes) -> bytes:
    return framed(kind, channel, payload[: rng.randrange(len(payload) + 1)])


def delete_octets(rng: random.Random, kind: int, channel: int, payload: bytes) -> bytes:
    at = rng.randrange(len(payload) + 1)
    return framed(kind, channel, payload[:at] + payload[at + rng.randrange(1, 5) :])


def insert_octets(rng: random.Random, kind: int, channel: int, payload: bytes) -> bytes:
    at = rng.randrange(len(payload) + 1)
    return framed(kind, channel, payload[:at] + rng.randbytes(rng.randrange(1, 5)) + payload[at:])


def lie_about_size(rng: random.Random, kind: int, channel: int, payload: bytes) -> bytes:
    size = rng.choice((*LENGTHS, max(len(payload) - 1, 0), len(payload) + 1))
    return _PREFIX.pack(kind, channel, size) + payload + b"\xce"


def lie_about_type(rng: random.Random, kind: int, channel: int, payload: bytes) -> bytes:
    return framed(rng.choice((0, 1, 2, 3, 4, 8, 255)), channel, payload)


def change_channel(rng: random.Random, kind: int, channel: int, payload: bytes) -> bytes:
    return framed(kind, rng.choice(CHANNELS), payload)


def wrong_end(rng: random.Random, kind: int, channel: int, payload: bytes) -> bytes:
    return framed(kind, channel, payload)[:-1] + bytes([rng.getrandbits(8)])


def truncate(rng: random.Random, kind: int, channel: int, payload: bytes) -> bytes:
    whole = framed(kind, channel, payload)
    return whole[: rng.randrange(len(whole))]


def duplicate(rng: random.Random, kind: int, channel: int, payload: bytes) -> bytes:
    return framed(kind, channel, payload) * rng.randrange(2, 4)


def other_method(rng: random.Random, kind: int, channel: int, payload: bytes) -> bytes:
    return framed(kind, channel, rng.choice(METHOD_IDS) + payload[4:])


def splice_number(rng: random.Random, kind: int, channel: int, payload: bytes) -> bytes:
    """Another value where a length or a size may be."""
    number = rng.choice(LONG_NUMBERS if rng.random() < 0.6 else WIDE_NUMBERS)
    at = rng.randrange(len(payload) + 1)
    return framed(kind, channel, payload[:at] + number + payload[at + len(number) :])


def splice_table(rng: random.Random, kind: int, channel: int, payload: bytes) -> bytes:
    at = rng.randrange(len(payload) + 1)
    return framed(kind, channel, payload[:at] + rng.choice(BOMBS))


def garbage(rng: random.Random, kind: int, channel: int, payload: bytes) -> bytes:
    return rng.randbytes(rng.randrange(1, 40))


def random_payload(rng: random.Random, kind: int, channel: int, payload: bytes) -> bytes:
    return framed(kind, channel, rng.randbytes(rng.randrange(24)))


def empty_body(rng: random.Random, kind: int, channel: int, payload: bytes) -> bytes:
    return framed(3, channel, b"") + framed(kind, channel, payload)


Mutation = Callable[[random.Random, int, int, bytes], bytes]
SOFT: tuple[Mutation, ...] = (flip_late_octet,) * 12 + (flip_bits, change_channel, duplicate, empty_body)
HARD: tuple[Mutation, ...] = (
    flip_anywhere,
    cut_payload,
    delete_octets,
    insert_octets,
    lie_about_size,
    lie_about_type,
    wrong_end,
    truncate,
    other_method,
    splice_number,
    splice_table,
    garbage,
    random_payload,
)
