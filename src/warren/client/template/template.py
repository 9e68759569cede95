"""The template itself: one object for each exchange and routing key that a program sends to.

A template has no connection of its own; many may share a transport, and closing that is for whoever opened it.

Not here: how a message is made (`template.preparing`), how many may be undecided (`template.window`).
"""

import asyncio
from collections.abc import Iterable
from typing import Self, Unpack

from warren.client.converters import CONVERTERS, Converter
from warren.client.errors import BatchFailed
from warren.client.settings import TemplateSettings
from warren.client.settings.content import SEND_TIMEOUT_S, WINDOW
from warren.client.template.preparing import Overrides, Standing, message_id_of, prepared
from warren.client.template.transaction import Transaction
from warren.client.template.window import Window
from warren.client.transport import Outgoing, Transport


class Template:
    """Sends payloads. A payload that is an `Outgoing` already, from `prepare`, is sent as it is."""

    def __init__(
        self,
        transport: Transport,
        *,
        exchange: str = "",
        routing_key: str = "",
        converter: Converter | None = None,
        mandatory: bool = True,
        persistent: bool = True,
        timeout_s: float | None = SEND_TIMEOUT_S,
        window: int = WINDOW,
    ) -> None:
        """Without a converter payloads become JSON; without a `timeout_s` a call waits as long as it takes."""
        self._transport = transport
        self._timeout_s = timeout_s
        self._standing = Standing(exchange, routing_key, converter or CONVERTERS["json"], mandatory, persistent)
        self._window = Window(transport, window, timeout_s)

    @classmethod
    def of(cls, transport: Transport, settings: TemplateSettings) -> Self:
        """As settings describe it."""
        return cls(
            transport,
            exchange=settings.exchange,
            routing_key=settings.routing_key,
            converter=CONVERTERS[settings.converter],
            mandatory=settings.mandatory,
            persistent=settings.persistent,
            timeout_s=settings.timeout_s,
            window=settings.window,
        )

    def prepare(self, payload: object, **overrides: Unpack[Overrides]) -> Outgoing:
        """What would be sent; to be sent later, or as one of a batch with overrides of its own."""
        return self._outgoing(payload, overrides)

    async def send(self, payload: object, **overrides: Unpack[Overrides]) -> str:
        """The message's id, when the broker has it; the error that says what became of it if it has not."""
        outgoing = self._outgoing(payload, overrides)
        [error] = await self._transport.publish([outgoing], self._timeout_s)
        if error is not None:
            raise error
        return message_id_of(outgoing)

    async def send_batch(self, payloads: Iterable[object], **overrides: Unpack[Overrides]) -> list[str]:
        """Their ids, when the broker has all of them; else a `BatchFailed` with those it has not."""
        if "message_id" in overrides:
            raise ValueError("the messages of a batch have an id each; give it with prepare")
        batch = [self._outgoing(payload, overrides) for payload in payloads]
        decisions = await self._transport.publish(batch, self._timeout_s) if batch else []
        ids = [message_id_of(outgoing) for outgoing in batch]
        failures = [(id, error) for id, error in zip(ids, decisions, strict=True) if error is not None]
        if failures:
            raise BatchFailed(failures, len(batch))
        return ids

    def transaction(self) -> Transaction:
        """For `async with`: what is sent by it counts when the block is left, all of it or nothing."""
        return Transaction(self._transport, self._outgoing, self._timeout_s)

    async def submit(self, payload: object, **overrides: Unpack[Overrides]) -> "asyncio.Future[str]":
        """A future with what `send` returns or raises, once there is room in the window."""
        return await self._window.submit(self._outgoing(payload, overrides))

    async def drain(self) -> None:
        """Returns when all that was submitted is decided; what failed is told by its future."""
        await self._window.drain()

    async def send_one_way(self, payload: object, **overrides: Unpack[Overrides]) -> str:
        """The message's id, as soon as it is handed over: nobody learns whether it arrived."""
        outgoing = self._outgoing(payload, overrides)
        await self._transport.send([outgoing])
        return message_id_of(outgoing)

    def _outgoing(self, payload: object, overrides: Overrides) -> Outgoing:
        if not isinstance(payload, Outgoing):
            return prepared(payload, self._standing, overrides)
        if overrides:
            raise ValueError("a message that was prepared is sent as it is; give prepare what is to be otherwise")
        return payload
