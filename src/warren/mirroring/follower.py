"""A mirror as its master sees it: how far it has got, and what it needs to be in sync.

Not here: what follows from that (`mirroring.master`).
"""

from typing import final

from mypy_extensions import i64


@final
class Follower:
    """A mirror that follows this master, in one run of its node and of the link."""

    def __init__(self, node: str, incarnation: int, began: i64, needs: i64, resumed: bool) -> None:
        self.node: str = node
        self.incarnation: int = incarnation
        # the step behind which it began
        self.began: i64 = began
        # the step it must have to be in sync, if it is not
        self.needs: i64 = needs
        self.safe: i64 = 0
        # it holds everything the queue has
        self.complete: bool = resumed

    def ready(self, settled: i64) -> bool:
        """Whether it holds everything up to the step it needs, and that is settled: it can be in sync."""
        return self.complete and self.safe >= self.needs and settled >= self.needs
