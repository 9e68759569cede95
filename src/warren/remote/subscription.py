"""A consumer of this node on a queue of another: what has come for it and waits until it is able.

Nothing is handed on before the client knows that it consumes. Whenever half of the window has been handed on, the home
is told; a delivery to a consumer without acks is acked as it is handed on.

Invariant: what waits was delivered after what was handed on, so the number of the last one handed on says all.

Not here: the home's side (`remote.hosted_consumer`).
"""

from typing import TYPE_CHECKING, final

from librt.strings import BytesWriter, write_i64_be
from mypy_extensions import i64

from warren.model.distant import Answer
from warren.model.message import Entry
from warren.model.ports import Consumer
from warren.model.reading_on import ReadingOn, is_stream
from warren.remote import records
from warren.remote.hosted_consumer import WINDOW_BYTES, WINDOW_MESSAGES
from warren.wire.values import write_shortstr, write_table

if TYPE_CHECKING:
    from warren.remote.link import Link
    from warren.remote.remote_queue import RemoteQueue


@final
class Subscription:
    """One consumer's share of a link."""

    def __init__(self, queue: "RemoteQueue", consumer: Consumer, answer: Answer, link: "Link") -> None:
        self.queue: RemoteQueue = queue
        self.consumer: Consumer = consumer
        self.number: i64 = link.subscribe(self)
        self.answer: Answer = answer
        self.started: bool = False
        # its queue cannot serve it, whoever is master
        self.ended: bool = False
        # nobody is given anything of a stream twice, so what a client has need not be kept for it
        self._of_stream: bool = is_stream(queue.arguments)
        # the last delivery that was handed on
        self.seen: i64 = 0
        # of a stream that is not mirrored, but may come to be
        self._place: ReadingOn | None = None
        if queue.opening is None and is_stream(queue.arguments):
            self._place = ReadingOn(consumer.arguments)
        self._link: Link = link
        self._waiting: list[Entry] = []
        self._taken: i64 = 0
        self._taken_bytes: i64 = 0
        # of that, what the home does not know yet
        self._untold: i64 = 0
        self._untold_bytes: i64 = 0

    def ask(self, ticket: i64, queue_no: i64) -> None:
        """Ask the home to take it."""
        consumer = self.consumer
        payload = BytesWriter()
        for word in (ticket, queue_no, self.number, consumer.priority):
            write_i64_be(payload, word)
        write_i64_be(payload, consumer.unacked_max())
        write_shortstr(payload, consumer.tag)
        write_table(payload, consumer.arguments)
        flags: i64 = records.EXCLUSIVE if consumer.exclusive else 0
        if consumer.no_ack:
            flags |= records.NO_ACK
        records.write_text(self._link.output(), records.CONSUME, flags, payload.getvalue())

    def arrived(self, entry: Entry) -> None:
        if self._waiting or not self.started or not self.consumer.able():
            self._waiting.append(entry)
            if self.started:
                self.queue.await_drain()
        else:
            self._hand_on(entry)

    def offset(self) -> i64:
        """Where a stream's reader is; -1 if that is not known."""
        place = self._place
        if place is None:
            return -1
        # where it began was told with the answer
        place.began(self.answer.ready - 1)
        return place.offset()

    def let_go(self) -> None:
        if self.ended:
            self.consumer.ended()
        else:
            self.consumer.cancelled()

    def waits(self) -> bool:
        """Whether something is there for a client that knows of it."""
        return self.started and len(self._waiting) > 0

    def hand_out(self) -> None:
        """Everything goes that the consumer is able to take."""
        waiting = self._waiting
        count: i64 = 0
        while count < len(waiting) and (self.consumer.able() or self._was_acked(waiting[count])):
            self._hand_on(waiting[count])
            count += 1
        del waiting[:count]

    def _hand_on(self, entry: Entry) -> None:
        self.seen = entry.position
        size_bytes = len(entry.message.content)
        passed_over = self._was_acked(entry)
        if not passed_over:
            if self._place is not None:
                self._place.got(entry)
            self.consumer.deliver(entry)
            if self._of_stream:
                entry.drop_message()
        if passed_over or self.consumer.no_ack:
            self._link.ack(entry)
        self._untold += 1
        self._untold_bytes += size_bytes
        if self._untold >= WINDOW_MESSAGES // 2 or self._untold_bytes >= WINDOW_BYTES // 2:
            self._taken += self._untold
            self._taken_bytes += self._untold_bytes
            self._untold = 0
            self._untold_bytes = 0
            self._link.send_taken(self.number, self._taken, self._taken_bytes)

    def _was_acked(self, entry: Entry) -> bool:
        late = self.queue.late
        return late is not None and late.has(entry)
