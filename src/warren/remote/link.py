"""One run of the link to another node: the records of both directions.

Output gathers during the turn (`remote.outgoing`) and leaves it in one go.

Not here: the theory (`remote.links`), what the other node has here (`remote.hosting`), records (`remote.records`).
"""

from typing import TYPE_CHECKING, Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from warren.errors import REPLY_NAMES, ChannelFault, ConnectionFault, PeerFault
from warren.model.distant import GET, Answer
from warren.model.effects import SendToPeer
from warren.model.message import NEVER, NO_EXPIRATION, Entry, Message
from warren.model.turn import Turn
from warren.remote import records
from warren.remote.admission import Admission
from warren.remote.envelopes import EnvelopeTable
from warren.remote.hosting import Home, Hosting
from warren.remote.late_acks import place
from warren.remote.outgoing import Outgoing
from warren.remote.records import NUMBER_MAX, RecordReader
from warren.remote.subscription import Subscription
from warren.wire.values import ArgumentReader

if TYPE_CHECKING:
    from warren.remote.remote_queue import RemoteQueue

DELIVERY_BITS: Final = 40
DELIVERIES_MAX: Final[i64] = 1 << 40

TURN_BYTES_MAX: Final[i64] = 4 * 1024 * 1024
"""When this much is gathered nothing more is lent before the next turn."""

RING_BYTES_MAX: Final[i64] = 64 * 1024 * 1024
"""So much of what rings are told may wait for a node that takes nothing; then it has to catch up anew."""

REPLY_BYTES_MAX: Final[i64] = 16 * 1024 * 1024
"""So much of direct replies may wait for a node that takes nothing."""


@final
class Link:
    """Both directions, from the moment the link is there until it is lost."""

    def __init__(self, node: str, run_no: i64, home: Home, turn: Turn, admission: Admission, own: bool = False) -> None:
        self.node: str = node
        # it leads from this node to itself
        self._own: bool = own
        self.admission: Admission = admission
        self.unsettled_bytes: i64 = 0
        # the other node takes no more for now
        self.paused: bool = False
        # direct replies since then, and what members of rings told each other
        self._reply_bytes: i64 = 0
        self._ring_bytes: i64 = 0
        # it is about to be lost
        self.doomed: bool = False
        # no two runs, of whichever links, have numbers of deliveries in common
        self.base: i64 = run_no << DELIVERY_BITS
        self.delivered: i64 = self.base
        self.hosting: Hosting = Hosting(self, home, turn)
        self._home: Home = home
        self._turn: Turn = turn
        self._outgoing: Outgoing = Outgoing(own)
        # of an own link: messages that came from hand to hand, and how many of them were taken
        self._handed: list[Message] = []
        self._taken: i64 = 0
        self._reader: RecordReader = RecordReader()
        self._envelopes: EnvelopeTable = EnvelopeTable()
        self._queues: dict[int, RemoteQueue] = {}
        self._subscriptions: dict[int, Subscription] = {}
        self._answers: dict[int, Answer] = {}
        self._queue_no: i64 = 0
        self._consumer_no: i64 = 0
        self._ticket: i64 = 0
        # the inbox of the reply that comes next
        self._reply_to: str = ""
        self._last_published: Message | None = None
        # where that stands in its queue which is got next; 0 if nobody says
        self._position: i64 = 0

    # -- output

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

    def send_ring(self, head: bytes, data: bytes) -> None:
        """What members of a ring tell each other cannot wait."""
        self._outgoing.ring(head, data)
        if self.paused:
            self._ring_bytes += len(head) + len(data)

    def overcome(self) -> bool:
        """Whether so much of that waits that the link has to go; said once."""
        if self._ring_bytes <= RING_BYTES_MAX or self.doomed:
            return False
        self.doomed = True
        return True

    def send_got(self, flags: i64, ticket: i64, message: Message, ready: i64) -> None:
        self._outgoing.message_with_word(records.GOT, flags, ticket, message, ready)

    def send_reply(self, inbox: str, message: Message) -> None:
        """A direct reply: the name of its inbox goes ahead of it. While nobody takes them, so many wait and no more."""
        if self.paused:
            self._reply_bytes += len(message.content)
            if self._reply_bytes > REPLY_BYTES_MAX:
                return
        records.write_text(self.output(), records.REPLY_TO, 0, inbox.encode("utf-8", "surrogateescape"))
        self.send_message(records.REPLY, 0, 0, message)

    def ack(self, entry: Entry) -> None:
        """A delivery of this run was dealt with."""
        number: i64 = entry.position - self.base
        if 0 < number < DELIVERIES_MAX:
            self._outgoing.ack(number)

    def send_taken(self, number: i64, count: i64, size_bytes: i64) -> None:
        """So much of what a consumer was sent is in its client's hands."""
        records.write_words(self.output(), records.TAKEN, 0, [int(number), int(count), int(size_bytes)])

    def send_numbers(self, kind: i64, entries: list[Entry]) -> None:
        """Something else became of deliveries of this run."""
        numbers = [int(entry.position - self.base) for entry in entries if self._is_of_this_run(entry)]
        if numbers:
            records.write_words(self.output(), kind, 0, numbers)

    def _is_of_this_run(self, entry: Entry) -> bool:
        return 0 < entry.position - self.base < DELIVERIES_MAX

    def has_output(self) -> bool:
        return self._outgoing.any() or len(self.hosting.settling) > 0

    def loop(self) -> None:
        """Of a node's link to itself: take in what goes out."""
        self.hosting.end_turn()
        self._last_published = None
        pieces = self._outgoing.take()
        self._handed, self._taken = self._outgoing.take_messages(), 0
        for piece in pieces:
            self.receive(piece)
        self._handed = []
        self.hosting.go_on()

    def has_room(self) -> bool:
        """Whether something that can wait may be sent now."""
        return not self.paused and self._outgoing.size_bytes() < TURN_BYTES_MAX

    def pause(self) -> None:
        self.paused = True
        self._reply_bytes = 0
        self._ring_bytes = 0

    def resume(self) -> None:
        self.paused = False
        self.admission.ease()
        self.hosting.go_on()

    def end_turn(self) -> None:
        self.hosting.end_turn()
        self._last_published = None
        pieces = self._outgoing.take()
        if pieces:
            self._turn.effects.append(SendToPeer(self.node, *pieces))
            self.hosting.go_on()

    # -- numbers

    def define(self, queue: "RemoteQueue") -> i64:
        """A number for a queue."""
        self._queue_no = _next(self._queue_no)
        while int(self._queue_no) in self._queues:
            self._queue_no = _next(self._queue_no)
        self._queues[int(self._queue_no)] = queue
        return self._queue_no

    def forget(self, number: i64) -> None:
        """The home hears nothing more of a queue, but still tells what becomes of what it was sent."""
        records.write_words(self.output(), records.FORGET_QUEUE, 0, [int(number)])

    def part(self, number: i64) -> None:
        """Nothing more is expected from a queue."""
        self._queues.pop(int(number), None)

    def subscribe(self, subscription: Subscription) -> i64:
        """A number for a consumer."""
        self._consumer_no = _next(self._consumer_no)
        while int(self._consumer_no) in self._subscriptions:
            self._consumer_no = _next(self._consumer_no)
        self._subscriptions[int(self._consumer_no)] = subscription
        return self._consumer_no

    def unsubscribe(self, number: i64) -> None:
        self._subscriptions.pop(int(number), None)

    def ticket(self, answer: Answer) -> i64:
        """A number for a question."""
        self._ticket = _next(self._ticket)
        while int(self._ticket) in self._answers:
            self._ticket = _next(self._ticket)
        self._answers[int(self._ticket)] = answer
        return self._ticket

    # -- input

    def receive(self, data: bytes) -> None:
        """Act on one read of the link; a `PeerFault` if it makes no sense."""
        reader = self._reader
        reader.feed(data)
        try:
            # what a record brings about may end the link
            while not self.hosting.over and reader.next():
                self._take(reader)
        except ConnectionFault as fault:
            raise PeerFault(fault.text) from fault

    def lost(self) -> None:
        """Everything of this run ends, but for what its queues know (`RemoteQueue.link_lost`)."""
        self.hosting.lost()
        deleted = [queue for queue in self._queues.values() if queue.deleted]
        self._queues = {}
        for queue in deleted:
            # nobody else knows them any more
            queue.link_lost()
        self._subscriptions = {}
        answers = list(self._answers.values())
        self._answers = {}
        for answer in answers:
            answer.failed(answer.queue.down())
        self.paused = False
        self.admission.arrived(self, self.unsettled_bytes)

    def _take(self, reader: RecordReader) -> None:
        kind = reader.kind
        if kind == records.DELIVER:
            self._deliver(reader)
            return
        if kind == records.PUBLISH:
            message = self._message(reader)
            self.hosting.publish(reader.number, reader.flags, message)
            return
        arguments = ArgumentReader(reader.data, reader.start, reader.end)
        if kind == records.ACKED:
            self.hosting.acked(arguments)
        elif kind == records.SETTLED:
            queue = self._queues.get(int(arguments.longlong()))
            if queue is not None:
                queue.settled_to(arguments.longlong(), arguments.longlong())
        elif kind >= records.FROM_HOME:
            self._take_from_home(kind, reader, arguments)
        elif kind >= records.TO_HOME:
            self.hosting.take(kind, reader.flags, arguments)
        else:
            self._take_of_either(kind, reader, arguments)

    def _message(self, reader: RecordReader) -> Message:
        """The message of this record."""
        if not self._own:
            return reader.message(self._envelopes.of(reader))
        reader.message_head()
        self._taken += 1
        return self._handed[self._taken - 1]

    def _deliver(self, reader: RecordReader) -> None:
        message = self._message(reader)
        entry = self._lent(message, reader.flags)
        if reader.flags & records.AT_POSITION:
            if not self._own:
                # the word was not how long it lives
                message.expiration_ms = NO_EXPIRATION
            place(entry, reader.word)
        subscription = self._subscriptions.get(int(reader.number))
        # whoever is not there any more has said so, and its home takes it back
        if subscription is not None:
            subscription.arrived(entry)

    def _lent(self, message: Message, flags: i64) -> Entry:
        self.delivered += 1
        entry = Entry(message, self.delivered, NEVER)
        if flags & records.REDELIVERED:
            entry.redelivered = True
        return entry

    def _take_from_home(self, kind: i64, reader: RecordReader, arguments: ArgumentReader) -> None:
        if kind == records.REFUSED:
            queue = self._queues.get(int(arguments.longlong()))
            if queue is not None:
                queue.refused(arguments.longlong())
        elif kind == records.GONE:
            subscription = self._subscriptions.pop(int(arguments.longlong()), None)
            if subscription is not None:
                subscription.ended = reader.flags & records.FOR_GOOD != 0
                subscription.queue.consumer_gone(subscription)
        elif kind == records.OPENED:
            opened = self._queues.get(int(arguments.longlong()))
            if opened is not None:
                mark, known = arguments.longlong(), arguments.longlong() != 0
                opened.opened(mark, known, arguments.longlong())
        elif kind == records.HELD:
            mirrored = self._queues.get(int(arguments.longlong()))
            if mirrored is not None and mirrored.opening is not None:
                mirrored.opening.held(arguments.longlong())
        elif kind == records.GOT:
            self._got(reader)
        elif kind == records.POSITION:
            self._position = arguments.longlong()
        elif kind == records.COUNTED:
            answer = self._answers.pop(int(arguments.longlong()), None)
            ready, consumers = arguments.longlong(), arguments.longlong()
            if answer is not None:
                answer.queue.told(answer.question, ready, consumers)
                answer.counted(ready, consumers)
        elif kind == records.FAULT:
            answer = self._answers.pop(int(arguments.longlong()), None)
            code = int(arguments.longlong())
            if code not in REPLY_NAMES:
                raise PeerFault(f"a fault with the code {code}")
            text = arguments.longstr().decode("utf-8", "surrogateescape")
            if answer is not None:
                answer.failed(ChannelFault(code, text))
        else:
            raise PeerFault(f"a record of kind {kind}")

    def _got(self, reader: RecordReader) -> None:
        message = self._message(reader)
        entry = self._lent(message, reader.flags)
        if self._position != 0:
            place(entry, self._position)
            self._position = 0
        answer = self._answers.pop(int(reader.number), None)
        if answer is None:
            raise PeerFault("something nobody asked for was got")
        answer.queue.told(answer.question, reader.word, 0)
        answer.got(entry, reader.word)
        if answer.abandoned and answer.question == GET:
            self.send_numbers(records.RETURNED, [entry])

    def _take_of_either(self, kind: i64, reader: RecordReader, arguments: ArgumentReader) -> None:
        if kind == records.ENVELOPE:
            self._envelopes.define(arguments)
        elif kind == records.NOTICE:
            self._home.notice_arrived(self.node, reader.data[reader.start : reader.end])
        elif kind == records.RING:
            self._home.ring_arrived(self.node, reader.data, reader.start, reader.end)
        elif kind == records.REPLY_TO:
            self._reply_to = reader.data[reader.start : reader.end].decode("utf-8", "surrogateescape")
        elif kind == records.REPLY:
            self._home.reply_arrived(self._reply_to, self._message(reader))
        else:
            raise PeerFault(f"a record of kind {kind}")


def _next(number: i64) -> i64:
    return number + 1 if number < NUMBER_MAX else 1
