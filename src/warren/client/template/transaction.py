"""Messages of a template that count together.

    async with template.transaction() as together:
        together.send(order)
        together.send(bill, routing_key="billing")

They are gathered, and sent when the block is left: as one transaction, or, if an error leaves it, not at all.

Not here: what the broker does with it (`Transport.publish_together`).
"""

from collections.abc import Callable
from types import TracebackType
from typing import Self, Unpack

from warren.client.template.preparing import Overrides, message_id_of
from warren.client.transport import Outgoing, Transport


class Gathering:
    """Messages, as long as they are taken: until they are sent or dropped."""

    def __init__(self, outgoing_of: Callable[[object, Overrides], Outgoing]) -> None:
        self._outgoing_of = outgoing_of
        self._messages: list[Outgoing] = []
        self._is_over = False

    @property
    def is_over(self) -> bool:
        return self._is_over

    def send(self, payload: object, **overrides: Unpack[Overrides]) -> str:
        """The id that the message will have; a `CannotConvert` if it cannot be sent."""
        self._check_open()
        outgoing = self._outgoing_of(payload, overrides)
        self._messages.append(outgoing)
        return message_id_of(outgoing)

    def drop(self) -> None:
        """Send none of them."""
        self._is_over = True

    def end(self) -> list[Outgoing]:
        """What is to be sent, once."""
        self._check_open()
        self._is_over = True
        return self._messages

    def _check_open(self) -> None:
        if self._is_over:
            raise ValueError("this transaction is over; begin another one")


class Transaction(Gathering):
    """For `async with`: committed when the block is left, unless it was before, or dropped."""

    def __init__(
        self, transport: Transport, outgoing_of: Callable[[object, Overrides], Outgoing], timeout_s: float | None
    ) -> None:
        super().__init__(outgoing_of)
        self._transport = transport
        self._timeout_s = timeout_s

    async def commit(self) -> None:
        """Returns when the broker has all of them; else an error, whose `outcome` says whether it has none."""
        if messages := self.end():
            await self._transport.publish_together(messages, self._timeout_s)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None and not self._is_over:
            await self.commit()
        else:
            self.drop()
