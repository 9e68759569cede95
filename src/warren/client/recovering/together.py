"""Publishes that count together: AMQP's transactions, on a channel that is kept for them.

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
from collections.abc import Sequence
from dataclasses import dataclass

from warren.client.channel import Channel
from warren.client.connection import Connection
from warren.client.errors import CallTimeout, CannotConnect, CannotConvert, ChannelClosed, ClientError, ConnectionClosed
from warren.client.recovering.call import MISFITS
from warren.client.recovering.line import Line, transport_closed
from warren.client.transport import Outgoing

COMMIT = "tx.commit"


@dataclass(slots=True)
class _Attempt:
    """What is to be committed, and whether the broker may have been told to."""

    messages: Sequence[Outgoing]
    commits: bool = False


class Transactions:
    """The transactions of a transport, one at a time."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._turn = asyncio.Lock()
        self._kept: Channel | None = None
        self._is_closed = False

    async def publish(self, messages: Sequence[Outgoing], timeout_s: float | None) -> None:
        """Returns when the broker has all of them; else an error, of which `outcome` says whether it has none."""
        attempt = _Attempt(messages)
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

    async def _until_decided(self, attempt: _Attempt) -> None:
        """On one connection after the other, as long as no commit was written."""
        while attempt.messages:
            if self._is_closed:
                raise _not_sent(transport_closed())
            try:
                connection = await self._line.connection()
            except ClientError as error:
                raise _not_sent(error) from None
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

    async def _commit(self, channel: Channel, attempt: _Attempt) -> None:
        try:
            try:
                await _write(channel, attempt.messages)
            except MISFITS as mistake:
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

    def _out_of_time(self, attempt: _Attempt, timeout_s: float) -> ClientError:
        if attempt.commits:
            return CallTimeout(f"the transaction was not committed within {timeout_s:g} s")
        if not self._line.is_up:
            return CannotConnect(self._line.trouble.attempts if self._line.trouble is not None else ())
        reason = self._line.blocked_reason
        said = f" (it says: {reason})" if reason else ""
        return _not_sent(CallTimeout(f"the broker took no publishes for {timeout_s:g} s{said}"))


async def _write(channel: Channel, messages: Sequence[Outgoing]) -> None:
    for each in messages:
        if not isinstance(each.message.body, bytes | bytearray):
            # it would be noticed only after its header was written
            raise TypeError(f"its body is of type {type(each.message.body).__name__}, not bytes")
        await channel.publisher.send(each.message, each.exchange, each.routing_key, each.mandatory)


def _not_sent(error: ClientError) -> ClientError:
    error.outcome = "not_sent"
    return error
