"""Names the node invents for queues, consumers and inboxes.

A name is a keyed hash of a counter: never the same twice, and nobody who lacks the seed can guess the next one. The
seed comes from outside, so that a simulated node invents the same names every time.
"""

import base64
import hashlib
from typing import final


@final
class FreshNames:
    """An endless supply of names."""

    def __init__(self, seed: bytes) -> None:
        self._seed: bytes = seed[:64]
        self._count: int = 0

    def secret(self) -> bytes:
        """A key for digests, as hard to guess as the seed."""
        return hashlib.blake2b(b"secret", digest_size=32, key=self._seed).digest()

    def fresh(self, prefix: str) -> str:
        self._count += 1
        digest = hashlib.blake2b(self._count.to_bytes(8, "big"), digest_size=16, key=self._seed).digest()
        return prefix + base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
