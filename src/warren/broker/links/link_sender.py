"""The sending half of a link to another node, which everything that uses a link knows.

Output gathers during the turn (`broker.links.records`) and leaves it in one piece.

Not here: what arrives, and the whole (`broker.links.link`).
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
"""When this much is gathered nothing more is delivered before the next turn."""

REPLICATION_BYTES_MAX: Final[i64] = 64 * 1024 * 1024
"""So much of replication may wait for a node that takes nothing; then the link goes, and its replicas catch up anew."""

REPLY_BYTES_MAX: Final[i64] = 16 * 1024 * 1024
"""So much of direct replies may wait for a node that takes nothing."""


@trait
class DeliveryTarget:
    """Takes the deliveries of one consumer."""

    @abstractmethod
    def arrived(self, entry: Entry) -> None: ...

    @abstractmethod
    def gone(self, ended: bool) -> None:
        """The queue lets go of the consumer; `ended`: the queue goes on without it."""


class LinkSender:
    """One run of a link, as its users see it."""

    def __init__(self, node: str, run_no: i64, admission: LinkAdmission) -> None:
        self.node: str = node
        self.admission: LinkAdmission = admission
        self.lane: AdmissionLane = AdmissionLane()
        # it is about to be lost
        self.doomed: bool = False
        # no two runs of links have numbers of deliveries in common
        self.base: i64 = run_no << DELIVERY_BITS
        self.delivered: i64 = self.base
        # direct replies, and replication, since the other node takes nothing
        self._reply_bytes: i64 = 0
        self._replication_bytes: i64 = 0
        self._outgoing: LinkOutput = LinkOutput()
        self._last_published: Message | None = None

    def output(self) -> BytesWriter:
        """Where to write the next record."""
        return self._outgoing.writer()

    def send_message(self, kind: i64, flags: i64, number: i64, message: Message) -> None:
        self._outgoing.message(kind, flags, number, message)

    def send_lent(self, flags: i64, number: i64, message: Message, position: i64) -> None:
        """A delivery from a mirrored queue."""
        flags |= records.AT_POSITION
        if message.persistent:
            flags |= records.PERSISTENT
        self._outgoing.message_with_word(records.DELIVER, flags, number, message, position)

    def send_publish(self, flags: i64, number: i64, message: Message) -> None:
        """A message for several queues goes over the link once."""
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
        """Whether so much replication waits that the link has to go; said once."""
        if self._replication_bytes <= REPLICATION_BYTES_MAX or self.doomed:
            return False
        self.doomed = True
        return True

    def send_got(self, flags: i64, ticket: i64, message: Message, ready: i64) -> None:
        self._outgoing.message_with_word(records.GOT, flags, ticket, message, ready)

    def send_reply(self, inbox: str, message: Message) -> None:
        """A direct reply: the name of its inbox goes ahead of it. While the other node takes
        nothing, so many wait and no more."""
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
        """So many of a consumer's deliveries were handed to its client."""
        records.write_words(self.output(), records.CREDIT, 0, [int(number), int(count), int(size_bytes)])

    def send_numbers(self, kind: i64, entries: list[Entry]) -> None:
        """Report another outcome of deliveries of this run."""
        numbers = [int(entry.position - self.base) for entry in entries if self._is_of_this_run(entry)]
        if numbers:
            records.write_words(self.output(), kind, 0, numbers)

    def _is_of_this_run(self, entry: Entry) -> bool:
        return 0 < entry.position - self.base < DELIVERIES_MAX

    def has_room(self) -> bool:
        """Whether something that can wait may be sent now."""
        return not self.lane.paused and self._outgoing.size_bytes() < TURN_BYTES_MAX

    def paused(self) -> None:
        """The other node takes no more for now."""
        self.lane.paused = True
        self._reply_bytes = 0
        self._replication_bytes = 0

    def taken(self) -> list[bytes]:
        """What was gathered; nothing is left."""
        self._last_published = None
        return self._outgoing.take()

    # -- numbers

    @abstractmethod
    def define(self, queue: QueueProxy) -> i64:
        """A number for a queue."""

    @abstractmethod
    def forget(self, number: i64) -> None:
        """The home hears nothing more of a queue, but still tells what becomes of what it was sent."""

    @abstractmethod
    def part(self, number: i64) -> None:
        """Nothing more is expected from a queue."""

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
        """A queue of another node is known from here on."""

    @abstractmethod
    def remove(self, queue: QueueProxy) -> None: ...
