"""What one caller wants published, and what became of each of its messages.

    waiting ──written──▶ on the channel ──confirmed, returned, refused──▶ decided
       ▲                       │
       └──the channel ended────┘

Messages are told by their place in the call. They are written in their order, so all before `_reached` were written at
least once; of those, what is not decided may be at the broker or not.

Invariants: a message is in exactly one of the three states; `left` counts those that are not decided; a call has ended
when none is left, and nothing of it is written from then on. The outcome of a message is None only if its confirm came:
until it is decided an error stands there, which says that nothing is known.

Not here: when messages are written and taken back (`recovering.sending`).
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from warren.client.errors import CallTimeout, ClientError
from warren.client.machine.publishes import Message
from warren.client.publisher import PublishBulk
from warren.client.transport import Outgoing

UNDECIDED: Final = CallTimeout("the broker has not said what became of the message")
ENCODING_ERRORS: Final = (ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RecursionError)
"""What comes of encoding a message whose values are too large, or of types that have no form."""


class CallSlice:
    """Messages of one call that go to one exchange in one bulk."""

    def __init__(
        self, call: "PublishCall", places: Sequence[int], first: Outgoing, messages: Sequence[Message]
    ) -> None:
        self.call = call
        # of its messages within the call, in the order in which they are in the bulk
        self.places = places
        self.exchange = first.exchange
        self.routing_key = first.routing_key
        self.mandatory = first.mandatory
        self.bulk = PublishBulk(messages, self._ended)
        # told when the channel ends before all is decided
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
        # told when none is left, perhaps more than once: a callback of the future would cost a turn of the event loop
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
        """The next that may go in one bulk: one exchange, mandatory or not; a key of its own is no reason to part.

        One of the `MISFITS` if the first that waits is no message.
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
                    # it would be noticed only after its header was written
                    raise TypeError(f"its body is of type {type(message.body).__name__}, not bytes")
            except ENCODING_ERRORS:
                if not messages:
                    raise
                break
            messages.append(message)
        return CallSlice(self, self._waiting[: len(messages)], first, messages)

    def begin(self, part: CallSlice) -> None:
        """It is about to be written."""
        self._parts.append(part)
        self._waiting = self._waiting[len(part.places) :]

    def stopped(self, part: CallSlice) -> None:
        """No more of it is written; what was not waits again."""
        self._reach(part)
        sent = part.bulk.sent
        if self.left and sent < len(part.places):
            self._waiting = [*part.places[sent:], *self._waiting]
            part.places = part.places[:sent]

    def decided(self, part: CallSlice) -> None:
        """All that was sent of a part is decided."""
        if part in self._parts:
            self._parts.remove(part)
            self._note(part, part.places[: part.bulk.sent])

    def fail_next(self, error: ClientError) -> None:
        """The outcome of the first that waits."""
        self.outcomes[self._waiting[0]] = error
        self._waiting = self._waiting[1:]
        self._count(1)

    def fail(self, errors: Mapping[int, ClientError]) -> None:
        """The outcomes of some that wait."""
        self._waiting = [place for place in self._waiting if place not in errors]
        for place, error in errors.items():
            self.outcomes[place] = error
        self._count(len(errors))

    def take_back(self) -> "list[SuspectPublish]":
        """The channel has ended: all that is not decided waits again. Returned is what was written on that channel."""
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
        """What is not decided has an error for its outcome, which depends on whether it was ever written."""
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
        """Places of a part that the broker has confirmed or refused."""
        for place in decided:
            self.outcomes[place] = None
        for index, error in part.bulk.failed.items():
            self.outcomes[part.places[index]] = error
        self._count(len(decided))

    def _count(self, decided: int) -> None:
        self.left -= decided
        if self.left == 0:
            # it is done as well if who waits for it was cancelled
            if not self.ended.done():
                self.ended.set_result(None)
            if self.on_end is not None:
                self.on_end(self)


@dataclass(frozen=True, slots=True)
class SuspectPublish:
    """A message that was written on a channel and not decided when that ended; `before`: also on an earlier one."""

    call: PublishCall
    place: int
    before: bool

    @property
    def exchange(self) -> str:
        return self.call.messages[self.place].exchange


def _at(places: Sequence[int], indexes: Sequence[int]) -> list[int]:
    return [places[index] for index in indexes]
