"""Whoever uses a mirrored queue, as the way to one of its masters sees it.

Not here: the two of them (`remote.seat`, `remote.remote_queue`).
"""

from abc import abstractmethod

from mypy_extensions import i64, trait


@trait
class Opening:
    """Told when a master can be used, and when it cannot any more."""

    @abstractmethod
    def opened(self, mark: i64, known: bool, epoch: i64) -> None:
        """The master of this epoch takes publishes. It has what this node sent up to the mark; `known`: if it can
        tell."""

    @abstractmethod
    def run_lost(self) -> None:
        """There is no way to the master any more."""

    @abstractmethod
    def held(self, count: i64) -> None:
        """The master holds what this node sent up to this count, and that is enough for a confirm."""
