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


class Transaction:
    """Takes messages as long as its block lasts."""

    def __init__(
        self, transport: Transport, outgoing_of: Callable[[object, Overrides], Outgoing], timeout_s: float | None
    ) -> None:
        self._transport = transport
        self._outgoing_of = outgoing_of
        self._timeout_s = timeout_s
        self._messages: list[Outgoing] = []
        self._is_over = False

    def send(self, payload: object, **overrides: Unpack[Overrides]) -> str:
        """The id that the message will have; a `CannotConvert` if it cannot be sent."""
        if self._is_over:
            raise ValueError("this transaction is over; begin another one")
        outgoing = self._outgoing_of(payload, overrides)
        self._messages.append(outgoing)
        return message_id_of(outgoing)

    async def commit(self) -> None:
        """Returns when the broker has all of them; else an error, whose `outcome` says whether it has none."""
        self._is_over = True
        if self._messages:
            await self._transport.publish_together(self._messages, self._timeout_s)

    def drop(self) -> None:
        """Send none of them."""
        self._is_over = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None and not self._is_over:
            await self.commit()
        else:
            self.drop()
