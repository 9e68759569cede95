"""The messages of one publish call, and their outcomes.

    waiting ──written──▶ on the channel ──confirmed, returned, refused──▶ decided
       ▲                       │
       └──the channel ended────┘

A message is identified by its index in the call. Messages are written in order, so all before `_reached` were written
at least once; the undecided ones among them may be at the broker or not.

Invariants: a message is in exactly one of the three states; `left` counts the undecided ones; a call has ended when
none is left, and nothing of it is written after that. The outcome of a message is None only after its confirm: until it
is decided the outcome is an error that says so.

Not here: when messages are written and taken back (`recovering.sender`).
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from warren.client.errors import CallTimeout, ClientError
from warren.client.machine.publishes import Message
from warren.client.publisher import PublishBulk
from warren.client.transport import Outgoing

UNDECIDED: Final = CallTimeout("the broker has not confirmed the message")
ENCODING_ERRORS: Final = (ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RecursionError)
"""The errors of encoding a message with values that are too large, or of unsupported types."""


class CallSlice:
    """Messages of one call that go to one exchange in one bulk."""

    def __init__(
        self, call: "PublishCall", places: Sequence[int], first: Outgoing, messages: Sequence[Message]
    ) -> None:
        self.call = call
        # the index in the call, by the index in the bulk
        self.places = places
        self.exchange = first.exchange
        self.routing_key = first.routing_key
        self.mandatory = first.mandatory
        self.bulk = PublishBulk(messages, self._ended)
        # called when the channel ends before all is decided
        self.on_break: Callable[[], None] | None = None

    def _ended(self, bulk: PublishBulk) -> None:
        if bulk.error is None:
            self.call.decided(self)
        elif self.on_break is not None:
            self.on_break()


class PublishCall:
    """The messages of one call."""

    def __init__(self, messages: Sequence[Outgoing]) -> None:
        self.messages = messages
        self.outcomes: list[ClientError | None] = [UNDECIDED] * len(messages)
        self.left = len(messages)
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # called when none is left, perhaps more than once; a callback of the future would cost a turn of the event loop
        self.on_end: Callable[[PublishCall], None] | None = None
        self._waiting: Sequence[int] = range(len(messages))
        self._parts: list[CallSlice] = []
        self._reached = 0
        # how far it was written on channels that have ended
        self._reached_before = 0
        if not messages:
            self.ended.set_result(None)

    @property
    def waits(self) -> bool:
        return bool(self._waiting) and self.left > 0

    def next_part(self, most: int) -> CallSlice:
        """The next slice for one bulk: one exchange and one `mandatory`; routing keys may differ.

        One of the `ENCODING_ERRORS` if the first waiting item is no message.
        """
        first = self.messages[self._waiting[0]]
        exchange, mandatory, common_key = first.exchange, first.mandatory, first.routing_key
        messages: list[Message] = []
        for place in self._waiting[:most]:
            try:
                outgoing = self.messages[place]
                if outgoing.exchange != exchange or outgoing.mandatory != mandatory:
                    break
                message = outgoing.message
                if outgoing.routing_key != common_key and message.routing_key is None:
                    message = Message(message.body, message.properties, outgoing.routing_key)
                if not isinstance(message.body, bytes | bytearray):
                    # the writer would notice it after it has written the header
                    raise TypeError(f"its body is of type {type(message.body).__name__}, not bytes")
            except ENCODING_ERRORS:
                if not messages:
                    raise
                break
            messages.append(message)
        return CallSlice(self, self._waiting[: len(messages)], first, messages)

    def begin(self, part: CallSlice) -> None:
        """The slice is about to be written."""
        self._parts.append(part)
        self._waiting = self._waiting[len(part.places) :]

    def stopped(self, part: CallSlice) -> None:
        """No more of the slice is written; the rest waits again."""
        self._reach(part)
        sent = part.bulk.sent
        if self.left and sent < len(part.places):
            self._waiting = [*part.places[sent:], *self._waiting]
            part.places = part.places[:sent]

    def decided(self, part: CallSlice) -> None:
        """All sent messages of a slice are decided."""
        if part in self._parts:
            self._parts.remove(part)
            self._note(part, part.places[: part.bulk.sent])

    def fail_next(self, error: ClientError) -> None:
        """Set the outcome of the first waiting message."""
        self.outcomes[self._waiting[0]] = error
        self._waiting = self._waiting[1:]
        self._count(1)

    def fail(self, errors: Mapping[int, ClientError]) -> None:
        """Set the outcomes of some waiting messages."""
        self._waiting = [place for place in self._waiting if place not in errors]
        for place, error in errors.items():
            self.outcomes[place] = error
        self._count(len(errors))

    def take_back(self) -> "list[SuspectPublish]":
        """The channel has ended: all undecided messages wait again. Returns those written on that channel."""
        if not self._parts:
            return []
        suspects: list[SuspectPublish] = []
        unsent: list[int] = []
        for part in self._parts:
            self._reach(part)
            left = part.bulk.undecided()
            suspects += [SuspectPublish(self, place, place < self._reached_before) for place in _at(part.places, left)]
            unsent += part.places[part.bulk.sent :]
            undecided = set(left)
            self._note(part, [part.places[index] for index in range(part.bulk.sent) if index not in undecided])
        self._parts = []
        self._reached_before = self._reached
        self._waiting = sorted({*(suspect.place for suspect in suspects), *unsent, *self._waiting})
        return suspects

    def give_up(self, error: Callable[[bool], ClientError]) -> None:
        """Set an error as the outcome of each undecided message; it depends on whether the message was ever written."""
        for part in self._parts:
            part.bulk.wanted = False
        self.take_back()
        for place, outcome in enumerate(self.outcomes):
            if outcome is UNDECIDED:
                self.outcomes[place] = error(place < self._reached)
        self._waiting = ()
        self._count(self.left)

    def _reach(self, part: CallSlice) -> None:
        if part.bulk.sent:
            self._reached = max(self._reached, part.places[part.bulk.sent - 1] + 1)

    def _note(self, part: CallSlice, decided: Sequence[int]) -> None:
        """Record the indexes of a slice that the broker has confirmed or refused."""
        for place in decided:
            self.outcomes[place] = None
        for index, error in part.bulk.failed.items():
            self.outcomes[part.places[index]] = error
        self._count(len(decided))

    def _count(self, decided: int) -> None:
        self.left -= decided
        if self.left == 0:
            # it is also done if the caller was cancelled
            if not self.ended.done():
                self.ended.set_result(None)
            if self.on_end is not None:
                self.on_end(self)


@dataclass(frozen=True, slots=True)
class SuspectPublish:
    """A message that was written and undecided when its channel ended; `before`: also on an earlier channel."""

    call: PublishCall
    place: int
    before: bool

    @property
    def exchange(self) -> str:
        return self.call.messages[self.place].exchange


def _at(places: Sequence[int], indexes: Sequence[int]) -> list[int]:
    return [places[index] for index in indexes]
