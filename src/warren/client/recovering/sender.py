"""Publishing across lost connections: a queue of calls that one task writes in order, and transactions.

A publisher adds a call to the queue and waits for its end. The task writes waiting messages as far as the window of the
channel has room, and confirms end the calls. When the channel ends, all undecided messages wait again and are sent on
the next channel, before any later ones. So

- a confirmed message is never written again, and an unconfirmed one is, until it is decided or its caller gives up;
- a message written twice is the same message, and the broker may have both;
- messages are written, and resent, in the order of their publishing.

**The awkward case** is a message that makes the broker close the channel: its exchange is missing, or may not be
written to. The broker does not say which publish caused it, and the other messages of the channel are lost with it. If
the broker names a missing exchange, all messages to that exchange fail. Otherwise the undecided messages are resent,
half as many at a time, waiting after each group, until the culprit is alone on its channel. Only then, and only if it
was never written before, is it certain that the broker does not have it.

**Transactions** use a channel that is kept for them.

    open, select ──▶ publishes, commit ──commit-ok──▶ the broker has all of them
                          │    └── the connection ended: the outcome is unknown
                          └── it ended before the commit was written: the broker has none; start again

A commit is written once for a call, so no message arrives twice. Transactions do not overlap. A channel with an
unfinished transaction is not used again, and the broker drops the transaction with the channel. Neither RabbitMQ nor
Warren is atomic across queues if it dies during a commit or a queue refuses a message; the broker then reports a
partial transaction, and the outcome is unknown.

Not here: the outcome of each message (`recovering.publish_call`), connections (`recovering.connection`).
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
    """The publishing side of a transport; at most `window` publishes are sent and undecided."""

    def __init__(self, recovering_connection: RecoveringConnection, window: int) -> None:
        self._recovering_connection = recovering_connection
        self._window = window
        # in order; a dict, because calls leave from anywhere
        self._row: dict[PublishCall, None] = {}
        # the calls that may have messages to write
        self._unwritten: OrderedDict[PublishCall, None] = OrderedDict()
        self._undecided = 0
        # while a message that closes channels is sought: how many are tried at once, and how many are left to try
        self._limit: int | None = None
        self._sought = 0
        self._refusal: ErrorFactory | None = None
        self._wake = asyncio.Event()
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._writer: asyncio.Task[None] | None = None
        # the channel of the writer while it has nothing to write
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
        """Return when all publishes are decided."""
        while self._row:
            await asyncio.wait([next(reversed(self._row)).ended])

    async def close(self, refusal: ErrorFactory) -> None:
        """Take nothing more, and end the undecided publishes with an error."""
        if self._writer is not None:
            self._writer.cancel()
            await asyncio.wait([self._writer])
        self._refuse_all(refusal)

    def refuse(self, refusal: ErrorFactory) -> None:
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
        """Whether all of the call was written, because the writer is idle and need not be woken."""
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
            # the writer reports a message that cannot be encoded
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
        """End all calls after an unexpected error."""
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
        """Write all waiting messages, and later ones; ends with the channel and raises its error."""
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
                # in any case the unwritten rest waits again
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

    # messages that may have closed a channel

    async def _decided(self, channel: Channel, count: int) -> None:
        """Wait until the first `count` publishes are decided; nothing else is written meanwhile."""
        await channel.wait_for_confirms()
        self._sought -= count
        if self._sought <= 0:
            self._limit = None

    def _take_back(self, error: ClientError) -> None:
        # calls without undecided messages leave the queue
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
        # one of several may have been accepted before the broker closed the channel
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
    """Whether a publish may have caused the error and would again; for a connection the error is not retriable."""
    if isinstance(error, ChannelClosed):
        return error.code != 0
    return isinstance(error, ConnectionClosed) and error.code != 0 and not error.retriable


def _is_missing(error: ClientError, exchange: str) -> bool:
    """Whether the broker says that the exchange does not exist, in RabbitMQ's words."""
    return isinstance(error, ChannelClosed) and error.code == NOT_FOUND and f"no exchange '{exchange}' " in error.text


def _verdict(error: ClientError, certain: bool) -> ClientError:
    """The error of one message; `certain` means that the broker does not have it."""
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
    """A transaction, and whether its commit may have been written."""

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
        """Return when the broker has all messages; the `outcome` of an error says whether it has none."""
        attempt = _TransactionAttempt(messages)
        try:
            async with asyncio.timeout(timeout_s), self._turn:
                await self._until_decided(attempt)
        except TimeoutError:
            raise self._out_of_time(attempt, timeout_s or 0.0) from None

    def refuse(self) -> None:
        self._is_closed = True

    async def idle(self) -> None:
        """Return when no transaction is running."""
        async with self._turn:
            return

    async def _until_decided(self, attempt: _TransactionAttempt) -> None:
        """Try on one connection after the other until a commit is written."""
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
                # the broker closed the channel for a publish before it looked at the commit
                error.outcome = "unknown" if error.method == COMMIT else "rejected"
                raise

    async def _channel(self, connection: Connection) -> Channel:
        """A channel with transactions and none of them open; it is kept after its transaction has ended."""
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
                # closing the channel drops the transaction
                channel.leave()
        # returned messages came before commit-ok
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
            # the writer would notice it after it has written the header
            raise TypeError(f"its body is of type {type(each.message.body).__name__}, not bytes")
        await channel.publisher.send(each.message, each.exchange, each.routing_key, each.mandatory)


def _transaction_not_sent(error: ClientError) -> ClientError:
    error.outcome = "not_sent"
    return error
