"""Makes hashes of passwords that operators set.

That takes longer than the event loop may wait, so it is done in a thread, one at a time for each who asks.

Not here: the hashes (`access.hashing`), checking a password (`broker.access.logins`).
"""

import asyncio
import base64
import binascii
import os

from warren.access.hashing import SALT_OCTETS, hash_password
from warren.errors import Refused


async def hashed(algorithm: str, password: str) -> bytes:
    """What the node keeps of a password; of an empty one nothing, so that nobody can log in with it."""
    if not password:
        return b""
    return await asyncio.to_thread(hash_password, algorithm, password, os.urandom(SALT_OCTETS))


def decoded(password_hash: str) -> bytes:
    """A hash as definitions have it, in Base64; `Refused` if it is not."""
    try:
        return base64.b64decode(password_hash, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Refused("bad_request", f"not_base64: {password_hash}") from error


def encoded(password_hash: bytes) -> str:
    """The hash as definitions have it."""
    return base64.b64encode(password_hash).decode()
