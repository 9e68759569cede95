"""A question to a mirrored queue: asked of one master after another until one of them answers.

Not here: what can be asked (`model.distant`), when there is a master (`remote.seat`).
"""

from typing import TYPE_CHECKING, final

from warren.errors import ChannelFault
from warren.model.distant import CONSUME, GET, GET_NO_ACK, REMOVE, Answer
from warren.model.ports import OutputPort

if TYPE_CHECKING:
    from warren.remote.remote_queue import RemoteQueue
    from warren.remote.seat import Seat
    from warren.remote.seated_consumer import SeatedConsumer


@final
class Inquiry(OutputPort):
    """One question, and who is to be told the answer."""

    def __init__(self, seat: "Seat", answer: Answer, seated: "SeatedConsumer | None") -> None:
        self.answer: Answer = answer
        self._seat: Seat = seat
        self._seated: SeatedConsumer | None = seated
        # what the master was asked
        self._asked: Answer | None = None

    def ask(self, run: "RemoteQueue") -> None:
        """Ask this master."""
        seated = self._seated
        if seated is not None and self.answer.question == CONSUME:
            seated.attached = True
        try:
            self._asked = run.ask(self.answer.question, self, seated)
        except ChannelFault as fault:
            self._asked = None
            self._seat.inquiry_over(self)
            self.fail(fault)

    def detach(self) -> None:
        """The master is lost: whatever it says to it does not count."""
        self._asked = None

    def abandon(self, run: "RemoteQueue") -> None:
        if self._asked is not None:
            run.abandon(self._asked)

    def fail(self, fault: ChannelFault) -> None:
        self.answer.failed(fault)

    def gone(self, fault: ChannelFault) -> None:
        """The queue is no more, which is all that somebody wants who deletes it."""
        if self.answer.question >= REMOVE:
            self.answer.counted(0, 0)
        else:
            self.fail(fault)

    def flush(self) -> None:
        """It has no output of its own."""

    def go_on(self) -> None:
        asked = self._asked
        if asked is None or not asked.done:
            return
        self._asked = None
        self._seat.inquiry_over(self)
        self._seat.told(asked.question, asked.ready, asked.consumers)
        if asked.fault is not None:
            if self._seated is not None:
                self._seated.attached = False
            self.fail(asked.fault)
        elif asked.question in (GET, GET_NO_ACK):
            self.answer.got(asked.entry, asked.ready)
        else:
            if self._seated is not None and self._seated.place is not None and asked.question == CONSUME:
                self._seated.place.began(asked.ready - 1)
            self.answer.counted(asked.ready, asked.consumers)
