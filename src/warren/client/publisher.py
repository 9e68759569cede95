"""The publishing side of a channel: waiting for room, sending in bulk, and what became of each publish.

A publish has a number if the channel has confirms. `publish` waits until its number is decided; `send` and `send_many`
only until there is room for it, and whoever wants to know calls `wait_for_confirms`, which tells what failed since it
was called last. At most `window` publishes are undecided at once.

Whoever must know what became of each of many sends a `PublishBulk`, which hears of its own numbers only. Who has a
channel to himself may be its `Follower`, who hears of everything.

Tasks that share a channel send one after another, in the order in which they came, so that the numbers of a bulk are a
range. One that nobody is before, and whose message goes at once, does not wait for its turn: it has it.

Not here: what a bulk hears (`client.publisher`), encoding, numbers, ranges (`machine.publishing`, `machine.confirms`).

Many messages that are sent in a row, and what became of each of them.

A bulk hears of its own numbers only, in runs, whoever else publishes on its channel, and it costs a handful of objects
however many messages it has.

Not here: sending it (`client.publisher`), who sends the rest of one whose channel has ended (`recovering.sending`).
"""

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Protocol

from warren.client.errors import CallTimeout, PublishFailed
from warren.client.machine.channel import CHANNEL_CLOSING, ChannelMachine
from warren.client.machine.deliveries import ReturnedMessage
from warren.client.machine.publishes import ConfirmRange, Message
from warren.client.protocol import WRITE_BYTES, ClientProtocol, ErrorFactory
from warren.wire.properties import Properties


class PublishBulk:
    """Messages that are sent in a row; what becomes of each is told by its place among them.

    `on_end` is called once: when all are decided, or when the channel has ended, and then there is an `error`. Whoever
    does not want the rest to be sent sets `wanted` to False.
    """

    def __init__(self, messages: Sequence[bytes | Message], on_end: "Callable[[PublishBulk], None]") -> None:
        self.messages = messages
        self.wanted = True
        self.sent = 0
        # how many will have been sent in the end
        self._count = len(messages)
        self.error: ErrorFactory | None = None
        # by place; what is decided and not here was acked
        self.failed: dict[int, PublishFailed] = {}
        self._on_end = on_end
        self._first_no = 0
        # decided, as runs of places in the order in which they were told
        self._runs: list[tuple[int, int]] = []
        self._decided = 0

    @property
    def first_no(self) -> int:
        return self._first_no

    @property
    def last_no(self) -> int:
        """The highest number that it may come to have."""
        return self._first_no + self._count - 1

    def undecided(self) -> list[int]:
        """The places of those that were sent, and of which nothing is known; in order."""
        left: list[int] = []
        at = 0
        for first, last in sorted(self._runs):
            left += range(at, first)
            at = last + 1
        left += range(at, self.sent)
        return left

    def is_decided(self) -> bool:
        return self._decided == self._count

    def begin(self, first_no: int) -> None:
        self._first_no = first_no

    def cut(self) -> None:
        """No more of it will be sent."""
        self._count = self.sent

    def decide(self, decided: ConfirmRange, returned: dict[int, ReturnedMessage]) -> None:
        """A range of its own numbers, and of what came back at least all that is among them."""
        first, last = decided.first - self._first_no, decided.last - self._first_no
        if not decided.acked:
            for number in range(decided.first, decided.last + 1):
                came_back = returned.pop(number, None)
                refused = [ConfirmRange(number, number, False)]
                self.failed[number - self._first_no] = PublishFailed(refused, [came_back] if came_back else [])
        elif returned:
            for number in [number for number in returned if decided.first <= number <= decided.last]:
                self.failed[number - self._first_no] = PublishFailed([], [returned.pop(number)])
        if self._runs and self._runs[-1][1] + 1 == first:
            self._runs[-1] = (self._runs[-1][0], last)
        else:
            self._runs.append((first, last))
        self._decided += last - first + 1

    def end(self, error: ErrorFactory | None) -> None:
        self.error = error
        self._on_end(self)


class ConfirmWaiter(Protocol):
    """Who waits for the fate of one publish: a future, of whatever kind."""

    def done(self) -> bool: ...

    def set_result(self, value: None, /) -> None: ...

    def set_exception(self, error: Exception, /) -> None: ...


class ConfirmListener(Protocol):
    """Who hears what becomes of all that a channel publishes, in the place of whoever waits for one publish."""

    def decided(self, ranges: list[ConfirmRange], /) -> None: ...

    def came_back(self, message: ReturnedMessage, /) -> None:
        """Before its ack, which follows all the same."""

    def ended(self, error: ErrorFactory, /) -> None: ...


class ThreadConfirmWaiter:
    """One who waits in another thread: what he waits for is wanted until it is decided."""

    def __init__(self, waiter: ConfirmWaiter, protocol: ClientProtocol) -> None:
        self._waiter = waiter
        self._read_demand = protocol.read_demand
        self._read_demand.begin()

    def done(self) -> bool:
        return False

    def set_result(self, value: None) -> None:
        self._read_demand.end()
        self._waiter.set_result(value)

    def set_exception(self, error: Exception) -> None:
        self._read_demand.end()
        self._waiter.set_exception(error)


class SendQueue:
    """Those who send one after another, in the order in which they came."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        # who has a turn or waits for one
        self.wanted = 0

    async def __aenter__(self) -> None:
        self.wanted += 1
        try:
            await self._lock.acquire()
        except BaseException:
            self.wanted -= 1
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.wanted -= 1
        self._lock.release()


class ChannelPublisher:
    """What one channel publishes."""

    def __init__(self, protocol: ClientProtocol, machine: ChannelMachine) -> None:
        self.flows = True
        self.follower: ConfirmListener | None = None
        self._turn = SendQueue()
        self._protocol = protocol
        self._machine = machine
        self._error: ErrorFactory = protocol.error
        # by number: who waits for it
        self._waiters: dict[int, ConfirmWaiter] = {}
        # not decided yet, in the order of their numbers
        self._bulks: list[PublishBulk] = []
        # of those that nobody waits for
        self._refused: list[ConfirmRange] = []
        self._returned: list[ReturnedMessage] = []
        # came back and not decided yet
        self._coming_back: dict[int, ReturnedMessage] = {}

    def send_at_once(self, message: Message, exchange: str, routing_key: str, mandatory: bool) -> int | None:
        """Send it if nobody has to wait, and nobody is before it; its number, None if it was not sent."""
        if self._turn.wanted or not self._is_clear():
            return None
        self.check_open()
        number = self._machine.publish(message, exchange, routing_key, mandatory)
        self._protocol.flush_soon()
        return number

    async def send(self, message: Message, exchange: str, routing_key: str, mandatory: bool) -> int:
        """Send it when there is room for it; its number."""
        async with self._turn:
            await self._until_clear()
            number = self._machine.publish(message, exchange, routing_key, mandatory)
            self._protocol.flush_soon()
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
                    self._protocol.flush()
                if at < len(messages):
                    # others have their turn between two writes, and confirms are taken in
                    await asyncio.sleep(0)
        return range(first, first + len(messages)) if self._machine.confirming else range(0)

    async def send_bulk(self, bulk: PublishBulk, exchange: str, routing_key: str, mandatory: bool) -> None:
        """Send as much of it as is wanted; a `ValueError` if the message behind those that were sent has no encoding.

        The channel has confirms.
        """
        async with self._turn:
            await self._until_clear()
            bulk.begin(int(self._machine.confirms.last_no) + 1)
            self._bulks.append(bulk)
            try:
                await self._write_bulk(bulk, exchange, routing_key, mandatory)
            finally:
                if bulk.sent < len(bulk.messages):
                    bulk.cut()
                    self._end_decided_bulks()

    @property
    def is_free(self) -> bool:
        """Whether what is sent would go at once."""
        return not self._turn.wanted and self._machine.state < CHANNEL_CLOSING and self._is_clear()

    def send_bulk_at_once(self, bulk: PublishBulk, exchange: str, routing_key: str, mandatory: bool) -> None:
        """Send as much of it as one write takes, with whatever else is sent in this step; the channel is free."""
        bulk.begin(int(self._machine.confirms.last_no) + 1)
        self._bulks.append(bulk)
        try:
            self._machine.publish_many(bulk.messages, 0, exchange, routing_key, None, mandatory, WRITE_BYTES)
        finally:
            bulk.sent = int(self._machine.confirms.last_no) + 1 - bulk.first_no
            self._protocol.flush_soon()
            if bulk.sent < len(bulk.messages):
                bulk.cut()
                self._end_decided_bulks()

    async def _write_bulk(self, bulk: PublishBulk, exchange: str, routing_key: str, mandatory: bool) -> None:
        while bulk.wanted:
            try:
                self._machine.publish_many(
                    bulk.messages, bulk.sent, exchange, routing_key, None, mandatory, WRITE_BYTES
                )
            finally:
                bulk.sent = int(self._machine.confirms.last_no) + 1 - bulk.first_no
                # with others that are as short
                self._protocol.flush_soon()
            if bulk.sent == len(bulk.messages):
                return
            self._protocol.flush()
            # others have their turn between two writes, and confirms are taken in
            await asyncio.sleep(0)
            await self._until_clear()

    async def send_encoded(self, frames: bytes, count: int, timeout_s: float | None) -> int:
        """Publishes whose frames the caller has made; the number of the last."""
        async with self._turn:
            try:
                async with asyncio.timeout(timeout_s):
                    await self._until_clear()
            except TimeoutError:
                reason = self._protocol.blocked_reason
                said = f" (it says: {reason})" if reason else ""
                raise CallTimeout(f"the broker took no publishes for {timeout_s:g} s{said}") from None
            self._machine.publish_encoded(frames, count)
            self._protocol.flush()
            return int(self._machine.confirms.last_no)

    def tell(self, number: int, waiter: ConfirmWaiter) -> None:
        """Have somebody told what becomes of a publish that was just sent."""
        self._waiters[number] = ThreadConfirmWaiter(waiter, self._protocol)

    async def decided(self, number: int, timeout_s: float | None) -> None:
        """Returns when the broker has acked it."""
        future = self._protocol.future()
        self._waiters[number] = future
        try:
            with self._protocol.read_demand:
                if timeout_s is None:
                    await future
                else:
                    async with asyncio.timeout(timeout_s):
                        await future
        except TimeoutError:
            raise CallTimeout(f"publish {number} was not confirmed within {timeout_s:g} s") from None
        finally:
            self._waiters.pop(number, None)

    async def wait_for_confirms(self, timeout_s: float | None, up_to: int | None = None) -> None:
        last_no = self._machine.confirms.last_no if up_to is None else up_to
        self._protocol.flush()
        try:
            with self._protocol.read_demand:
                async with asyncio.timeout(timeout_s):
                    while self._machine.confirms.low < last_no:
                        self.check_open()
                        await self._protocol.changed()
        except TimeoutError:
            left = self._machine.confirms.unconfirmed()
            raise CallTimeout(f"{left} publishes were not confirmed within {timeout_s:g} s") from None
        if self._refused or self._returned:
            refused, self._refused = self._refused, []
            returned, self._returned = self._returned, []
            raise PublishFailed(refused, returned)

    def check_open(self) -> None:
        if self._machine.state >= CHANNEL_CLOSING:
            raise self._error()

    # events

    def confirmed(self, ranges: list[ConfirmRange]) -> None:
        if self.follower is not None:
            self.follower.decided(ranges)
            return
        for decided in self._tell_bulks(ranges) if self._bulks else ranges:
            if self._coming_back or (self._waiters and not decided.acked):
                self._decide_singly(decided)
            elif self._waiters:
                self._acked(decided)
            elif not decided.acked:
                self._refused.append(decided)

    def came_back(self, message: ReturnedMessage) -> None:
        if self.follower is not None:
            self.follower.came_back(message)
        elif message.publish_no:
            self._coming_back[message.publish_no] = message
        else:
            self._returned.append(message)

    def end(self, error: ErrorFactory) -> None:
        self._error = error
        waiters, self._waiters = self._waiters, {}
        for future in waiters.values():
            if not future.done():
                future.set_exception(error())
        bulks, self._bulks = self._bulks, []
        for bulk in bulks:
            bulk.end(error)
        if self.follower is not None:
            self.follower.ended(error)

    def _tell_bulks(self, ranges: list[ConfirmRange]) -> list[ConfirmRange]:
        """What concerns no bulk."""
        others: list[ConfirmRange] = []
        for decided in ranges:
            at = decided.first
            place = bisect_right(self._bulks, at, key=_first_no) - 1
            for bulk in self._bulks[max(place, 0) :]:
                if bulk.first_no > decided.last:
                    break
                if bulk.last_no < at:
                    continue
                if at < bulk.first_no:
                    others.append(ConfirmRange(at, bulk.first_no - 1, decided.acked))
                    at = bulk.first_no
                last = min(bulk.last_no, decided.last)
                bulk.decide(ConfirmRange(at, last, decided.acked), self._coming_back)
                at = last + 1
            if at <= decided.last:
                others.append(ConfirmRange(at, decided.last, decided.acked))
        self._end_decided_bulks()
        return others

    def _end_decided_bulks(self) -> None:
        ended = [bulk for bulk in self._bulks if bulk.is_decided()]
        if ended:
            self._bulks = [bulk for bulk in self._bulks if not bulk.is_decided()]
            for bulk in ended:
                bulk.end(None)

    def _acked(self, decided: ConfirmRange) -> None:
        """What nearly always happens: all of them were acked, and none came back."""
        take = self._waiters.pop
        for number in range(decided.first, decided.last + 1):
            future = take(number, None)
            if future is not None and not future.done():
                future.set_result(None)

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
        self.check_open()
        if self._is_clear():
            return
        with self._protocol.read_demand:
            while not self._is_clear():
                self._protocol.flush()
                await self._protocol.changed()
                self.check_open()

    def _is_clear(self) -> bool:
        return self._protocol.takes_more and self.flows and self._machine.room() > 0


def _first_no(bulk: PublishBulk) -> int:
    return bulk.first_no
