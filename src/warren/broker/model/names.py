"""Generated names of queues, consumers and reply queues.

A name is a keyed hash of a counter: it never repeats, and cannot be guessed without the seed. The seed is injected, so
a simulated node generates the same names in every run.

Not here: checking the names that clients choose (`broker.sessions.declares`).
"""

import base64
import hashlib
from typing import final


@final
class NameGenerator:
    """Generates names, and random numbers, from one seed."""

    def __init__(self, seed: bytes) -> None:
        self._seed: bytes = seed[:64]
        self._count: int = 0

    def secret(self) -> bytes:
        """A key for digests, derived from the seed."""
        return hashlib.blake2b(b"secret", digest_size=32, key=self._seed).digest()

    def fresh(self, prefix: str) -> str:
        return prefix + base64.urlsafe_b64encode(self._digest()).rstrip(b"=").decode()

    def draw(self) -> int:
        """A random number below 2 to the power of 64."""
        return int.from_bytes(self._digest()[:8], "big")

    def _digest(self) -> bytes:
        self._count += 1
        return hashlib.blake2b(self._count.to_bytes(8, "big"), digest_size=16, key=self._seed).digest()
