"""Publisher confirms of one channel.

Publishes are numbered from 1 in the order they arrive. Each is settled at once, rejected by a queue, or pending. A
pending publish waits for the batch of its turn to be flushed, for queues of other nodes, or for both. Pending publishes
are kept as ranges of numbers, lowest first. Batches are flushed in order, so ranges that wait for the disk are decided
in order. Other nodes answer at any time; the ranges that they answered for are examined once a turn.

Lemma: every number below the first pending one is decided. So the decided, unsent numbers below the first pending one
are confirmed by one basic.ack with `multiple`, at the highest of them. The others are confirmed singly, because a
`multiple` would include a publish that is neither acked nor nacked. A basic.nack is always single, and sent before any
ack that passes it.

While nothing is pending (`_plain`) no range is kept: every number after `_confirmed_to` is settled, except those in
`_rejected`. When everything is pending, one range for each batch is kept.

A remote range waits for one queue and grows while the publishes to that queue follow one another; the queue settles
them in order. Or it is one publish to several queues, settled when the last of them settles it. A rejection is sent at
once, and its number is left out when its range is settled. A remote range with news puts itself on the channel's list,
once, so that the cost of sending confirms does not depend on the number of pending publishes.

A range may be decided before the ranges in front of it. It then stays in its place until it is the first. So adding a
range, ending one, and finding the first pending number take constant time. Invariant: unless there are none, the range
at `_first` is not decided.

Not here: when a publish is settled (`broker.model.ports.QueuePort.publish`), the queue's side
(`broker.links.publish_waiters`).
"""

from abc import abstractmethod
from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64, trait

from warren.broker.model.ports import PublishWaiter, QueuePort
from warren.broker.sessions.counters import PublishCounter
from warren.wire.frames import write_ack


class PublishRange:
    """Consecutive publishes that are decided together."""

    def __init__(self, first: i64, last: i64, batch_no: i64) -> None:
        self.first: i64 = first
        self.last: i64 = last
        # the number of the batch it waits for; 0 for none
        self.batch_no: i64 = batch_no
        # every publish of it is decided
        self.over: bool = False

    def open_count(self) -> i64:
        """How many of its publishes are not decided."""
        return self.last - self.first + 1


@trait
class ConfirmSender:
    """The channel that sends confirms."""

    @abstractmethod
    def confirms_decided(self) -> None:
        """Confirms may be due at the end of this turn."""


@final
class RemotePublishRange(PublishRange, PublishWaiter):
    """Publishes that wait for queues of other nodes."""

    def __init__(
        self,
        number: i64,
        batch_no: i64,
        queue: QueuePort,
        queues: i64,
        sender: ConfirmSender,
        counter: PublishCounter,
        changed: list["RemotePublishRange"],
    ) -> None:
        super().__init__(number, number, batch_no)
        self.queue: QueuePort = queue
        # counts the rejected publishes
        self.counter: PublishCounter = counter
        # how many queues must settle each publish; more than one only if the range is a single publish
        self._queues: i64 = queues
        # how many of the first publishes are settled
        self._done: i64 = 0
        # rejected numbers in order, and those of them that were not sent yet
        self._refused: list[int] = []
        self._unsent: list[int] = []
        self._lost: bool = False
        self._sender: ConfirmSender = sender
        self._changed: list[RemotePublishRange] = changed
        self._is_changed: bool = False

    def mark_changed(self) -> None:
        """Put this range on the channel's list, unless it is decided. One of several queues may answer after a loss."""
        if not self._is_changed and not self.over:
            self._is_changed = True
            self._changed.append(self)

    def settled(self, count: i64) -> None:
        if self._queues > 1:
            self._queues -= 1
            return
        self._done += count
        self._notify()

    def refused(self, place: i64) -> None:
        # one queue rejects in order; if several queues reject a single publish, the first rejection counts
        if not self._refused or self._refused[-1] < place:
            self._refused.append(int(place))
            self._unsent.append(int(place))
            self._notify()

    def lost(self, reason: str) -> None:
        self._lost = True
        self._notify()

    def decide(self, flushed_no: i64, settled: list[PublishRange], rejected: list[int]) -> None:
        """Move the decided numbers to `settled` and `rejected`; the range is over if those are all."""
        self._is_changed = False
        rejected.extend(self._unsent)
        self.counter.refused += len(self._unsent)
        self._unsent = []
        if self.batch_no > flushed_no and not self._lost:
            return
        decided: i64 = min(self.first + self._done - 1, self.last)
        first: i64 = self.first
        passed = 0
        for number in self._refused:
            if number > decided:
                break
            passed += 1
            if first < number:
                settled.append(PublishRange(first, i64(number) - 1, 0))
            first = i64(number) + 1
        if first <= decided:
            settled.append(PublishRange(first, decided, 0))
        if passed:
            del self._refused[:passed]
        self.first = decided + 1
        self._done = 0
        if self._lost:
            self._reject_rest(rejected)
        self.over = self.first > self.last

    def open_count(self) -> i64:
        """How many of its publishes are neither settled nor rejected, as far as its channel knows."""
        return self.last - self.first + 1 - (len(self._refused) - len(self._unsent))

    def check(self) -> None:
        """The unsent rejections are the last ones; rejections are in order and in this range."""
        refused = self._refused
        assert self._unsent == refused[len(refused) - len(self._unsent) :], "a rejection is sent out of order"
        assert refused == sorted(set(refused)), "rejections are out of order"
        assert not refused or self.first <= refused[0] <= refused[-1] <= self.last, "a rejection is of another range"
        assert not self._unsent or self._is_changed, "a rejection is never sent"

    def _reject_rest(self, rejected: list[int]) -> None:
        refused = set(self._refused)
        while self.first <= self.last:
            if int(self.first) not in refused:
                rejected.append(int(self.first))
                self.counter.refused += 1
            self.first += 1

    def _notify(self) -> None:
        self.mark_changed()
        self._sender.confirms_decided()


EMPTY_SLOTS_MAX: Final[i64] = 256
"""The list may begin with this many decided ranges, and with as many as there are pending ones."""


@final
class PendingPublishRanges:
    """The pending ranges of a channel, lowest numbers first."""

    def __init__(self) -> None:
        # ranges that are not over
        self.count: i64 = 0
        self._ranges: list[PublishRange] = []
        self._first: i64 = 0

    def add(self, numbers: PublishRange) -> None:
        assert not self._ranges or self._ranges[-1].last < numbers.first, "ranges are added in order"
        self._ranges.append(numbers)
        self.count += 1

    def end(self, numbers: PublishRange) -> None:
        """A range is over; called once for each."""
        numbers.over = True
        self.count -= 1
        assert self.count >= 0, "a range ends once"
        ranges = self._ranges
        while self._first < len(ranges) and ranges[self._first].over:
            self._first += 1
        if self._first > EMPTY_SLOTS_MAX and self._first * 2 > len(ranges):
            del ranges[: self._first]
            self._first = 0

    def first_no(self) -> i64:
        """The lowest pending number. The caller checked that there is one."""
        return self._ranges[self._first].first

    def open_count(self) -> i64:
        """How many publishes of these ranges are not decided."""
        total: i64 = 0
        for numbers in self._ranges:
            if not numbers.over:
                total += numbers.open_count()
        return total

    def check(self) -> None:
        pending = [numbers for numbers in self._ranges if not numbers.over]
        assert self.count == len(pending), f"{self.count} ranges are counted as pending, {len(pending)} are"
        assert not pending or self._ranges[self._first] is pending[0], "the first range is not the first pending one"
        last: i64 = 0
        for numbers in self._ranges:
            assert last < numbers.first <= numbers.last + 1, "ranges overlap, or are out of order"
            assert numbers.over or numbers.first <= numbers.last, "an empty range is pending"
            if isinstance(numbers, RemotePublishRange) and not numbers.over:
                numbers.check()
            last = numbers.last


ACK: Final[i64] = 80
NACK: Final[i64] = 120
MULTIPLE: Final[i64] = 1
REQUEUE: Final[i64] = 2
"""Has no meaning in a confirm, but RabbitMQ sets it."""


@final
class Confirms:
    """Numbers publishes and sends their acks and nacks."""

    def __init__(self) -> None:
        # confirm.select was received
        self.on: bool = False
        self.last_no: i64 = 0
        # how many publishes were acked and nacked to the client
        self.acked: i64 = 0
        self.nacked: i64 = 0
        self._confirmed_to: i64 = 0
        self._rejected: list[int] = []
        # nothing is pending, and nothing was decided out of order that is not sent
        self._plain: bool = True
        self._pending: PendingPublishRanges = PendingPublishRanges()
        # the pending ranges that wait for a batch, in order
        self._batched: list[PublishRange] = []
        # the last range that waits only for a batch; it grows
        self._growing: PublishRange | None = None
        # the last range that waits for one remote queue, which grows; the ranges that other nodes answered for
        self._growing_remote: RemotePublishRange | None = None
        self._changed: list[RemotePublishRange] = []
        # settled and not sent, unless `_plain`
        self._settled: list[PublishRange] = []
        # batches of this channel: the last begun, and the last flushed
        self._batch_no: i64 = 0
        self._flushed_no: i64 = 0

    def settled(self) -> None:
        """The next publish is as safe as its queues promise."""
        self.last_no += 1
        if not self._plain:
            self._add_settled(self.last_no)

    def rejected(self) -> None:
        """The next publish was rejected by a queue."""
        self.last_no += 1
        self._rejected.append(self.last_no)

    def begin_batch(self) -> None:
        """Publishes that are pending from here on wait for a new batch."""
        self._batch_no += 1
        self._growing = None

    def pending(self) -> None:
        """The next publish is settled when the last begun batch is flushed."""
        number: i64 = self.last_no + 1
        numbers = self._growing
        if numbers is not None and numbers.last == self.last_no:
            numbers.last = number
        else:
            self._begin_range(number)
        self.last_no = number

    def remote(self, queue: QueuePort, sender: ConfirmSender, counter: PublishCounter) -> None:
        """The next publish is decided by a queue of another node."""
        number: i64 = self.last_no + 1
        numbers = self._growing_remote
        if (
            numbers is not None
            and numbers.last == self.last_no
            and numbers.queue is queue
            and numbers.counter is counter
        ):
            numbers.last = number
        else:
            numbers = RemotePublishRange(number, 0, queue, 1, sender, counter, self._changed)
            self._add_remote(numbers)
            self._growing_remote = numbers
        self.last_no = number
        queue.await_settlement(numbers, number)

    def remote_to_all(
        self, queues: list[QueuePort], in_batch: bool, sender: ConfirmSender, counter: PublishCounter
    ) -> None:
        """The next publish is decided by all these queues, and by the last begun batch if `in_batch`."""
        number: i64 = self.last_no + 1
        batch_no: i64 = self._batch_no if in_batch else 0
        numbers = RemotePublishRange(number, batch_no, queues[0], len(queues), sender, counter, self._changed)
        self._add_remote(numbers)
        if in_batch:
            self._batched.append(numbers)
        self.last_no = number
        for queue in queues:
            queue.await_settlement(numbers, number)

    def flushed(self) -> None:
        """The oldest batch is on disk: settle the publishes that waited for it."""
        self._flushed_no += 1
        assert self._flushed_no <= self._batch_no, "a batch is flushed after it began"
        count = 0
        for numbers in self._batched:
            if numbers.batch_no > self._flushed_no:
                break
            count += 1
            if isinstance(numbers, RemotePublishRange):
                numbers.mark_changed()
            else:
                self._settled.append(numbers)
                self._pending.end(numbers)
        del self._batched[:count]
        if not self._batched:
            self._growing = None

    def check(self) -> None:
        """Every publish is acked, nacked, decided and unsent, or pending: exactly one of these."""
        self._pending.check()
        sent: i64 = self.acked + self.nacked
        if self._plain:
            assert self._pending.count == 0, "a publish is pending in plain mode"
            assert not self._settled, "settled publishes are named in plain mode"
            assert sent == self._confirmed_to <= self.last_no, f"{sent} confirms were sent, up to {self._confirmed_to}"
        else:
            settled: i64 = 0
            for numbers in self._settled:
                settled += numbers.open_count()
            decided: i64 = sent + settled + len(self._rejected)
            pending: i64 = self._pending.open_count()
            assert decided + pending == self.last_no, f"{decided} decided and {pending} pending, of {self.last_no}"
        batch_no: i64 = self._flushed_no
        for numbers in self._batched:
            assert numbers.over or batch_no <= numbers.batch_no <= self._batch_no, "batches are out of order"
            batch_no = max(batch_no, numbers.batch_no)

    def unconfirmed(self) -> i64:
        """How many publishes are neither acked nor nacked to the client."""
        return self.last_no - self.acked - self.nacked

    def undecided(self) -> bool:
        """Whether a publish is pending, so that some acks are single."""
        return self._pending.count > 0

    def send(self, out: BytesWriter, channel: i64) -> None:
        """Write acks and nacks for every decided publish."""
        if self._changed:
            self._decide_changed()
        if self._plain:
            self._send_in_order(out, channel)
        else:
            self._send_around_pending(out, channel)

    def _send_in_order(self, out: BytesWriter, channel: i64) -> None:
        for number in self._rejected:
            self._ack_to(out, channel, i64(number) - 1)
            write_ack(out, channel, NACK, number, REQUEUE)
            self._confirmed_to = number
        if self._rejected:
            self.nacked += len(self._rejected)
            self._rejected = []
        self._ack_to(out, channel, self.last_no)

    def _ack_to(self, out: BytesWriter, channel: i64, number: i64) -> None:
        count: i64 = number - self._confirmed_to
        if count <= 0:
            return
        write_ack(out, channel, ACK, number, MULTIPLE if count > 1 else 0)
        self._confirmed_to = number
        self.acked += count

    def _send_around_pending(self, out: BytesWriter, channel: i64) -> None:
        for number in self._rejected:
            write_ack(out, channel, NACK, number, REQUEUE)
        self.nacked += len(self._rejected)
        self._rejected = []
        if self._settled:
            self._ack_settled(out, channel)
            self._settled = []
        if self._pending.count == 0:
            self._plain = True
            self._confirmed_to = self.last_no

    def _ack_settled(self, out: BytesWriter, channel: i64) -> None:
        first_pending: i64 = self._pending.first_no() if self._pending.count != 0 else self.last_no + 1
        count: i64 = 0
        highest: i64 = 0
        for numbers in self._settled:
            if numbers.first < first_pending:
                count += numbers.last - numbers.first + 1
                highest = max(highest, numbers.last)
        if count > 0:
            write_ack(out, channel, ACK, highest, MULTIPLE if count > 1 else 0)
            self.acked += count
        for numbers in self._settled:
            if numbers.first > first_pending:
                self.acked += numbers.last - numbers.first + 1
                number = numbers.first
                while number <= numbers.last:
                    write_ack(out, channel, ACK, number, 0)
                    number += 1

    def _add_settled(self, number: i64) -> None:
        if self._settled:
            last = self._settled[-1]
            if last.last == number - 1:
                last.last = number
                return
        self._settled.append(PublishRange(number, number, 0))

    def _add_remote(self, numbers: RemotePublishRange) -> None:
        if self._plain:
            self._leave_plain()
        self._pending.add(numbers)

    def _decide_changed(self) -> None:
        """Collect the decisions of other nodes."""
        for numbers in sorted(self._changed, key=_first_of):
            numbers.decide(self._flushed_no, self._settled, self._rejected)
            if numbers.over:
                self._pending.end(numbers)
                if numbers is self._growing_remote:
                    self._growing_remote = None
        self._changed.clear()

    def _begin_range(self, number: i64) -> None:
        assert self._batch_no > self._flushed_no, "the batch began in this turn"
        if self._plain:
            self._leave_plain()
        numbers = PublishRange(number, number, self._batch_no)
        self._pending.add(numbers)
        self._batched.append(numbers)
        self._growing = numbers

    def _leave_plain(self) -> None:
        """From here on the settled, unsent numbers are kept in `_settled`."""
        first: i64 = self._confirmed_to + 1
        for rejected in self._rejected:
            if rejected > first:
                self._settled.append(PublishRange(first, i64(rejected) - 1, 0))
            first = i64(rejected) + 1
        if first <= self.last_no:
            self._settled.append(PublishRange(first, self.last_no, 0))
        self._plain = False


def _first_of(numbers: RemotePublishRange) -> int:
    return int(numbers.first)
