"""What a bridge has done since it was begun, over all its lives.

Not here: rates (`admin`), when a life ended and why (`bridges.keeper`).
"""

from collections.abc import Iterable
from typing import Final

UNCERTAIN_IDS_MAX: Final = 50


class Tally:
    """Plain numbers, for whoever wants to show them."""

    def __init__(self) -> None:
        self.delivered = 0
        self.published = 0
        self.confirmed = 0
        # refused by the destination, or sent back by it, and given back to the source
        self.refused = 0
        # which `rewrite` did not want published, or which cannot be, and the source has forgotten
        self.dropped = 0
        # published in a life that ended before it was known whether they arrived: the source delivers them again
        self.uncertain = 0
        # the message ids of the latest of these
        self.uncertain_ids: list[str] = []

    def in_doubt(self, count: int, ids: Iterable[str]) -> None:
        self.uncertain += count
        self.uncertain_ids = [*self.uncertain_ids, *ids][-UNCERTAIN_IDS_MAX:]
