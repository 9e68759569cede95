"""Publishing that outlives its connection: one row of calls, and one task that writes them in their order.

Whoever publishes puts a call into the row and waits for its end. The task writes what waits, as far as the window of
its channel has room, and confirms end calls from the front. When the channel ends, all that is undecided waits again
and goes out on the next channel before anything that came later. So

- what was confirmed is never written again, and what was not is, until it is decided or its caller gives up;
- what is written twice is the same message, and the broker may have both;
- two messages that were published one after the other are first written in that order, and resent in that order.

**The awkward case** is a message that makes the broker close the channel: its exchange is missing, or may not be
written to. The broker says that a publish was wrong, but not which one, and what else was on the channel is lost with
it. An exchange that the broker names as missing condemns all messages to it. Else the undecided are sent again, half as
many at a time, and waited for, until the one is alone on its channel that ends it. Only then, and only if it was never
written before, is it certain that the broker has not got it.

Not here: what became of each message (`recovering.call`), connections (`recovering.line`).

Publishes that count together: AMQP's transactions, on a channel that is kept for them.

    open, select ──▶ publishes, commit ──commit-ok──▶ all of them are there
                          │    └── the connection ended: nobody knows
                          └── it ended before the commit was written: none is there, and it begins again

Invariants: a commit is written once for a call, so nothing arrives twice; transactions do not overlap; a channel on
which one did not come to its end is not used again, and what the broker had of it is dropped with the channel.

What the broker does with a commit is its own affair: neither RabbitMQ nor Warren is atomic across queues when it dies
meanwhile or a queue refuses a message. Then it says that the transaction is partial, and the outcome is unknown.

Not here: publishes that are decided one by one (`recovering.sending`).
"""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from warren.client.channel import Channel
from warren.client.connection import Connection
from warren.client.errors import (
    CallTimeout,
    CannotConnect,
    CannotConvert,
    ChannelClosed,
    ClientError,
    ConnectionClosed,
    ConnectionLost,
    LoginRefused,
)
from warren.client.protocol import ErrorFactory
from warren.client.recovering.connection import LOGGER, RecoveringConnection, transport_closed
from warren.client.recovering.publish_call import ENCODING_ERRORS, CallSlice, PublishCall, SuspectPublish
from warren.client.transport import Outgoing
from warren.errors import NOT_FOUND


class Sender:
    """The publishing side of a transport; at most `window` publishes are on the wire and undecided."""

    def __init__(self, recovering_connection: RecoveringConnection, window: int) -> None:
        self._recovering_connection = recovering_connection
        self._window = window
        # in order; a dict, because calls leave from anywhere
        self._row: dict[PublishCall, None] = {}
        # of them, those of which something may wait to be written
        self._unwritten: OrderedDict[PublishCall, None] = OrderedDict()
        self._undecided = 0
        # how many are tried at once, and how many are still to be, while a message is sought that ends channels
        self._limit: int | None = None
        self._sought = 0
        self._refusal: ErrorFactory | None = None
        self._wake = asyncio.Event()
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._writer: asyncio.Task[None] | None = None
        # on which the writer would write if there was something
        self._idle_channel: Channel | None = None

    def start(self) -> None:
        self._writer = asyncio.create_task(self._write_for_ever(), name="warren publishing")

    @property
    def undecided(self) -> int:
        return self._undecided

    async def publish(self, messages: Sequence[Outgoing], timeout_s: float | None) -> list[ClientError | None]:
        call = self._enter(messages)
        try:
            if timeout_s is None:
                # a timer that never fires costs a tenth of the whole
                await call.ended
            else:
                async with asyncio.timeout(timeout_s):
                    await call.ended
        except TimeoutError:
            call.give_up(lambda was_written: self._out_of_time(was_written, timeout_s or 0.0))
        except asyncio.CancelledError:
            call.give_up(lambda _: CallTimeout("the publish was cancelled"))
            raise
        return call.outcomes

    async def send(self, messages: Sequence[Outgoing]) -> None:
        while not self._has_room.is_set():
            await self._has_room.wait()
        if self._refusal is not None:
            raise _not_sent(self._refusal())
        self._enter(messages)

    async def drained(self) -> None:
        """Returns when nothing is undecided."""
        while self._row:
            await asyncio.wait([next(reversed(self._row)).ended])

    async def close(self, refusal: ErrorFactory) -> None:
        """Take nothing more, and give up what is left."""
        if self._writer is not None:
            self._writer.cancel()
            await asyncio.wait([self._writer])
        self._refuse_all(refusal)

    def refuse(self, refusal: ErrorFactory) -> None:
        """Take nothing more."""
        self._refusal = refusal
        self._has_room.set()

    def _enter(self, messages: Sequence[Outgoing]) -> PublishCall:
        call = PublishCall(messages)
        if self._refusal is not None:
            refusal = self._refusal
            call.give_up(lambda _: _not_sent(refusal()))
        elif messages:
            self._row[call] = None
            self._undecided += len(messages)
            self._look_for_room()
            call.on_end = self._leave
            if not self._write_at_once(call):
                self._unwritten[call] = None
                self._wake.set()
        return call

    def _write_at_once(self, call: PublishCall) -> bool:
        """Whether all of it was written, because the writer has nothing to do and need not be woken for it."""
        channel = self._idle_channel
        if channel is None or self._unwritten or self._limit is not None or not channel.publisher.is_free:
            return False
        try:
            part = self._begin_part(call)
            try:
                channel.publisher.send_bulk_at_once(part.bulk, part.exchange, part.routing_key, part.mandatory)
            finally:
                call.stopped(part)
        except ENCODING_ERRORS:
            # what cannot be encoded is left to the writer, who tells so
            return False
        except Exception as error:
            self._break_off(error)
        return not call.waits

    def _leave(self, call: PublishCall) -> None:
        if call not in self._row:
            return
        del self._row[call]
        self._unwritten.pop(call, None)
        self._undecided -= len(call.messages)
        self._look_for_room()

    def _look_for_room(self) -> None:
        if self._undecided < self._window or self._refusal is not None:
            self._has_room.set()
        else:
            self._has_room.clear()

    def _refuse_all(self, refusal: ErrorFactory) -> None:
        self.refuse(refusal)
        for call in list(self._row):
            call.give_up(self._final_error)

    # writing

    async def _write_for_ever(self) -> None:
        try:
            await self._write_on_each_channel()
        except Exception as error:
            self._break_off(error)

    def _break_off(self, error: Exception) -> None:
        """An error that nobody foresaw."""
        LOGGER.error("publishing has ended, nothing more is sent: open another transport", exc_info=error)
        self._refuse_all(partial(ClientError, f"publishing has ended, open another transport: {error!r}"))

    async def _write_on_each_channel(self) -> None:
        while True:
            try:
                connection = await self._recovering_connection.connection()
            except ClientError:
                assert self._recovering_connection.failure is not None
                self._refuse_all(self._recovering_connection.failure)
                return
            try:
                channel = await connection.channel(confirms=True, window=self._window)
                await self._write_on(channel)
            except ClientError as error:
                self._take_back(error)

    async def _write_on(self, channel: Channel) -> None:
        """Write all that waits, and whatever comes; ends when the channel has, with the reason."""
        self._unwritten = OrderedDict.fromkeys(self._row)
        while True:
            while self._unwritten:
                call = next(iter(self._unwritten))
                while call.waits:
                    await self._write_part(channel, call)
                # the call may have left by itself
                self._unwritten.pop(call, None)
            self._wake.clear()
            self._idle_channel = channel
            try:
                await self._wake.wait()
            finally:
                self._idle_channel = None
            channel.publisher.check_open()

    async def _write_part(self, channel: Channel, call: PublishCall) -> None:
        try:
            part = self._begin_part(call)
        except ENCODING_ERRORS as mistake:
            call.fail_next(_cannot_be_encoded(mistake))
            return
        try:
            try:
                await channel.publisher.send_bulk(part.bulk, part.exchange, part.routing_key, part.mandatory)
            finally:
                # whatever ended it, what was not written is not forgotten
                call.stopped(part)
        except ENCODING_ERRORS as mistake:
            if call.waits:
                call.fail_next(_cannot_be_encoded(mistake))
        if self._limit is not None:
            await self._decided(channel, part.bulk.sent)

    def _begin_part(self, call: PublishCall) -> CallSlice:
        part = call.next_part(self._limit or len(call.messages))
        part.on_break = self._wake.set
        call.begin(part)
        return part

    # what may have ended a channel

    async def _decided(self, channel: Channel, count: int) -> None:
        """Nothing else is written before these are decided."""
        await channel.wait_for_confirms()
        self._sought -= count
        if self._sought <= 0:
            self._limit = None

    def _take_back(self, error: ClientError) -> None:
        # calls of which nothing is left leave the row
        suspects = [suspect for call in list(self._row) for suspect in call.take_back()]
        if not suspects or not _blames_a_publish(error):
            return
        named = [each for each in suspects if _is_missing(error, each.exchange)]
        culprits = named or (suspects if len(suspects) == 1 else [])
        if culprits:
            self._condemn(culprits, error)
            self._limit = None
        else:
            self._limit = max(1, min(self._limit or len(suspects), len(suspects)) // 2)
            self._sought = len(suspects)

    def _condemn(self, culprits: list[SuspectPublish], error: ClientError) -> None:
        # one of several may have been taken before whatever made the next one impossible
        certain = len(culprits) == 1 and not culprits[0].before and isinstance(error, ChannelClosed)
        of_calls: dict[PublishCall, dict[int, ClientError]] = {}
        for culprit in culprits:
            of_calls.setdefault(culprit.call, {})[culprit.place] = _verdict(error, certain)
        for call, errors in of_calls.items():
            call.fail(errors)

    # errors

    def _out_of_time(self, was_written: bool, timeout_s: float) -> ClientError:
        if was_written:
            if self._recovering_connection.is_up:
                return CallTimeout(f"the publish was not confirmed within {timeout_s:g} s")
            return ConnectionLost(f"the connection was lost, and not there again within {timeout_s:g} s")
        if not self._recovering_connection.is_up:
            return self._cannot_connect()
        reason = self._recovering_connection.blocked_reason
        said = f" (it says: {reason})" if reason else ""
        return _not_sent(CallTimeout(f"the broker took no publishes for {timeout_s:g} s{said}"))

    def _final_error(self, was_written: bool) -> ClientError:
        assert self._refusal is not None
        refusal = self._refusal()
        if was_written:
            return ConnectionLost(f"the publish was not confirmed before the end: {refusal}")
        if isinstance(refusal, LoginRefused) or self._recovering_connection.is_up:
            return _not_sent(refusal)
        return self._cannot_connect()

    def _cannot_connect(self) -> CannotConnect:
        return CannotConnect(
            self._recovering_connection.trouble.attempts if self._recovering_connection.trouble is not None else ()
        )


def _cannot_be_encoded(mistake: Exception) -> CannotConvert:
    return CannotConvert(f"the message cannot be encoded: {mistake}")


def _blames_a_publish(error: ClientError) -> bool:
    """Whether what was sent may have ended it, and would again; a connection says so by a code that is not passing."""
    if isinstance(error, ChannelClosed):
        return error.code != 0
    return isinstance(error, ConnectionClosed) and error.code != 0 and not error.retriable


def _is_missing(error: ClientError, exchange: str) -> bool:
    """Whether the broker says that there is no such exchange, in the words that brokers have for it."""
    return isinstance(error, ChannelClosed) and error.code == NOT_FOUND and f"no exchange '{exchange}' " in error.text


def _verdict(error: ClientError, certain: bool) -> ClientError:
    """One for each message; `certain` is that the broker has not got it."""
    copy: ClientError
    if isinstance(error, ChannelClosed):
        copy = ChannelClosed(str(error), error.code, error.text, error.method)
    else:
        assert isinstance(error, ConnectionClosed)
        copy = ConnectionClosed(str(error), error.code, error.text)
    if certain:
        copy.outcome = "rejected"
    return copy


def _not_sent(error: ClientError) -> ClientError:
    error.outcome = "not_sent"
    return error


COMMIT = "tx.commit"


@dataclass(slots=True)
class _TransactionAttempt:
    """What is to be committed, and whether the broker may have been told to."""

    messages: Sequence[Outgoing]
    commits: bool = False


class TransactionSender:
    """The transactions of a transport, one at a time."""

    def __init__(self, recovering_connection: RecoveringConnection) -> None:
        self._recovering_connection = recovering_connection
        self._turn = asyncio.Lock()
        self._kept: Channel | None = None
        self._is_closed = False

    async def publish(self, messages: Sequence[Outgoing], timeout_s: float | None) -> None:
        """Returns when the broker has all of them; else an error, of which `outcome` says whether it has none."""
        attempt = _TransactionAttempt(messages)
        try:
            async with asyncio.timeout(timeout_s), self._turn:
                await self._until_decided(attempt)
        except TimeoutError:
            raise self._out_of_time(attempt, timeout_s or 0.0) from None

    def refuse(self) -> None:
        """Take nothing more."""
        self._is_closed = True

    async def idle(self) -> None:
        """Returns when none is under way."""
        async with self._turn:
            return

    async def _until_decided(self, attempt: _TransactionAttempt) -> None:
        """On one connection after the other, as long as no commit was written."""
        while attempt.messages:
            if self._is_closed:
                raise _transaction_not_sent(transport_closed())
            try:
                connection = await self._recovering_connection.connection()
            except ClientError as error:
                raise _transaction_not_sent(error) from None
            try:
                await self._commit(await self._channel(connection), attempt)
                return
            except ConnectionClosed as error:
                if attempt.commits or (error.code and not error.retriable):
                    raise
            except CallTimeout as error:
                error.outcome = "unknown" if attempt.commits else "not_sent"
                raise
            except ChannelClosed as error:
                # what blames a publish was said before the commit was looked at
                error.outcome = "unknown" if error.method == COMMIT else "rejected"
                raise

    async def _channel(self, connection: Connection) -> Channel:
        """One with transactions, none of which is under way; it is kept again when that has come to its end."""
        kept, self._kept = self._kept, None
        if kept is not None and kept.is_open:
            return kept
        channel = await connection.channel()
        try:
            await channel.select_transactions()
        except BaseException:
            channel.leave()
            raise
        return channel

    async def _commit(self, channel: Channel, attempt: _TransactionAttempt) -> None:
        try:
            try:
                await _publish_all(channel, attempt.messages)
            except ENCODING_ERRORS as mistake:
                await channel.rollback()
                self._kept = channel
                raise CannotConvert(f"the message cannot be encoded: {mistake}") from None
            attempt.commits = True
            await channel.commit()
            self._kept = channel
        finally:
            if self._kept is None:
                # what the broker has of it goes with its channel
                channel.leave()
        # what came back did so before the answer to the commit
        await channel.wait_for_confirms()

    def _out_of_time(self, attempt: _TransactionAttempt, timeout_s: float) -> ClientError:
        if attempt.commits:
            return CallTimeout(f"the transaction was not committed within {timeout_s:g} s")
        if not self._recovering_connection.is_up:
            return CannotConnect(
                self._recovering_connection.trouble.attempts if self._recovering_connection.trouble is not None else ()
            )
        reason = self._recovering_connection.blocked_reason
        said = f" (it says: {reason})" if reason else ""
        return _transaction_not_sent(CallTimeout(f"the broker took no publishes for {timeout_s:g} s{said}"))


async def _publish_all(channel: Channel, messages: Sequence[Outgoing]) -> None:
    for each in messages:
        if not isinstance(each.message.body, bytes | bytearray):
            # it would be noticed only after its header was written
            raise TypeError(f"its body is of type {type(each.message.body).__name__}, not bytes")
        await channel.publisher.send(each.message, each.exchange, each.routing_key, each.mandatory)


def _transaction_not_sent(error: ClientError) -> ClientError:
    error.outcome = "not_sent"
    return error
