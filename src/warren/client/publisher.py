"""The publishing side of a channel: waiting for room, sending in bulk, and the outcome of each publish.

A publish has a number if the channel has confirms. `publish` waits until its number is decided. `send` and `send_many`
wait only for room; `wait_for_confirms` later reports all failures since its last call. At most `window` publishes are
undecided at once.

A `PublishBulk` gets the outcome of each of its messages by index, while others publish on the same channel. Its cost
does not grow with the number of messages. A `ConfirmListener` gets the outcomes of the whole channel.

Tasks that share a channel send one after another, in order of arrival, so that the numbers of a bulk are a range. A
task with no task before it and room for its message sends without waiting.

Not here: resending a bulk after its channel has ended (`recovering.sender`), encoding, numbers and ranges
(`machine.publishes`).
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
    """Messages that are sent in order, and the outcome of each by its index.

    `on_end` is called once: when all are decided, or when the channel has ended, and then `error` is set. With `wanted`
    set to False the rest is not sent.
    """

    def __init__(self, messages: Sequence[bytes | Message], on_end: "Callable[[PublishBulk], None]") -> None:
        self.messages = messages
        self.wanted = True
        self.sent = 0
        # how many are sent in the end
        self._count = len(messages)
        self.error: ErrorFactory | None = None
        # by index; decided messages that are not here were acked
        self.failed: dict[int, PublishFailed] = {}
        self._on_end = on_end
        self._first_no = 0
        # decided, as ranges of indexes in order of arrival
        self._runs: list[tuple[int, int]] = []
        self._decided = 0

    @property
    def first_no(self) -> int:
        return self._first_no

    @property
    def last_no(self) -> int:
        """The highest number it can have."""
        return self._first_no + self._count - 1

    def undecided(self) -> list[int]:
        """The indexes of sent messages without an outcome, in order."""
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
        """Send no more of it."""
        self._count = self.sent

    def decide(self, decided: ConfirmRange, returned: dict[int, ReturnedMessage]) -> None:
        """Take a range of its own numbers, and at least all returned messages among them."""
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
    """A future of any kind that waits for one publish."""

    def done(self) -> bool: ...

    def set_result(self, value: None, /) -> None: ...

    def set_exception(self, error: Exception, /) -> None: ...


class ConfirmListener(Protocol):
    """Gets the outcomes of all publishes of a channel, instead of the waiters of single publishes."""

    def decided(self, ranges: list[ConfirmRange], /) -> None: ...

    def came_back(self, message: ReturnedMessage, /) -> None:
        """Called before the ack of the returned message, which follows."""

    def ended(self, error: ErrorFactory, /) -> None: ...


class ThreadConfirmWaiter:
    """A waiter in another thread. It keeps reading demanded until its publish is decided."""

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
    """A lock for senders, in order of arrival."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        # tasks that hold the lock or wait for it
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
    """The publishes of one channel."""

    def __init__(self, protocol: ClientProtocol, machine: ChannelMachine) -> None:
        self.flows = True
        self.follower: ConfirmListener | None = None
        self._turn = SendQueue()
        self._protocol = protocol
        self._machine = machine
        self._error: ErrorFactory = protocol.error
        # by number
        self._waiters: dict[int, ConfirmWaiter] = {}
        # undecided bulks, in the order of their numbers
        self._bulks: list[PublishBulk] = []
        # failures of publishes without a waiter
        self._refused: list[ConfirmRange] = []
        self._returned: list[ReturnedMessage] = []
        # returned and not decided
        self._coming_back: dict[int, ReturnedMessage] = {}

    def send_at_once(self, message: Message, exchange: str, routing_key: str, mandatory: bool) -> int | None:
        """Send a message if no wait is needed; returns its number, or None if it was not sent."""
        if self._turn.wanted or not self._is_clear():
            return None
        self.check_open()
        number = self._machine.publish(message, exchange, routing_key, mandatory)
        self._protocol.flush_soon()
        return number

    async def send(self, message: Message, exchange: str, routing_key: str, mandatory: bool) -> int:
        """Send a message when there is room, and return its number."""
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
                    # let other tasks send and confirms arrive between two writes
                    await asyncio.sleep(0)
        return range(first, first + len(messages)) if self._machine.confirming else range(0)

    async def send_bulk(self, bulk: PublishBulk, exchange: str, routing_key: str, mandatory: bool) -> None:
        """Send as much of a bulk as is wanted; a `ValueError` if the next message cannot be encoded.

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
        """Whether a publish would be sent at once."""
        return not self._turn.wanted and self._machine.state < CHANNEL_CLOSING and self._is_clear()

    def send_bulk_at_once(self, bulk: PublishBulk, exchange: str, routing_key: str, mandatory: bool) -> None:
        """Send as much of a bulk as one write takes, with the other output of this step. The channel is free."""
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
                # together with other short output
                self._protocol.flush_soon()
            if bulk.sent == len(bulk.messages):
                return
            self._protocol.flush()
            # let other tasks send and confirms arrive between two writes
            await asyncio.sleep(0)
            await self._until_clear()

    async def send_encoded(self, frames: bytes, count: int, timeout_s: float | None) -> int:
        """Send publishes that the caller has encoded; returns the number of the last."""
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

    def add_waiter(self, number: int, waiter: ConfirmWaiter) -> None:
        """Complete `waiter` with the outcome of a publish that was just sent."""
        self._waiters[number] = ThreadConfirmWaiter(waiter, self._protocol)

    async def decided(self, number: int, timeout_s: float | None) -> None:
        """Return when the broker has acked a publish."""
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
        for decided in self._settle_bulks(ranges) if self._bulks else ranges:
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

    def _settle_bulks(self, ranges: list[ConfirmRange]) -> list[ConfirmRange]:
        """Give ranges to the bulks, and return the ranges of other publishes."""
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
        """The common case: all were acked and none was returned."""
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
        """Return when a publish may be written: socket, broker and window have room."""
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
