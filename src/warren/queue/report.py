"""What there is to know of a queue at one moment, for whoever lists queues.

What is in memory is counted exactly; so is what is on disk, but for the bytes of a run that was cut short without being
read, which the journal knows only about.

Not here: what happened to the queue since it was made (`model.figures`), its arguments and settings.
"""

from typing import Final

from mypy_extensions import i64

from warren.model.own_queue import QUEUE_BYTES, STOPPED, QueueReport
from warren.queue.contents import Contents
from warren.queue.paging import Paging

RUN_BYTES: Final[i64] = 128


def report_of(contents: Contents, paging: Paging | None, capacity: float, taken_at_ms: i64) -> QueueReport:
    runs = contents.runs()
    report = QueueReport()
    for run in runs:
        report.paged_bytes += run.body_bytes
    report.ready = contents.ready_count
    report.ready_bytes = contents.ready_bytes
    report.unacked = contents.unacked_count
    report.unacked_bytes = contents.unacked_bytes
    report.paged = contents.paged_count
    report.memory_bytes = QUEUE_BYTES + contents.held_bytes + RUN_BYTES * len(runs)
    report.capacity = capacity
    report.used_at_ms = max(contents.arrived_at_ms, taken_at_ms)
    if paging is not None:
        report.persistent, report.persistent_bytes = paging.log.kept()
        if paging.stopped:
            report.state = STOPPED
    if contents.ready_count != 0:
        head = contents.head()
        report.head = None if head is None else head.message
    return report
