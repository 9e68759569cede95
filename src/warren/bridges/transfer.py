"""Moves messages from one connection to another, until a connection is lost or the wanted number is done.

**The end.** A transfer that is cancelled, or done, takes no more messages, waits a little for outstanding confirms, and
closes the source channel in good order, so that the source has heard all acks and nothing is duplicated. When one end
was lost, the other is closed in good order if possible, and the undecided messages are logged. A second cancellation
ends the waiting; a node that stops does that.

Not here: acks and possible duplicates (`bridges.settlement`).
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

from librt.strings import BytesWriter

from warren.bridges.bridge import BridgeRun
from warren.bridges.settlement import (
    MessageRefused,
    RecentAcks,
    SourceAcks,
    describe_unsendable,
    log_possible_duplicates,
    unsendable_error,
)
from warren.bridges.transfer_options import NO_ACK, ON_CONFIRM, Rewrite, RewrittenMessage, TransferOptions
from warren.client.channel import Channel, Consumer
from warren.client.connection import Connection
from warren.client.errors import ClientError, ConsumerCancelled
from warren.client.machine.deliveries import Delivery, ReturnedMessage
from warren.client.machine.publishes import ConfirmRange, PublishWriter
from warren.errors import ProtocolFault


class ConsumptionGate:
    """Whether a bridge takes messages from its source; open at first. Messages in flight are still transferred after it
    is shut."""

    def __init__(self, is_open: bool = True) -> None:
        self._is_open = is_open
        self._turned = asyncio.Event()

    @property
    def is_open(self) -> bool:
        return self._is_open

    def turn(self, is_open: bool) -> None:
        if self._is_open != is_open:
            self._is_open = is_open
            self._turned.set()

    async def turned(self) -> None:
        """Wait until the gate was turned since the last call returned."""
        await self._turned.wait()
        self._turned.clear()


WRITE_BYTES: Final = 256 * 1024
WINDOW: Final = 1_000_000
FINAL_CONFIRMS_TIMEOUT_S: Final = 10.0
PREFETCH_MAX: Final = 65_535
PUBLISH: Final = "basic.publish"


class UnroutableAtDestination(ClientError):
    """A publish was returned: the destination has no queue for it."""

    retriable = True


async def transfer(
    source: Connection,
    queue: str,
    destination: Connection,
    rewrite: Rewrite,
    options: TransferOptions,
    run: BridgeRun,
    gate: ConsumptionGate | None = None,
) -> None:
    """Consume `queue` at the source, and publish the result of `rewrite` to the destination.

    Returns when `terms.limit` messages are settled. Raises a `ClientError` when either end is lost, the queue is
    deleted, or the destination closes the channel over a publish; unacked messages come again in the next run. Opens
    its own channels on both connections, and leaves the connections open.
    """
    if options.limit is not None and options.limit <= 0:
        return
    taking = await source.channel()
    giving = await destination.channel(confirms=options.ack_mode == ON_CONFIRM, window=WINDOW)
    carrier = MessageTransfer(taking, giving, destination.frame_max, rewrite, options, run)
    await carrier.prefetch()
    forwarding = asyncio.ensure_future(carrier.forward(queue, gate))
    try:
        await asyncio.wait([forwarding, carrier.over], return_when=asyncio.FIRST_COMPLETED)
        # errors during the end are not its reason
        outcome = carrier.over if carrier.over.done() else forwarding
    finally:
        forwarding.cancel()
        try:
            await asyncio.gather(forwarding, return_exceptions=True)
        finally:
            await carrier.end()
    outcome.result()


class MessageTransfer:
    """One transfer: a consuming channel and a publishing channel."""

    def __init__(
        self,
        taking: Channel,
        giving: Channel,
        frame_max: int,
        rewrite: Rewrite,
        options: TransferOptions,
        run: BridgeRun,
    ) -> None:
        self._taking = taking
        self._giving = giving
        self._writer = PublishWriter(giving.number, frame_max)
        self._rewrite = rewrite
        self._options = options
        self._confirming = options.ack_mode == ON_CONFIRM
        # the messages above a limit must stay at the source, so acks are needed in every mode
        self._no_ack = options.ack_mode == NO_ACK and options.limit is None
        self._run = run
        self._stats = run.stats
        self._loop = asyncio.get_running_loop()
        self._poison_guard = run.poison_guard
        # done when the wanted number is, failed when either end is
        self.over: asyncio.Future[None] = self._loop.create_future()
        self._settled_before = run.stats.confirmed
        self._published = 0
        self._prefetch = _prefetch_of(options)
        self._late_acks = RecentAcks(self._prefetch)
        self._settling = SourceAcks(taking, run.stats, self._late_acks, self._call_later)
        self._timers: list[asyncio.TimerHandle] = []
        self._caught_up: asyncio.Event = asyncio.Event()
        # the message in flight is known not to have arrived
        self._was_refused = False
        # the source may deliver everything unsettled again, even after an ack
        self._source_forgets = False
        giving.publisher.follower = self
        taking.publisher.follower = _SourceWatch(self._broke)

    async def prefetch(self) -> None:
        if not self._no_ack:
            await self._taking.prefetch(self._prefetch)

    # -- consuming and publishing

    async def forward(self, queue: str, gate: ConsumptionGate | None) -> None:
        while True:
            while gate is not None and not gate.is_open:
                await gate.turned()
            asked_at = self._late_acks.settled
            consumer = await self._taking.consume(
                queue,
                tag=self._options.consumer_tag,
                no_ack=self._no_ack,
                exclusive=self._options.exclusive,
                arguments=self._options.consumer_arguments or None,
            )
            self._late_acks.answered(asked_at)
            shutting = None if gate is None else asyncio.ensure_future(_cancel_when_shut(consumer, gate))
            try:
                while deliveries := await consumer.batch():
                    await self._forward(deliveries)
            except ConsumerCancelled as end:
                self._source_forgets = True
                sentence = f"the source has ended the consumer of queue {queue!r}: it was deleted, or is moving"
                raise ConsumerCancelled(sentence) from end
            finally:
                if shutting is not None:
                    shutting.cancel()
                    await asyncio.gather(shutting, return_exceptions=True)

    async def _forward(self, deliveries: list[Delivery]) -> None:
        self._stats.delivered += len(deliveries)
        self._late_acks.delivered(int(deliveries[-1].delivery_tag))
        at = 0
        while at < len(deliveries):
            wanted = await self._wanted(len(deliveries) - at)
            part = deliveries[at : at + wanted]
            at += wanted
            await self._publish(part)

    async def _wanted(self, count: int) -> int:
        """How many of `count` messages may be published; waits until at least one may."""
        while (room := self._room(count)) <= 0:
            self._caught_up.clear()
            await self._caught_up.wait()
        return room

    def _room(self, count: int) -> int:
        limit = self._options.limit
        if limit is not None:
            count = min(count, limit - self._done_for_limit() - self._settling.under_way)
        if self._poison_guard.suspects and self._confirming:
            count = min(count, 1 - self._settling.under_way)
        return count

    async def _publish(self, deliveries: list[Delivery]) -> None:
        rewrite, write = self._rewrite, self._writer.write
        mandatory = self._options.mandatory and self._confirming
        out = BytesWriter()
        made: list[tuple[Delivery, RewrittenMessage]] = []
        for at, delivery in enumerate(deliveries):
            try:
                outgoing = rewrite(delivery)
                if outgoing is not None:
                    exchange, routing_key, properties, body = outgoing
                    write(out, exchange, routing_key, mandatory, properties, body)
            except (ValueError, ProtocolFault) as trouble:
                if self._no_ack:
                    self._drop_unsendable(delivery, trouble)
                    continue
                await self._give(out, made, deliveries[:at])
                raise unsendable_error(delivery, trouble) from trouble
            if outgoing is None:
                self._drop(delivery)
                continue
            made.append((delivery, outgoing))
            if len(out) > WRITE_BYTES:
                await self._send(out, made)
                out, made = BytesWriter(), []
                # let other tasks run between two writes
                await asyncio.sleep(0)
        await self._give(out, made, deliveries)

    async def _give(
        self, out: BytesWriter, made: list[tuple[Delivery, RewrittenMessage]], deliveries: list[Delivery]
    ) -> None:
        """Send everything that is encoded and not sent."""
        if made:
            await self._send(out, made)
        if deliveries and not self._confirming:
            self._gave(deliveries)

    async def _send(self, out: BytesWriter, made: list[tuple[Delivery, RewrittenMessage]]) -> None:
        # a lost source delivers its messages again
        self._taking.publisher.check_open()
        await self._giving.send_encoded(out.getvalue(), len(made))
        # counted after sending: a publish that waits for room is not in flight
        self._stats.published += len(made)
        self._published += len(made)
        if self._confirming:
            self._settling.published(made, self._options.mandatory)

    def _gave(self, deliveries: list[Delivery]) -> None:
        """Without confirms, a sent message is done."""
        if not self._no_ack:
            self._taking.ack(deliveries[-1], multiple=True)
        self._look_at_limit()

    def _drop(self, delivery: Delivery) -> None:
        self._stats.dropped += 1
        if self._confirming:
            self._taking.ack(delivery)
            self._late_acks.gave_up(1)

    def _drop_unsendable(self, delivery: Delivery, trouble: Exception) -> None:
        """The source has forgotten the message. Ending the run over it would lose all messages behind it."""
        self._stats.dropped += 1
        self._run.host.log.warning(
            "bridge.dropped", **self._run.described, reason=describe_unsendable(delivery, trouble)
        )

    def _done_for_limit(self) -> int:
        return self._stats.confirmed - self._settled_before if self._confirming else self._published

    def _look_at_limit(self) -> None:
        limit = self._options.limit
        self._caught_up.set()
        if limit is not None and self._done_for_limit() >= limit and not self.over.done():
            self.over.set_result(None)

    # -- confirms and returns

    def decided(self, ranges: list[ConfirmRange]) -> None:
        if self._taking.is_open:
            self._settling.decided(ranges)
            if self._poison_guard.suspects:
                self._poison_guard.decided(sum(each.last - each.first + 1 for each in ranges))
            self._look_at_limit()

    def came_back(self, message: ReturnedMessage) -> None:
        self._settling.came_back(message)
        if not self.over.done():
            where = f"exchange {message.exchange!r} with routing key {message.routing_key!r}"
            sentence = f"the destination has no queue for messages published to {where}: {message.text}"
            self.over.set_exception(UnroutableAtDestination(f"{sentence}; such messages stay at the source"))

    def ended(self, error: Callable[[], ClientError]) -> None:
        self._caught_up.set()
        if not self.over.done():
            outcome = self._poison_guard.closed(error(), self._settling.undecided())
            self._was_refused = isinstance(outcome, MessageRefused) and outcome.method == PUBLISH
            self._broke(outcome)

    def _broke(self, error: ClientError) -> None:
        self._caught_up.set()
        if not self.over.done():
            self.over.set_exception(error)

    def _call_later(self, delay_s: float, call: Callable[[], None]) -> None:
        def if_open() -> None:
            if self._taking.is_open:
                call()

        self._timers.append(self._loop.call_later(delay_s, if_open))

    # -- the end

    async def end(self) -> None:
        """Wait for publishes in flight, close both channels, and log the undecided messages."""
        in_order = False
        try:
            in_order = await self._leave_in_order()
        finally:
            # also logged if the waiting was cut short
            for timer in self._timers:
                timer.cancel()
            # mark the exception as retrieved
            if self.over.done():
                self.over.exception()
            self._report_doubtful(in_order)

    def _report_doubtful(self, in_order: bool) -> None:
        undecided = [] if self._was_refused else self._settling.undecided()
        doubted = [delivery.header_payload for delivery in undecided]
        if (not in_order or self._source_forgets) and self._confirming:
            doubted = self._late_acks.possibly_lost() + doubted
        if doubted:
            ids = log_possible_duplicates(self._run.host.log, dict(self._run.described), doubted)
            self._stats.in_doubt(len(doubted), ids)

    async def _leave_in_order(self) -> bool:
        """Whether the source has heard every ack."""
        try:
            async with asyncio.timeout(FINAL_CONFIRMS_TIMEOUT_S):
                while self._settling.under_way and self._giving.is_open and self._taking.is_open:
                    self._caught_up.clear()
                    await self._caught_up.wait()
                if not self._taking.is_open:
                    return False
                self._taking.publisher.follower = None
                await self._taking.close()
                return True
        except (ClientError, OSError, TimeoutError):
            return False
        finally:
            self._giving.publisher.follower = self._taking.publisher.follower = None
            with contextlib.suppress(ClientError):
                self._giving.leave()


class _SourceWatch:
    """Notices the loss of the source while nothing is read from it. The channel publishes nothing."""

    def __init__(self, lost: Callable[[ClientError], None]) -> None:
        self._lost = lost

    def decided(self, ranges: list[ConfirmRange]) -> None:
        """Never called."""

    def came_back(self, message: ReturnedMessage) -> None:
        """Never called."""

    def ended(self, error: Callable[[], ClientError]) -> None:
        self._lost(error())


def _prefetch_of(options: TransferOptions) -> int:
    """AMQP's maximum if there is no limit; otherwise at most the limit."""
    wanted = min(options.prefetch or PREFETCH_MAX, PREFETCH_MAX)
    return wanted if options.limit is None else min(wanted, options.limit)


async def _cancel_when_shut(consumer: Consumer, gate: ConsumptionGate) -> None:
    while gate.is_open:
        await gate.turned()
    await consumer.cancel()
