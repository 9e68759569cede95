"""The publishing side of a channel: waiting for room, sending in bulk, and what became of each publish.

A publish has a number if the channel has confirms. `publish` waits until its number is decided; `send` and `send_many`
only until there is room for it, and whoever wants to know calls `wait_for_confirms`, which tells what failed since it
was called last. At most `window` publishes are undecided at once.

Tasks that share a channel send one after another, so that the numbers of a bulk are a range.

Not here: encoding, numbers, ranges (`machine.publishing`, `machine.confirms`).
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from warren.client.errors import CallTimeout, PublishFailed
from warren.client.link import Error, Link
from warren.client.machine.channel import CHANNEL_CLOSING, ChannelMachine
from warren.client.machine.confirms import ConfirmRange
from warren.client.machine.deliveries import ReturnedMessage
from warren.client.machine.publishing import Message
from warren.wire.properties import Properties

WRITE_BYTES: Final = 256 * 1024
"""How much is encoded before it is handed to the socket."""


class Publisher:
    """What one channel publishes."""

    def __init__(self, link: Link, machine: ChannelMachine) -> None:
        self.flows = True
        self._turn = asyncio.Lock()
        self._link = link
        self._machine = machine
        self._error: Error = link.error
        # by number: who waits for it
        self._waiters: dict[int, asyncio.Future[None]] = {}
        # of those that nobody waits for
        self._refused: list[ConfirmRange] = []
        self._returned: list[ReturnedMessage] = []
        # came back and not decided yet
        self._coming_back: dict[int, ReturnedMessage] = {}

    async def send(self, message: Message, exchange: str, routing_key: str, mandatory: bool) -> int:
        async with self._turn:
            await self._until_clear()
            number = self._machine.publish(message, exchange, routing_key, mandatory)
            self._link.flush_soon()
            return number

    async def send_many(
        self,
        messages: Sequence[bytes | Message],
        exchange: str,
        routing_key: str,
        properties: Properties | None,
        mandatory: bool,
    ) -> range:
        at = 0
        async with self._turn:
            first = int(self._machine.confirms.last_no) + 1
            while at < len(messages):
                await self._until_clear()
                try:
                    at = self._machine.publish_many(
                        messages, at, exchange, routing_key, properties, mandatory, WRITE_BYTES
                    )
                finally:
                    self._link.flush()
                if at < len(messages):
                    # others have their turn between two writes, and confirms are taken in
                    await asyncio.sleep(0)
        return range(first, first + len(messages)) if self._machine.confirming else range(0)

    async def send_encoded(self, frames: bytes, count: int, timeout_s: float | None) -> int:
        """Publishes whose frames the caller has made; the number of the last."""
        async with self._turn:
            try:
                async with asyncio.timeout(timeout_s):
                    await self._until_clear()
            except TimeoutError:
                reason = self._link.blocked_reason
                said = f" (it says: {reason})" if reason else ""
                raise CallTimeout(f"the broker took no publishes for {timeout_s:g} s{said}") from None
            self._machine.publish_encoded(frames, count)
            self._link.flush()
            return int(self._machine.confirms.last_no)

    async def decided(self, number: int, timeout_s: float | None) -> None:
        """Returns when the broker has acked it."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters[number] = future
        try:
            with self._link.wanting():
                async with asyncio.timeout(timeout_s):
                    await future
        except TimeoutError:
            raise CallTimeout(f"publish {number} was not confirmed within {timeout_s:g} s") from None
        finally:
            self._waiters.pop(number, None)

    async def wait_for_confirms(self, timeout_s: float | None, up_to: int | None = None) -> None:
        last_no = self._machine.confirms.last_no if up_to is None else up_to
        self._link.flush()
        try:
            with self._link.wanting():
                async with asyncio.timeout(timeout_s):
                    while self._machine.confirms.low < last_no:
                        self._check_open()
                        await self._link.changed()
        except TimeoutError:
            left = self._machine.confirms.unconfirmed()
            raise CallTimeout(f"{left} publishes were not confirmed within {timeout_s:g} s") from None
        if self._refused or self._returned:
            refused, self._refused = self._refused, []
            returned, self._returned = self._returned, []
            raise PublishFailed(refused, returned)

    # events

    def confirmed(self, ranges: list[ConfirmRange]) -> None:
        for decided in ranges:
            if self._coming_back or self._waiters:
                self._decide_singly(decided)
            elif not decided.acked:
                self._refused.append(decided)

    def came_back(self, message: ReturnedMessage) -> None:
        if message.publish_no:
            self._coming_back[message.publish_no] = message
        else:
            self._returned.append(message)

    def end(self, error: Error) -> None:
        self._error = error
        waiters, self._waiters = self._waiters, {}
        for future in waiters.values():
            if not future.done():
                future.set_exception(error())

    def _decide_singly(self, decided: ConfirmRange) -> None:
        for number in range(decided.first, decided.last + 1):
            returned = self._coming_back.pop(number, None)
            refused = [] if decided.acked else [ConfirmRange(number, number, False)]
            future = self._waiters.pop(number, None)
            if future is None:
                self._refused += refused
                self._returned += [returned] if returned is not None else []
            elif not future.done():
                if refused or returned is not None:
                    future.set_exception(PublishFailed(refused, [returned] if returned is not None else []))
                else:
                    future.set_result(None)

    async def _until_clear(self) -> None:
        """Returns when a publish may be written: the socket, the broker and the window all take it."""
        self._check_open()
        if self._is_clear():
            return
        with self._link.wanting():
            while not self._is_clear():
                self._link.flush()
                await self._link.changed()
                self._check_open()

    def _is_clear(self) -> bool:
        return self._link.takes_more and self.flows and self._machine.room() > 0

    def _check_open(self) -> None:
        if self._machine.state >= CHANNEL_CLOSING:
            raise self._error()
