"""The transfer of contents by shovels: the rest at RabbitMQ, when a queue is done, progress and rate.

The stages of a queue:

    waiting  it has no shovel; the number of parallel shovels is limited
    moving   its shovel runs; when RabbitMQ has none left twice in a row, and the move is ending, the shovel is deleted
    ending   RabbitMQ may still hold unacked messages of the shovel: when its consumer is gone they are ready again and
             the queue moves again; if there are none, it is done
    done     empty, without a shovel. New publishes show in the final count

A stream keeps its messages: it is done when Warren's has as many. A stream that already exists at Warren with messages
is not transferred, because all messages would come again.

A queue that is deleted at either broker does not hold up the others: when the move is ending, its shovel is deleted and
it is done, even if messages are left at RabbitMQ. That is reported, and the final count does not match.

Progress goes to standard error: a bar with rate and estimate on a terminal, else a line every few seconds. The rate is
that of the last seconds, so a stalled shovel shows.

Not here: requests to the brokers (`cli.migrate.brokers`), the verdict (`cli.migrate.counts`).
"""

import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Final, Self, final

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from warren.cli.migrate.brokers import (
    STATISTICS_DELAY_S,
    BrokerUnavailable,
    ExactCount,
    MoveFailed,
    RabbitMQ,
    ShovelState,
    WarrenDestination,
)
from warren.cli.migrate.counts import QueueAudit, QueueCounts
from warren.cli.migrate.queues import FoundQueue, QueueName
from warren.cli.terminal import visible

OVER_S: Final = 10.0


@dataclass
class TransferRate:
    """Progress over time."""

    _points: deque[tuple[float, int]] = field(default_factory=deque)

    def reach(self, now_s: float, done: int) -> None:
        self._points.append((now_s, done))
        while len(self._points) > 2 and self._points[1][0] <= now_s - OVER_S:
            self._points.popleft()

    @property
    def rate(self) -> float:
        """Messages per second."""
        if len(self._points) < 2:
            return 0.0
        (since_s, before), (now_s, done) = self._points[0], self._points[-1]
        return max(0.0, (done - before) / (now_s - since_s)) if now_s > since_s else 0.0

    def left_s(self, remaining: int) -> float | None:
        """Seconds until the rest is done at this rate; None while nothing moves."""
        rate = self.rate
        return remaining / rate if rate > 0 else None


def duration_text(seconds: float | None) -> str:
    """A duration for people."""
    if seconds is None:
        return "unknown time"
    whole = round(seconds)
    if whole < 90:
        return f"{whole} s"
    minutes = round(whole / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


LINE_EVERY_S = 5.0


@final
class TransferProgress:
    """The progress of all queues together."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._terminal = sys.stderr.isatty()
        self._bar = Progress(
            TextColumn("contents"),
            BarColumn(),
            TextColumn("{task.description}"),
            console=self._console,
            transient=True,
            disable=not self._terminal,
        )
        self._task = self._bar.add_task("", total=None)
        self._pace = TransferRate()
        self._line_at = time.monotonic()

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def reach(self, done: int, remaining: int, queues_left: int) -> None:
        now_s = time.monotonic()
        self._pace.reach(now_s, done)
        total = done + remaining
        words = (
            f"{done} of {total}, {self._pace.rate:.0f} a second, {duration_text(self._pace.left_s(remaining))} left, "
            f"{queues_left} queues to go"
        )
        self._bar.update(self._task, completed=done, total=total or None, description=words)
        if not self._terminal and now_s - self._line_at >= LINE_EVERY_S:
            self._line_at = now_s
            self.print_line(f"contents: {words}")

    def print_line(self, sentence: str) -> None:
        self._console.print(visible(sentence), markup=False)


TICK_S = 0.5
STATES_EVERY_S = 2.0
ENDING_MAX_S = 30.0
COUNTED_WITHIN_S = 20.0
"""RabbitMQ reports acks up to five seconds late, under load later."""

STREAM_COUNT_WITHIN_S = 6.0
"""RabbitMQ updates the length of a stream every five seconds."""

HEALTHY = ("running", "starting")


class TransferStage(Enum):
    WAITING = 0
    MOVING = 1
    ENDING = 2
    DONE = 3


@dataclass
class QueueTransfer:
    """The transfer of one queue."""

    found: FoundQueue
    audit: QueueAudit
    stage: TransferStage = TransferStage.WAITING
    left: int = 0
    was_empty: bool = False
    unmoved: bool = True
    """Whether it never had a shovel."""

    ending_since_s: float = 0.0
    counts_from_s: float = 0.0
    """From when RabbitMQ's length of the stream is current."""

    @property
    def queue(self) -> QueueName:
        return self.found.queue


class Transfer:
    """The transfer of all queues of a move."""

    def __init__(
        self, source: RabbitMQ, destination: WarrenDestination, queues: list[FoundQueue], at_once: int
    ) -> None:
        self._source = source
        self._destination = destination
        self._at_once = at_once
        self._progress = TransferProgress()
        self._reported: dict[QueueName, ShovelState] = {}
        # queues that were deleted at Warren
        self.gone: set[QueueName] = set()
        self._states_at_s = 0.0
        self._away = ""
        self._moving = 0
        self.carried = self._begin(queues)

    @property
    def is_done(self) -> bool:
        return all(each.stage is TransferStage.DONE for each in self.carried)

    @property
    def left(self) -> int:
        return sum(each.left for each in self.carried)

    def __enter__(self) -> "Transfer":
        self._progress.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.__exit__()

    def tick(self, ending: bool) -> None:
        """Check every queue once, then wait a moment; `ending`: an empty queue is done."""
        begun_s = time.monotonic()
        self._attempted(lambda: self._step(ending))
        time.sleep(max(0.0, begun_s + TICK_S - time.monotonic()))

    def drain(self) -> None:
        while not self.is_done:
            self.tick(ending=True)

    def settle(self) -> list[QueueAudit]:
        """The final counts of every queue, once they match or their time is up.

        No count of a queue with a shovel is final before RabbitMQ had the time to report all acks. Afterwards the
        exchanges are deleted, whose counters Warren has reported by then.
        """
        drained_s = time.monotonic()
        open_counts = self.carried
        while open_counts:
            begun_s = time.monotonic()
            self._until_done(partial(self._count, [each.audit for each in open_counts]))
            reported = begun_s >= drained_s + STATISTICS_DELAY_S
            open_counts = [each for each in open_counts if not each.audit.is_settled or not (reported or each.unmoved)]
            if begun_s >= drained_s + COUNTED_WITHIN_S:
                break
            time.sleep(TICK_S if open_counts else 0)
        self._until_done(lambda: self._destination.tidy(each.queue for each in self.carried))
        return [each.audit for each in self.carried]

    def _count(self, audits: list[QueueAudit]) -> None:
        there = self._destination.sides()
        here = self._source.sides([audit.queue for audit in audits], believe_unacked=True)
        for audit in audits:
            audit.source_after = here[audit.queue]
            audit.is_gone_at_warren = audit.queue not in there
            audit.see_destination(there.get(audit.queue, QueueCounts()))

    def _until_done(self, work: Callable[[], None]) -> None:
        """Repeat until both brokers respond."""
        while not self._attempted(work):
            time.sleep(TICK_S)

    def _attempted(self, work: Callable[[], None]) -> bool:
        """Whether it was done. An unavailable broker is reported once."""
        try:
            work()
        except BrokerUnavailable as away:
            if str(away) != self._away:
                self._progress.print_line(f"{away}; waiting for it")
            self._away = str(away)
            return False
        if self._away:
            self._progress.print_line("both brokers answer again")
        self._away = ""
        return True

    def _begin(self, queues: list[FoundQueue]) -> list[QueueTransfer]:
        """Delete shovels of an earlier run first, so that messages they hold are counted at RabbitMQ.

        Their acks must not be reported later, as if they happened since.
        """
        self._clear({found.queue for found in queues})
        here = self._settled_source_counts([found.queue for found in queues])
        there = self._destination.sides()
        carried: list[QueueTransfer] = []
        for found in queues:
            queue = found.queue
            audit = QueueAudit(queue, here[queue], there.get(queue, QueueCounts()), is_stream=found.is_stream)
            audit.consumed_at_source = here[queue].consumers > 0
            carried.append(QueueTransfer(found, audit, left=here[queue].messages))
        return carried

    def _settled_source_counts(self, queues: list[QueueName]) -> dict[QueueName, QueueCounts]:
        """RabbitMQ's counts once it has reported all acks; without consumers they no longer change."""
        here = self._source.sides(queues)
        deadline_s = time.monotonic() + ENDING_MAX_S
        while queues:
            before = here
            time.sleep(STATISTICS_DELAY_S)
            here = self._source.sides(queues)
            late = [queue for queue in queues if not here[queue].consumers and here[queue].acked != before[queue].acked]
            if not late or time.monotonic() > deadline_s:
                break
        return here

    def _clear(self, queues: set[QueueName]) -> None:
        """Delete shovels and exchanges of an earlier run: those of another version may differ."""
        remaining = [queue for queue in self._destination.carried() if queue in queues]
        for queue in remaining:
            self._destination.end_transfer(queue)
        deadline_s = time.monotonic() + ENDING_MAX_S
        for queue in remaining:
            while self._source.is_transferring(queue, self._count_of(queue)) and time.monotonic() < deadline_s:
                time.sleep(TICK_S)
        self._destination.tidy(queues)

    def _step(self, ending: bool) -> None:
        there = self._destination.sides()
        for each in self.carried:
            each.audit.see_destination(there.get(each.queue, QueueCounts()))
            if each.stage is TransferStage.WAITING and self._at_once and self._moving >= self._at_once:
                continue
            if each.stage is not TransferStage.DONE:
                self._look_at(each, ending)
        done = sum(max(0, each.audit.arrived) for each in self.carried)
        undone = sum(each.stage is not TransferStage.DONE for each in self.carried)
        self._progress.reach(done, self.left, undone)
        if time.monotonic() >= self._states_at_s:
            self._states_at_s = time.monotonic() + STATES_EVERY_S
            self._look_for_gone(there, ending)
            self._report_states()

    def _look_at(self, each: QueueTransfer, ending: bool) -> None:
        found = self._source.count(each.queue)
        count = found or ExactCount(0, 0)
        if found is None and not each.audit.was_gone_at_source:
            each.audit.was_gone_at_source = True
            self._progress.print_line(
                f"queue {each.queue} was deleted at RabbitMQ, with its remaining messages; the others continue"
            )
        is_lost = found is None or each.queue in self.gone
        if each.found.is_stream:
            self._look_at_stream(each, count, ending, is_lost)
            return
        each.left = count.ready
        each.audit.source_after = QueueCounts(count.ready)
        if count.consumers > (each.stage is not TransferStage.WAITING) and not each.audit.consumed_at_source:
            each.audit.consumed_at_source = self._source.others(each.queue.vhost)[each.queue.name] > 0
        if each.stage is TransferStage.WAITING:
            self._start(each, ending, is_done=ending and not count.ready)
        elif each.stage is TransferStage.MOVING:
            if ending and (is_lost or (each.was_empty and not count.ready)):
                self._end(each)
            each.was_empty = not count.ready
        elif time.monotonic() > each.ending_since_s + ENDING_MAX_S or not self._source.is_transferring(
            each.queue, count
        ):
            # messages that it held may have been requeued since the first count
            is_more = each.queue not in self.gone and self._count_of(each.queue).ready
            self._leave(each, TransferStage.WAITING if is_more else TransferStage.DONE)

    def _count_of(self, queue: QueueName) -> ExactCount:
        return self._source.count(queue) or ExactCount(0, 0)

    def _look_at_stream(self, each: QueueTransfer, count: ExactCount, ending: bool, is_lost: bool) -> None:
        begun = each.audit.destination_before.messages
        each.left = max(0, count.ready - each.audit.destination_after.messages)
        if each.stage is TransferStage.WAITING:
            self._start(each, ending, is_done=bool(begun) or (ending and is_lost))
        elif each.stage is TransferStage.MOVING and ending:
            if is_lost or (not each.left and time.monotonic() > each.counts_from_s):
                self._end(each)
        elif each.stage is TransferStage.ENDING:
            self._leave(each, TransferStage.DONE)

    def _start(self, each: QueueTransfer, ending: bool, is_done: bool) -> None:
        each.counts_from_s = time.monotonic() + STREAM_COUNT_WITHIN_S
        if is_done:
            each.stage = TransferStage.DONE
        elif self._carry(each, ending):
            each.stage, each.was_empty, each.unmoved = TransferStage.MOVING, False, False
            self._moving += 1
        elif ending:
            each.stage = TransferStage.DONE

    def _carry(self, each: QueueTransfer, ending: bool) -> bool:
        """Start the shovel; False if the queue was deleted at Warren before."""
        try:
            self._destination.carry(each.found, self._source.uri(each.queue.vhost))
        except BrokerUnavailable:
            raise
        except MoveFailed:
            if each.queue in self._destination.sides():
                raise
            self._report_gone(each.queue, ending)
            return False
        return True

    def _leave(self, each: QueueTransfer, stage: TransferStage) -> None:
        """The shovel is certainly gone."""
        each.stage = stage
        self._moving -= 1

    def _end(self, each: QueueTransfer) -> None:
        self._destination.end_transfer(each.queue)
        each.stage, each.ending_since_s = TransferStage.ENDING, time.monotonic()

    def _look_for_gone(self, there: Mapping[QueueName, QueueCounts], ending: bool) -> None:
        """If a queue was deleted at Warren, the rest stays at RabbitMQ; if it was declared again, it is bound again."""
        for each in self.carried:
            queue = each.queue
            if each.stage is TransferStage.DONE:
                continue
            if queue in there and queue in self.gone and self._bind_again(queue):
                self.gone.remove(queue)
                self._progress.print_line(f"queue {queue} is at Warren again")
            elif each.stage is TransferStage.MOVING and queue not in there:
                self._report_gone(queue, ending)

    def _report_gone(self, queue: QueueName, ending: bool) -> None:
        if queue not in self.gone:
            self.gone.add(queue)
            rest = f"queue {queue} was deleted at Warren: the rest stays at RabbitMQ"
            if ending:
                text = f"{rest}, and the others continue; run the command again to declare it and move the rest"
            else:
                text = f"{rest} until it is declared again; interrupt and run this command again to do so"
            self._progress.print_line(text)

    def _bind_again(self, queue: QueueName) -> bool:
        """Bind the queue again; False if it was deleted again."""
        try:
            self._destination.lead_to(queue)
        except MoveFailed:
            return False
        return True

    def _report_states(self) -> None:
        """Report each change of a shovel that is not running normally."""
        moving = [
            each.queue for each in self.carried if each.stage is TransferStage.MOVING and each.queue not in self.gone
        ]
        for queue, state in self._destination.states(moving).items():
            if state.state in HEALTHY:
                self._reported.pop(queue, None)
            elif self._reported.get(queue) != state:
                self._reported[queue] = state
                why = state.reason or "it does not say why"
                self._progress.print_line(f"the shovel of queue {queue} is {state.state}: {why}")
                # the queue may have been deleted and declared again meanwhile
                self._bind_again(queue)
