"""Names the node invents for queues, consumers and inboxes.

A name is a keyed hash of a counter: never the same twice, and nobody who lacks the seed can guess the next one. The
seed comes from outside, so that a simulated node invents the same names every time.
"""

import base64
import hashlib
from typing import final


@final
class NameGenerator:
    """An endless supply of names."""

    def __init__(self, seed: bytes) -> None:
        self._seed: bytes = seed[:64]
        self._count: int = 0

    def secret(self) -> bytes:
        """A key for digests, as hard to guess as the seed."""
        return hashlib.blake2b(b"secret", digest_size=32, key=self._seed).digest()

    def fresh(self, prefix: str) -> str:
        return prefix + base64.urlsafe_b64encode(self._digest()).rstrip(b"=").decode()

    def draw(self) -> int:
        """Any number below 2 to the power of 64: what a node has in place of dice."""
        return int.from_bytes(self._digest()[:8], "big")

    def _digest(self) -> bytes:
        self._count += 1
        return hashlib.blake2b(self._count.to_bytes(8, "big"), digest_size=16, key=self._seed).digest()
