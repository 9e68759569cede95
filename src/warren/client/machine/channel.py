"""One channel: its calls, publishes, deliveries and end.

    opening ──open-ok──▶ open ──close by us──▶ closing ──close-ok──▶ closed
                          └───close by the broker──────────────────────▲

Invariants: the broker answers calls in the order they were made, so `_calls` is a queue. Publishes are counted from the
moment confirm.select is written, as the broker counts them from the moment it reads confirm.select. A closing channel
handles nothing but the end of its closing.

Not here: frames from the broker (`machine.connection`), encoding publishes (`machine.publishes`).
"""

from collections import deque
from collections.abc import Sequence
from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from warren.client.machine.deliveries import AckLedger, PartialContent
from warren.client.machine.publishes import (
    ConfirmLedger,
    ConfirmRange,
    MandatoryPublishes,
    Message,
    PublishWriter,
    property_tail,
)
from warren.wire.frames import write_ack
from warren.wire.methods import BasicConsume, ChannelClose, ConfirmSelect, Method, TxSelect, encode_method
from warren.wire.properties import Properties

CHANNEL_OPENING: Final[i64] = 0
CHANNEL_OPEN: Final[i64] = 1
CHANNEL_CLOSING: Final[i64] = 2
CHANNEL_CLOSED: Final[i64] = 3

WINDOW: Final = 65_536
"""The default limit of unconfirmed publishes."""

REPLY_SUCCESS: Final = 200


@final
class PendingCall:
    def __init__(self, ticket: int, method: Method) -> None:
        self.ticket: int = ticket
        self.method: Method = method


@final
class ConsumerEntry:
    """A consumer under the tag that the broker gave it."""

    def __init__(self, tag: str, no_ack: bool) -> None:
        self.tag: str = tag
        self.no_ack: bool = no_ack


@final
class MachineOutput:
    """The bytes that a connection and its channels have to send, the tickets of calls, and the acks to add."""

    def __init__(self) -> None:
        self.out: BytesWriter = BytesWriter()
        # channels with acks that are written with the next output
        self.acking: list[ChannelMachine] = []
        self._ticket: int = 0

    def next_ticket(self) -> int:
        self._ticket += 1
        return self._ticket

    def acks_wait(self, channel: "ChannelMachine") -> None:
        if not self.acking or self.acking[-1] is not channel:
            self.acking.append(channel)


@final
class ChannelMachine:
    """One channel of a connection."""

    def __init__(self, output: MachineOutput, number: int, frame_max: int) -> None:
        self.number: int = number
        self.state: i64 = CHANNEL_OPENING
        self.confirming: bool = False
        self.transactional: bool = False
        self.window: i64 = WINDOW
        self.confirms: ConfirmLedger = ConfirmLedger()
        self.mandatory: MandatoryPublishes = MandatoryPublishes()
        self.acks: AckLedger = AckLedger()
        # by the bytes of the consumer tag
        self.consumers: dict[bytes, ConsumerEntry] = {}
        # a message with frames still to come
        self.content: PartialContent | None = None
        self._output: MachineOutput = output
        self._writer: PublishWriter = PublishWriter(number, frame_max)
        self._calls: deque[PendingCall] = deque()

    # calls

    def call(self, method: Method) -> int:
        """Write a method that the broker answers (nowait excluded), and return the ticket of the answer."""
        self._check_usable()
        # encode before writing, so that a value that does not fit its field raises and sends nothing
        data = encode_method(self.number, method)
        self.output().write(data)
        if isinstance(method, ConfirmSelect):
            self.confirming = True
        elif isinstance(method, TxSelect):
            self.transactional = True
        elif isinstance(method, ChannelClose):
            self.state = CHANNEL_CLOSING
        ticket = self._output.next_ticket()
        self._calls.append(PendingCall(ticket, method))
        return ticket

    def close(self) -> int:
        return self.call(ChannelClose(reply_code=REPLY_SUCCESS, reply_text="Goodbye"))

    def answered_call(self, method: Method) -> PendingCall | None:
        """The oldest call if this method answers it, else None."""
        if not self._calls or not answers(method.name, self._calls[0].method.name):
            return None
        return self._calls.popleft()

    def subscribed(self, tag: str, method: BasicConsume) -> None:
        self.consumers[tag.encode("utf-8", "surrogateescape")] = ConsumerEntry(tag, method.no_ack)

    def unsubscribed(self, tag: str) -> None:
        self.consumers.pop(tag.encode("utf-8", "surrogateescape"), None)

    # publishing

    def room(self) -> i64:
        """How many publishes fit into the window."""
        return max(self.window - self.confirms.unconfirmed(), 0) if self.confirming else self.window

    def publish(
        self,
        message: Message,
        exchange: str,
        routing_key: str,
        mandatory: bool = False,
    ) -> int:
        """Write one message and return its number, 0 without confirms. The caller checks the window."""
        self._check_usable()
        key = message.routing_key
        return self._publish(
            message.body, property_tail(message.properties), exchange, routing_key if key is None else key, mandatory
        )

    def publish_many(
        self,
        messages: Sequence[bytes | Message],
        at: int,
        exchange: str,
        routing_key: str,
        properties: Properties | None,
        mandatory: bool,
        bytes_max: int,
    ) -> int:
        """Write messages from index `at` while the window has room and the output has grown by less than `bytes_max`.

        Returns the next index. Bodies, and messages without properties, get the properties of the call.
        """
        self._check_usable()
        tail = property_tail(properties)
        # messages often share one Properties object
        latest, latest_tail = properties, tail
        out = self._output.out
        stop_bytes: i64 = len(out) + bytes_max
        end: i64 = min(i64(len(messages)), at + self.room())
        index: i64 = at
        while index < end and len(out) < stop_bytes:
            message = messages[index]
            if isinstance(message, bytes):
                self._publish(message, tail, exchange, routing_key, mandatory)
            else:
                own = message.properties
                if own is not None and own is not latest:
                    latest, latest_tail = own, property_tail(own)
                own_tail = tail if own is None else latest_tail
                key = message.routing_key
                self._publish(message.body, own_tail, exchange, routing_key if key is None else key, mandatory)
            index += 1
        return int(index)

    def publish_encoded(self, frames: bytes, count: i64) -> None:
        """Write publishes that the caller has encoded for this channel and its frame size."""
        self._check_usable()
        self._output.out.write(frames)
        if self.confirming:
            self.confirms.last_no += count

    def _publish(self, body: bytes, tail: bytes, exchange: str, routing_key: str, mandatory: bool) -> int:
        self._writer.write(self._output.out, exchange, routing_key, mandatory, tail, body)
        if not self.confirming:
            return 0
        confirms = self.confirms
        confirms.last_no += 1
        number = int(confirms.last_no)
        if mandatory:
            self.mandatory.sent(number, (exchange, routing_key, tail, body))
        return number

    def take_confirms(self) -> list[ConfirmRange]:
        """The confirms since the last call."""
        ranges = self.confirms.take()
        if len(self.mandatory) > 0:
            for decided in ranges:
                self.mandatory.decided(decided.first, decided.last)
        return ranges

    # settling deliveries

    def ack(self, tag: int, multiple: bool = False) -> None:
        """Collect an ack for the next output; in a transaction write it at once."""
        self._check_usable()
        if self.transactional:
            write_ack(self._output.out, self.number, 80, tag, 1 if multiple else 0)
            return
        self.acks.ack(tag, multiple)
        self._output.acks_wait(self)

    def nack(self, tag: int, multiple: bool = False, requeue: bool = True) -> None:
        self._check_usable()
        if self.transactional:
            bits = (1 if multiple else 0) | (2 if requeue else 0)
            write_ack(self._output.out, self.number, 120, tag, bits)
            return
        self.acks.refuse(self._output.out, self.number, tag, multiple, requeue)

    def record_delivery(self, tag: i64, no_ack: bool) -> None:
        if not self.transactional:
            self.acks.record_delivery(tag, not no_ack)

    def output(self) -> BytesWriter:
        """The output, with the collected acks written: later methods must not overtake them."""
        out = self._output.out
        self.acks.write(out, self.number)
        return out

    def check(self) -> None:
        self.confirms.check()
        self.acks.check()

    def _check_usable(self) -> None:
        if self.state >= CHANNEL_CLOSING:
            raise ValueError(f"channel {self.number} is closed")


def answers(answer: str, call: str) -> bool:
    """Whether a method named `answer` answers a method named `call`."""
    if call == "basic.get":
        return answer == "basic.get-ok" or answer == "basic.get-empty"
    return answer == call + "-ok"
