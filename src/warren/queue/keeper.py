"""Who a queue tells when its own life should end.

A queue never deletes itself: bindings, names and exclusive owners are its keeper's business. The keeper answers by
calling `Queue.close`, at once or later; until then the queue goes on working.

Not here: the deletion itself (`broker`), what `close` does (`queue.queue`).
"""

from abc import abstractmethod

from mypy_extensions import mypyc_attr

from warren.model.ports import QueuePort


@mypyc_attr(allow_interpreted_subclasses=True)
class QueueKeeper:
    """Deletes queues that have outlived their use."""

    @abstractmethod
    def queue_expired(self, queue: QueuePort) -> None:
        """The queue went unused for as long as its `x-expires` allows."""

    @abstractmethod
    def queue_unused(self, queue: QueuePort) -> None:
        """The last consumer of an auto-delete queue is gone."""
