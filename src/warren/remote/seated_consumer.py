"""A consumer of a mirrored queue, as one master after another sees it.

Not here: the client's consumer (`session.consumer`), attaching it (`remote.seat`).
"""

from typing import TYPE_CHECKING, Final, final

from warren.model.distant import CONSUME, Answer
from warren.model.message import Entry
from warren.model.ports import Consumer, OutputPort
from warren.model.reading_on import ReadingOn, is_stream

if TYPE_CHECKING:
    from warren.remote.remote_queue import RemoteQueue
    from warren.remote.seat import Seat

CANCEL_ON_FAILOVER: Final = "x-cancel-on-ha-failover"


@final
class SeatedConsumer(Consumer):
    """Takes what a master delivers on behalf of a client's consumer, which does not notice when masters change."""

    def __init__(self, seat: "Seat", consumer: Consumer) -> None:
        super().__init__(consumer.tag, consumer.no_ack, consumer.exclusive, consumer.priority, consumer.arguments)
        self.consumer: Consumer = consumer
        # a master knows it, or is being asked
        self.attached: bool = False
        # the client knows that it consumes
        self.known: bool = False
        # of a stream's reader
        self.place: ReadingOn | None = ReadingOn(consumer.arguments) if is_stream(seat.arguments) else None
        self._seat: Seat = seat

    def able(self) -> bool:
        return self.consumer.able()

    def deliver(self, entry: Entry) -> None:
        self.consumer.epoch = self._seat.epoch
        if self.place is not None:
            self.place.got(entry)
        self.consumer.deliver(entry)

    def unacked_max(self) -> int:
        return self.consumer.unacked_max()

    def cancelled(self) -> None:
        """The queue lets go of it: because its master is one no more, unless it is deleted."""
        if self.attached:
            self.detach()

    def ended(self) -> None:
        self.attached = False
        self._seat.let_go(self.consumer)

    def detach(self) -> None:
        """Its master is lost."""
        self.attached = False
        if self.known and self.arguments.get(CANCEL_ON_FAILOVER) is True:
            self._seat.let_go(self.consumer)

    def attach(self, run: "RemoteQueue") -> None:
        """To another master, if the client was told that it consumes; if not, it is asked for as any question is."""
        place = self.place
        if place is not None:
            self.arguments = place.arguments()
        if self.known and not self.attached and (place is None or not place.is_over()):
            Attaching(self._seat, self).ask(run)


@final
class Attaching(OutputPort):
    """A consumer that is to go on at another master."""

    def __init__(self, seat: "Seat", seated: SeatedConsumer) -> None:
        self._seat: Seat = seat
        self._seated: SeatedConsumer = seated
        self._run: RemoteQueue | None = None
        self._answer: Answer | None = None

    def ask(self, run: "RemoteQueue") -> None:
        self._run = run
        self._seated.attached = True
        self._answer = run.ask(CONSUME, self, self._seated)

    def flush(self) -> None:
        """It has no output of its own."""

    def go_on(self) -> None:
        answer, run, seated = self._answer, self._run, self._seated
        if answer is None or run is None or not seated.attached:
            return
        if answer.fault is None:
            run.started(seated)
        else:
            # as RabbitMQ does when a consumer cannot go on
            seated.attached = False
            self._seat.let_go(seated.consumer)
