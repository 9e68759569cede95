"""A user as the node knows it.

A user without a password hash cannot log in by password; a certificate may still name it.

Not here: how a password becomes a hash (`access.hashing`), what a user may do (`access.permissions`), who is let in
(`broker.access`).
"""

from typing import Final, final

ADMINISTRATOR: Final = "administrator"
IMPERSONATOR: Final = "impersonator"
"""Who bears it may say in a message's user-id that it comes from somebody else."""


@final
class User:
    """One user; never changed, only replaced."""

    def __init__(
        self, name: str, password_hash: bytes, hashing_algorithm: str, tags: list[str], limits: dict[str, int]
    ) -> None:
        self.name: str = name
        self.password_hash: bytes = password_hash
        self.hashing_algorithm: str = hashing_algorithm
        self.tags: list[str] = tags
        self.limits: dict[str, int] = limits
