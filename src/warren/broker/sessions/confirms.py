"""Publisher confirms of one channel.

Publishes are numbered from 1 in the order they arrive. Each is settled at once, refused by a queue, or pending: held
safely once the batch of its turn is on disk, or once queues of other nodes have said so (`broker.sessions.confirms`),
or both. What is pending is a row of runs, lowest numbers first. Batches come back in order, so those that wait for the
disk are decided in order; other nodes answer when they do, and the runs they answered for are looked at, once a turn.

Lemma: a number below the first pending one is decided. So of what was decided since confirms were last told, all below
the first pending number is told by one `basic.ack` with `multiple`, at the highest number among it; the rest is told
singly, because a `multiple` would pass a publish that is neither acked nor nacked. A `basic.nack` is always single,
and told before any ack that passes it.

As long as nothing is pending (`_plain`) no run is kept: all after `_told` is settled but for what `_rejected` names.
When everything is pending, one run a batch is kept.

Not here: when a publish counts as settled (`broker.model.ports.QueuePort.publish`).

Publishes of one channel that other nodes decide about.

A run waits for one queue, and grows while that queue's publishes follow one another; the queue settles them in order.
Or it is a single publish that several queues have, and then it is settled when the last of them says so. A refusal is
told at once, and what is told is kept out of what is settled later.

A run that something is known of is *stirred*: it puts itself on its channel's list, once, and is looked at when that
tells. So what it costs to tell does not depend on how many wait.

Not here: telling (`broker.sessions.confirms`), the queue's side (`broker.links.publish_waiters`).

The runs of a channel's publishes that are not decided, lowest numbers first.

They come in order, and any of them may be over first. One that is over stays in its place until it is the first; so
neither adding one, nor ending one, nor asking for the first costs more the more there are.

Invariant: unless it is empty, the run at `_first` is not over.

Not here: what runs wait for (`broker.sessions.confirms`, `broker.sessions.confirms`).
"""

from abc import abstractmethod
from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64, trait

from warren.broker.model.ports import PublishWaiter, QueuePort
from warren.broker.sessions.counters import PublishCounter
from warren.wire.frames import write_ack


class PublishRange:
    """Publishes that follow one another and share their fate."""

    def __init__(self, first: i64, last: i64, batch_no: i64) -> None:
        self.first: i64 = first
        self.last: i64 = last
        # the batch it waits for; 0 for none
        self.batch_no: i64 = batch_no
        # all of it is decided
        self.over: bool = False


@trait
class ConfirmSender:
    """Whoever tells the publisher."""

    @abstractmethod
    def confirms_decided(self) -> None:
        """There may be something to tell when this turn ends."""


@final
class RemotePublishRange(PublishRange, PublishWaiter):
    """Publishes that wait for queues of other nodes."""

    def __init__(
        self,
        number: i64,
        batch_no: i64,
        queue: QueuePort,
        queues: i64,
        teller: ConfirmSender,
        counter: PublishCounter,
        stirred: list["RemotePublishRange"],
    ) -> None:
        super().__init__(number, number, batch_no)
        self.queue: QueuePort = queue
        # where they are counted
        self.counter: PublishCounter = counter
        # how many queues have yet to settle each of them; more than one if it is a single publish
        self._queues: i64 = queues
        # of the first ones, how many are settled
        self._done: i64 = 0
        # numbers that were refused, in order, and those of them that were not told
        self._refused: list[int] = []
        self._untold: list[int] = []
        self._lost: bool = False
        self._teller: ConfirmSender = teller
        self._list: list[RemotePublishRange] = stirred
        self._stirred: bool = False

    def stir(self) -> None:
        """Have it looked at, unless it is over: of several queues one may be lost, and others answer later."""
        if not self._stirred and not self.over:
            self._stirred = True
            self._list.append(self)

    def settled(self, count: i64) -> None:
        if self._queues > 1:
            self._queues -= 1
            return
        self._done += count
        self._tell()

    def refused(self, place: i64) -> None:
        # one queue refuses in order; of several that refuse a single publish, the first one counts
        if not self._refused or self._refused[-1] < place:
            self._refused.append(int(place))
            self._untold.append(int(place))
            self._tell()

    def lost(self, reason: str) -> None:
        self._lost = True
        self._tell()

    def decide(self, flushed_no: i64, settled: list[PublishRange], rejected: list[int]) -> None:
        """Take out what is decided; it is over if that is all."""
        self._stirred = False
        rejected.extend(self._untold)
        self.counter.refused += len(self._untold)
        self._untold = []
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

    def _reject_rest(self, rejected: list[int]) -> None:
        refused = set(self._refused)
        while self.first <= self.last:
            if int(self.first) not in refused:
                rejected.append(int(self.first))
                self.counter.refused += 1
            self.first += 1

    def _tell(self) -> None:
        self.stir()
        self._teller.confirms_decided()


EMPTY_SLOTS_MAX: Final[i64] = 256
"""So many places in front may stand empty, and as many as are taken."""


@final
class PendingPublishRanges:
    """A row of them."""

    def __init__(self) -> None:
        # how many are not over
        self.count: i64 = 0
        self._runs: list[PublishRange] = []
        self._first: i64 = 0

    def add(self, run: PublishRange) -> None:
        self._runs.append(run)
        self.count += 1

    def end(self, run: PublishRange) -> None:
        """It is over; told once."""
        run.over = True
        self.count -= 1
        runs = self._runs
        while self._first < len(runs) and runs[self._first].over:
            self._first += 1
        if self._first > EMPTY_SLOTS_MAX and self._first * 2 > len(runs):
            del runs[: self._first]
            self._first = 0

    def first_no(self) -> i64:
        """The lowest number that is not decided; there is one."""
        return self._runs[self._first].first


ACK: Final[i64] = 80
NACK: Final[i64] = 120
MULTIPLE: Final[i64] = 1
REQUEUE: Final[i64] = 2
"""Means nothing in a confirm, but RabbitMQ sets it."""


@final
class Confirms:
    """Numbers publishes and tells their fate."""

    def __init__(self) -> None:
        # whether confirm.select was seen
        self.on: bool = False
        self.last_no: i64 = 0
        # how many were told, of either kind
        self.acked: i64 = 0
        self.nacked: i64 = 0
        self._told: i64 = 0
        self._rejected: list[int] = []
        # nothing is pending, and nothing that was decided meanwhile is untold
        self._plain: bool = True
        self._pending: PendingPublishRanges = PendingPublishRanges()
        # those of them that wait for a batch, in order
        self._batched: list[PublishRange] = []
        # the last one that waits for a batch alone, which grows
        self._growing: PublishRange | None = None
        # the last one that waits for a single queue elsewhere; those that other nodes have answered for
        self._growing_elsewhere: RemotePublishRange | None = None
        self._stirred: list[RemotePublishRange] = []
        # settled and not told, unless plain
        self._settled: list[PublishRange] = []
        # batches of this channel's own, counted as they are begun and as they are flushed
        self._batch_no: i64 = 0
        self._flushed_no: i64 = 0

    def settled(self) -> None:
        """The next publish is held as safely as its queues promise."""
        self.last_no += 1
        if not self._plain:
            self._settle_apart(self.last_no)

    def rejected(self) -> None:
        """The next publish was refused by a queue."""
        self.last_no += 1
        self._rejected.append(self.last_no)

    def begin_batch(self) -> None:
        """What is pending from here on waits for another batch."""
        self._batch_no += 1
        self._growing = None

    def pending(self) -> None:
        """The next publish is held safely once the batch begun last is on disk."""
        number: i64 = self.last_no + 1
        run = self._growing
        if run is not None and run.last == self.last_no:
            run.last = number
        else:
            self._begin_run(number)
        self.last_no = number

    def elsewhere(self, queue: QueuePort, teller: ConfirmSender, counter: PublishCounter) -> None:
        """The next publish is decided by a queue of another node."""
        number: i64 = self.last_no + 1
        run = self._growing_elsewhere
        if run is not None and run.last == self.last_no and run.queue is queue and run.counter is counter:
            run.last = number
        else:
            run = RemotePublishRange(number, 0, queue, 1, teller, counter, self._stirred)
            self._add_distant(run)
            self._growing_elsewhere = run
        self.last_no = number
        queue.await_settlement(run, number)

    def elsewhere_too(
        self, queues: list[QueuePort], in_batch: bool, teller: ConfirmSender, counter: PublishCounter
    ) -> None:
        """The next publish is decided by all of these, and by the batch begun last if it is in it."""
        number: i64 = self.last_no + 1
        batch_no: i64 = self._batch_no if in_batch else 0
        run = RemotePublishRange(number, batch_no, queues[0], len(queues), teller, counter, self._stirred)
        self._add_distant(run)
        if in_batch:
            self._batched.append(run)
        self.last_no = number
        for queue in queues:
            queue.await_settlement(run, number)

    def flushed(self) -> None:
        """The oldest batch is on disk: what waited for it is settled."""
        self._flushed_no += 1
        count = 0
        for run in self._batched:
            if run.batch_no > self._flushed_no:
                break
            count += 1
            if isinstance(run, RemotePublishRange):
                run.stir()
            else:
                self._settled.append(run)
                self._pending.end(run)
        del self._batched[:count]
        if not self._batched:
            self._growing = None

    def unconfirmed(self) -> i64:
        """How many publishes were not told their fate yet."""
        return self.last_no - self.acked - self.nacked

    def undecided(self) -> bool:
        """Whether what is told goes partly by single acks."""
        return self._pending.count > 0

    def tell(self, out: BytesWriter, channel: i64) -> None:
        """Tell everything that is decided and not told yet."""
        if self._stirred:
            self._look_at_stirred()
        if self._plain:
            self._tell_in_order(out, channel)
        else:
            self._tell_around_pending(out, channel)

    def _tell_in_order(self, out: BytesWriter, channel: i64) -> None:
        for number in self._rejected:
            self._ack_to(out, channel, i64(number) - 1)
            write_ack(out, channel, NACK, number, REQUEUE)
            self._told = number
        if self._rejected:
            self.nacked += len(self._rejected)
            self._rejected = []
        self._ack_to(out, channel, self.last_no)

    def _ack_to(self, out: BytesWriter, channel: i64, number: i64) -> None:
        run: i64 = number - self._told
        if run <= 0:
            return
        write_ack(out, channel, ACK, number, MULTIPLE if run > 1 else 0)
        self._told = number
        self.acked += run

    def _tell_around_pending(self, out: BytesWriter, channel: i64) -> None:
        for number in self._rejected:
            write_ack(out, channel, NACK, number, REQUEUE)
        self.nacked += len(self._rejected)
        self._rejected = []
        if self._settled:
            self._ack_settled(out, channel)
            self._settled = []
        if self._pending.count == 0:
            self._plain = True
            self._told = self.last_no

    def _ack_settled(self, out: BytesWriter, channel: i64) -> None:
        first_pending: i64 = self._pending.first_no() if self._pending.count != 0 else self.last_no + 1
        count: i64 = 0
        highest: i64 = 0
        for run in self._settled:
            if run.first < first_pending:
                count += run.last - run.first + 1
                highest = max(highest, run.last)
        if count > 0:
            write_ack(out, channel, ACK, highest, MULTIPLE if count > 1 else 0)
            self.acked += count
        for run in self._settled:
            if run.first > first_pending:
                self.acked += run.last - run.first + 1
                number = run.first
                while number <= run.last:
                    write_ack(out, channel, ACK, number, 0)
                    number += 1

    def _settle_apart(self, number: i64) -> None:
        if self._settled:
            last = self._settled[-1]
            if last.last == number - 1:
                last.last = number
                return
        self._settled.append(PublishRange(number, number, 0))

    def _add_distant(self, run: RemotePublishRange) -> None:
        if self._plain:
            self._leave_plain()
        self._pending.add(run)

    def _look_at_stirred(self) -> None:
        """Part what other nodes have decided from what they have not."""
        for run in sorted(self._stirred, key=_first_of):
            run.decide(self._flushed_no, self._settled, self._rejected)
            if run.over:
                self._pending.end(run)
                if run is self._growing_elsewhere:
                    self._growing_elsewhere = None
        self._stirred.clear()

    def _begin_run(self, number: i64) -> None:
        if self._plain:
            self._leave_plain()
        run = PublishRange(number, number, self._batch_no)
        self._pending.add(run)
        self._batched.append(run)
        self._growing = run

    def _leave_plain(self) -> None:
        """From here on what is settled and not told is named."""
        first: i64 = self._told + 1
        for rejected in self._rejected:
            if rejected > first:
                self._settled.append(PublishRange(first, i64(rejected) - 1, 0))
            first = i64(rejected) + 1
        if first <= self.last_no:
            self._settled.append(PublishRange(first, self.last_no, 0))
        self._plain = False


def _first_of(run: RemotePublishRange) -> int:
    return int(run.first)
