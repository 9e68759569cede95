"""The sending half of a link to another node.

Output gathers during the turn (`broker.links.records`), and is sent in one piece at its end.

Not here: the receiving half, and the theory of links (`broker.links.link`).
"""

from abc import abstractmethod
from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64, trait

from warren.broker.links import records
from warren.broker.links.admission import AdmissionLane, LinkAdmission
from warren.broker.links.queue_proxy import QueueProxy
from warren.broker.links.records import LinkOutput
from warren.broker.model.message import Entry, Message
from warren.broker.model.remote_queue import QueueAnswer
from warren.broker.model.turn import Turn

DELIVERY_BITS: Final = 40
DELIVERIES_MAX: Final[i64] = 1 << 40

TURN_BYTES_MAX: Final[i64] = 4 * 1024 * 1024
"""With this much output gathered, no more is delivered before the next turn."""

REPLICATION_BYTES_MAX: Final[i64] = 64 * 1024 * 1024
"""The most replication that may wait while a link is full. Beyond it the link is ended, and the replicas catch up."""

REPLY_BYTES_MAX: Final[i64] = 16 * 1024 * 1024
"""The most direct replies that may wait while a link is full."""


@trait
class DeliveryTarget:
    """Takes the deliveries of one consumer."""

    @abstractmethod
    def arrived(self, entry: Entry) -> None: ...

    @abstractmethod
    def gone(self, ended: bool) -> None:
        """The queue drops the consumer; `ended`: the queue continues without it."""


class LinkSender:
    """One run of a link, as its users see it."""

    def __init__(self, node: str, run_no: i64, admission: LinkAdmission) -> None:
        self.node: str = node
        self.admission: LinkAdmission = admission
        self.lane: AdmissionLane = AdmissionLane()
        # the link is about to be lost
        self.doomed: bool = False
        # delivery numbers differ between all runs of links
        self.base: i64 = run_no << DELIVERY_BITS
        self.delivered: i64 = self.base
        # bytes of direct replies, and of replication, since the link is full
        self._reply_bytes: i64 = 0
        self._replication_bytes: i64 = 0
        self._outgoing: LinkOutput = LinkOutput()
        self._last_published: Message | None = None

    def output(self) -> BytesWriter:
        """Where to write the next record."""
        return self._outgoing.writer()

    def send_message(self, kind: i64, flags: i64, number: i64, message: Message) -> None:
        self._outgoing.message(kind, flags, number, message)

    def send_positioned_delivery(self, flags: i64, number: i64, message: Message, position: i64) -> None:
        """A delivery from a mirrored queue."""
        flags |= records.AT_POSITION
        if message.persistent:
            flags |= records.PERSISTENT
        self._outgoing.message_with_word(records.DELIVER, flags, number, message, position)

    def send_publish(self, flags: i64, number: i64, message: Message) -> None:
        """Send a publish; a message for several queues goes over the link once."""
        if message is self._last_published:
            records.write_words(self.output(), records.PUBLISH_AGAIN, flags, [int(number)])
        else:
            self._last_published = message
            self.send_message(records.PUBLISH, flags, number, message)

    def send_replication(self, head: bytes, data: bytes) -> None:
        """Replication cannot wait."""
        self._outgoing.replication(head, data)
        if self.lane.paused:
            self._replication_bytes += len(head) + len(data)

    def overcome(self) -> bool:
        """Whether so much replication waits that the link must end; True only once."""
        if self._replication_bytes <= REPLICATION_BYTES_MAX or self.doomed:
            return False
        self.doomed = True
        return True

    def send_got(self, flags: i64, ticket: i64, message: Message, ready: i64) -> None:
        self._outgoing.message_with_word(records.GOT, flags, ticket, message, ready)

    def send_reply(self, inbox: str, message: Message) -> None:
        """Send the name of an inbox and then its direct reply. While the link is full, replies beyond a bound are
        dropped."""
        if self.lane.paused:
            self._reply_bytes += len(message.content)
            if self._reply_bytes > REPLY_BYTES_MAX:
                return
        records.write_text(self.output(), records.REPLY_TO, 0, inbox.encode("utf-8", "surrogateescape"))
        self.send_message(records.REPLY, 0, 0, message)

    def ack(self, entry: Entry) -> None:
        """Ack a delivery of this run."""
        number: i64 = entry.position - self.base
        if 0 < number < DELIVERIES_MAX:
            self._outgoing.ack(number)

    def send_taken(self, number: i64, count: i64, size_bytes: i64) -> None:
        """Report how many of a consumer's deliveries were handed to its client."""
        records.write_words(self.output(), records.CREDIT, 0, [int(number), int(count), int(size_bytes)])

    def send_numbers(self, kind: i64, entries: list[Entry]) -> None:
        """Report another outcome of deliveries of this run."""
        numbers = [int(entry.position - self.base) for entry in entries if self._is_of_this_run(entry)]
        if numbers:
            records.write_words(self.output(), kind, 0, numbers)

    def _is_of_this_run(self, entry: Entry) -> bool:
        return 0 < entry.position - self.base < DELIVERIES_MAX

    def has_room(self) -> bool:
        """Whether a record that can wait, such as a delivery, may be sent now."""
        return not self.lane.paused and self._outgoing.size_bytes() < TURN_BYTES_MAX

    def paused(self) -> None:
        """The link is full."""
        self.lane.paused = True
        self._reply_bytes = 0
        self._replication_bytes = 0

    def taken(self) -> list[bytes]:
        """Take the gathered output."""
        self._last_published = None
        return self._outgoing.take()

    # -- numbers

    @abstractmethod
    def define(self, queue: QueueProxy) -> i64:
        """A number for a queue."""

    @abstractmethod
    def forget(self, number: i64) -> None:
        """Send no more records about a queue; reports on its publishes may still come."""

    @abstractmethod
    def part(self, number: i64) -> None:
        """Free the number of a queue: no more records about it are expected."""

    @abstractmethod
    def subscribe(self, target: DeliveryTarget) -> i64:
        """A number for a consumer."""

    @abstractmethod
    def unsubscribe(self, number: i64) -> None: ...

    @abstractmethod
    def ticket(self, answer: QueueAnswer) -> i64:
        """A number for a question."""


class LinkDirectory:
    """The links of one node, as its proxies see them."""

    def __init__(self, turn: Turn) -> None:
        self.turn: Turn = turn

    @abstractmethod
    def add(self, queue: QueueProxy) -> None:
        """Add a queue of another node."""

    @abstractmethod
    def remove(self, queue: QueueProxy) -> None: ...
