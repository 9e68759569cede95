"""Ids of messages: UUIDs of version 7, so that ids made later sort later, to the millisecond.

A clock that is set back makes ids that sort earlier, and none twice: 74 of their bits are chance.

Not here: ids that mean something to a business; those are the program's own.
"""

import os
import time
import uuid

_VERSION_7 = 7 << 76
_VARIANT = 0b10 << 62


def new_message_id() -> str:
    """An id that nobody else has."""
    chance = int.from_bytes(os.urandom(10), "big")
    above = (chance >> 62) & 0xFFF
    below = chance & 0x3FFF_FFFF_FFFF_FFFF
    milliseconds = (time.time_ns() // 1_000_000) & 0xFFFF_FFFF_FFFF
    return str(uuid.UUID(int=milliseconds << 80 | _VERSION_7 | above << 64 | _VARIANT | below))
