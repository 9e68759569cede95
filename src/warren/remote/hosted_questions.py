"""Questions of another node that the disk must answer first.

Not here: those that are answered at once (`remote.hosting`).
"""

from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from warren.errors import ChannelFault
from warren.model.ports import OutputPort, QueuePort
from warren.model.turn import FlushWaiter

if TYPE_CHECKING:
    from warren.remote.hosted_queue import HostedQueue
    from warren.remote.hosting import Hosting


@final
class HostedGet(OutputPort):
    """A get, which waits until the entry is in memory."""

    def __init__(self, hosting: "Hosting", ticket: i64, hosted: "HostedQueue", no_ack: bool) -> None:
        self._hosting: Hosting = hosting
        self._ticket: i64 = ticket
        self._hosted: HostedQueue = hosted
        self._no_ack: bool = no_ack

    def flush(self) -> None:
        """It has no output of its own."""

    def go_on(self) -> None:
        if self._hosting.over:
            return
        try:
            self._get(self._hosted.usable())
        except ChannelFault as fault:
            self._hosting.answer_fault(self._ticket, fault)

    def _get(self, queue: QueuePort) -> None:
        queue.touch()
        if not queue.at_hand():
            queue.await_entry(self)
            return
        entry = queue.get(self._no_ack)
        if entry is None:
            self._hosting.answer(self._ticket, 0, 0)
        else:
            loans = self._hosted.got_from(queue)
            self._hosting.answer_got(self._ticket, loans, entry, self._no_ack, queue.ready_count())


@final
class HostedPurge(FlushWaiter):
    """A purge, answered when the disk knows of it."""

    def __init__(self, hosting: "Hosting", ticket: i64, queue: QueuePort) -> None:
        self._hosting: Hosting = hosting
        self._ticket: i64 = ticket
        self._count: i64 = queue.purge()
        if queue.durable and self._count != 0:
            hosting.turn.await_flush(self)
        else:
            self.flushed()

    def flushed(self) -> None:
        self._hosting.answer(self._ticket, self._count, 0)
