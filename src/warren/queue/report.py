"""What there is to know of a queue at one moment, for whoever lists queues.

What is in memory is counted exactly; so is what is on disk, but for the bytes of a run that was cut short without being
read, which the journal knows only about.

Not here: what happened to the queue since it was made (`model.figures`), its arguments and settings.
"""

from typing import Final, final

from mypy_extensions import i64

from warren.queue.contents import Contents
from warren.queue.paging import Paging

QUEUE_BYTES: Final[i64] = 4096
"""What a queue takes in memory besides its messages, about."""

RUN_BYTES: Final[i64] = 128

RUNNING: Final = "running"
STOPPED: Final = "stopped"


@final
class QueueReport:
    """One queue at this moment. Bytes are those of bodies, but for `memory_bytes`."""

    def __init__(self, contents: Contents, paging: Paging | None, capacity: float, taken_at_ms: i64) -> None:
        runs = contents.runs()
        paged_bytes: i64 = 0
        for run in runs:
            paged_bytes += run.body_bytes
        self.ready: i64 = contents.ready_count
        self.ready_bytes: i64 = contents.ready_bytes
        self.unacked: i64 = contents.unacked_count
        self.unacked_bytes: i64 = contents.unacked_bytes
        # ready and on disk only
        self.paged: i64 = contents.paged_count
        self.paged_bytes: i64 = paged_bytes
        # ready or unacked, and still there after a restart
        self.persistent: i64 = 0
        self.persistent_bytes: i64 = 0
        if paging is not None:
            self.persistent, self.persistent_bytes = paging.log.kept()
        self.memory_bytes: i64 = QUEUE_BYTES + contents.held_bytes + RUN_BYTES * len(runs)
        # how much of the time its consumers could have taken more, between 0 and 1
        self.capacity: float = capacity
        # when something last happened to it
        self.used_at_ms: i64 = max(contents.arrived_at_ms, taken_at_ms)
        self.state: str = STOPPED if paging is not None and paging.stopped else RUNNING
        self._contents: Contents = contents

    @property
    def in_memory(self) -> i64:
        return self.ready + self.unacked - self.paged

    @property
    def in_memory_bytes(self) -> i64:
        return self.ready_bytes + self.unacked_bytes - self.paged_bytes

    def head_timestamp(self) -> int | None:
        """The timestamp property of the message that goes next, if it is in memory and has one."""
        if self._contents.ready_count == 0:
            return None
        head = self._contents.head()
        return None if head is None else head.message.properties().timestamp
