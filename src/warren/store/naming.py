"""What things are called by which nodes share: a number for each, though one transaction makes many.

Journals and links know a queue by the revision that created it, so that one that is deleted and declared again is
another. A store that nodes share gives all changes of a transaction one revision. Its revisions are therefore
multiples of `NAMES_A_REVISION`, and what a transaction makes is named by the numbers up to its revision, and above the
one before it: which of them is told by the key alone. So whoever knows the creating revision and the key knows the
name, nobody writes it down, and nothing that happens to other keys of the transaction can change it.

::

    revision before             revision
    ──────┼───────────────────────┼──►
          │    ▲        ▲   ▲     │
               names of what this transaction made

Two keys may have the same place. Whoever proposes sees to it that no transaction makes two such things
(`broker.sharing.proposal`).

Invariant: a name is above every revision before the thing was made, and not above the one that made it.

Not here: the names of what a node made while it was alone, which it brings along (`broker.sharing.moving_in`).
"""

from typing import Final
from zlib import crc32

NAMES_A_REVISION: Final = 4096


def place_of(key: str) -> int:
    """Which of a revision's names is the key's."""
    return crc32(key.encode("utf-8", "surrogateescape")) % NAMES_A_REVISION


def name_of(revision: int, key: str) -> int:
    """What is known by it that this revision of a shared store created under this key."""
    return revision - place_of(key)
