"""A consumer whose client is at another node, as the queue at its home sees it.

It is able as long as its client has fewer unacked than its prefetch, as long as what was sent and not yet handed to the
client is within the window, and as long as its link has room. To its queue it always acks: what a consumer without acks
was given is acked by the client's node when it leaves for the client.

Not here: the client's side (`remote.subscription`), what comes back (`remote.hosting`).
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.model.message import Entry
from warren.model.ports import Consumer, QueuePort
from warren.model.reading_on import is_stream
from warren.model.told_position import wants_position
from warren.remote.records import FOR_GOOD
from warren.wire.values import Table

if TYPE_CHECKING:
    from warren.remote.hosted_queue import HostedQueue
    from warren.remote.hosting import Hosting

WINDOW_MESSAGES: Final[i64] = 4096
WINDOW_BYTES: Final[i64] = 2 * 1024 * 1024
"""What may be sent and not be in the client's hands; the client's node tells when half of it is."""


@final
class Loans:
    """What one consumer, or all who get from one queue, have not dealt with: entries by the numbers of deliveries."""

    def __init__(self, hosted: "HostedQueue", queue: QueuePort) -> None:
        self.hosted: HostedQueue = hosted
        self.queue: QueuePort = queue
        # in the order of their numbers
        self.lent: dict[int, Entry] = {}


@final
class HostedConsumer(Consumer):
    """Takes a queue's messages for a client of another node."""

    def __init__(
        self,
        hosting: "Hosting",
        number: i64,
        loans: Loans,
        tag: str,
        exclusive: bool,
        priority: i64,
        arguments: Table,
        prefetch: i64,
    ) -> None:
        super().__init__(tag, False, exclusive, priority, arguments)
        self.number: i64 = number
        self.loans: Loans = loans
        # what the client asked for, which is not what the queue is told
        self.acks: bool = True
        # a stream's reader may have to go on elsewhere
        self.tells_position: bool = wants_position(arguments) or is_stream(loans.queue.arguments)
        self._hosting: Hosting = hosting
        # 0 means no limit
        self._prefetch: i64 = prefetch
        self._sent: i64 = 0
        self._sent_bytes: i64 = 0
        self._taken: i64 = 0
        self._taken_bytes: i64 = 0

    @property
    def node(self) -> str:
        """Where its client is."""
        return self._hosting.node

    def able(self) -> bool:
        if self.stopped or (self._prefetch != 0 and len(self.loans.lent) >= self._prefetch):
            return False
        if self._sent - self._taken >= WINDOW_MESSAGES or self._sent_bytes - self._taken_bytes >= WINDOW_BYTES:
            return False
        return self._hosting.has_room()

    def unacked_max(self) -> int:
        return int(self._prefetch)

    def deliver(self, entry: Entry) -> None:
        self._sent += 1
        self._sent_bytes += len(entry.message.content)
        self._hosting.deliver(self, entry)

    def limit(self, prefetch: i64) -> None:
        """From here on it takes so many."""
        self._prefetch = prefetch
        self.loans.queue.wake()

    def taken(self, count: i64, size_bytes: i64) -> None:
        """So many of its deliveries, in all, are in the client's hands."""
        self._taken = count
        self._taken_bytes = size_bytes
        self.loans.queue.wake()

    def cancelled(self) -> None:
        self.stopped = True
        self._hosting.consumer_gone(self, 0)

    def ended(self) -> None:
        self.stopped = True
        self._hosting.consumer_gone(self, FOR_GOOD)


def give_back_unseen(queue: QueuePort, entries: list[Entry], overtaken: bool) -> None:
    """Return entries that no client has seen: they count as never delivered.

    `overtaken`: others take part who may have been given what comes after. Nobody is to be given anything out of order
    that is not marked redelivered, so these are.
    """
    marked = [entry.redelivered for entry in entries]
    for entry in entries:
        entry.delivery_count -= 1
    queue.requeue(entries)
    if not overtaken:
        for place in range(len(entries)):
            entries[place].redelivered = marked[place]
