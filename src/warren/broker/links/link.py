"""The links of one node: one to each other node, which carries everything about queues in order, both ways.

Theory. A queue lives on one node, its *home*. On every other node a `RemoteQueue` stands in for it. Sessions use it as
they use a queue, but they cannot look into it: they ask, and wait (`broker.model.remote_queue`). A mirrored queue's
home is the node of its master; sessions use it through a `MirroredQueueProxy`, also on the home itself, where the proxy
needs no link (`broker.links.direct_master`).

::

    client ── session ── RemoteQueue ── NodeLink ═══════ NodeLink ── HostSession ── HostedQueue, HostedConsumer ── queue
                  (the client's node)                                     (the home)

A `NodeLink` is one run of a link. When it is lost everything that belongs to the run ends on both sides, and the next
run begins empty: no numbers, no consumers, no unsettled publishes. Everything below relies on the order of the link.

*Publishes* of one RemoteQueue are counted, on both sides, from 1. The home answers `SETTLED n` once a turn: all up to n
are as safe as the queue promises, so after the flush if one of them must be on disk. It answers `REFUSED n` at once,
before any `SETTLED` that passes n. A *fence* counts as a publish of nothing that waits for the flush. When the link is
lost, all publishes above the last `SETTLED` are refused to their publishers, though the home may have some of them: a
nack promises nothing.

*Deliveries* of one link are counted, on both sides, from 1. The home notes the entry and the consumer under this
number; acks come back as ranges of numbers, other outcomes as lists. The home knows a consumer's prefetch, or its
channel's if that is less, so prefetch is exact for a channel with one consumer. Beyond prefetch, the *window* bounds
the messages and bytes that the client's node has not handed to the client. A delivery for a consumer that is not able
(its connection is full, or its channel's other consumers used up the prefetch) waits in its `RemoteSubscription`. For a
consumer without acks, the client's node acks in the turn in which it hands the delivery on: no message is lost that has
not left for the client.

Lemma: a delivery that the client never saw goes back as if it had never left. A cancel names the last delivery that the
client got. Later ones to this consumer are in the subscription or on their way, and the home takes them back unmarked,
unless other consumers may have been given later messages: to them it would come out of order, which only a redelivered
message may. A delivery that the client got and gives back is marked by the queue; so is every delivery in flight when
the link is lost, because the home cannot know how many of them the client got.

*Questions* have tickets. Each is answered once, or ends with the link.

Back-pressure acts at admission alone (`broker.links.admission`); links are always read. A node whose socket is full is
sent no publishes and no deliveries, and one turn delivers to it up to a bound; later deliveries wait in their queues.
Direct replies, which have no queue to wait in, are dropped beyond a bound, like those of a client that does not read.
So the bytes in front of a socket are bounded. Two nodes that publish to each other cannot lock up: answers and acks are
never held.

Records of the other node are checked as if an attacker had sent them. An invalid record ends the link (`DropPeer`).

Not here: sockets (`node.peers`), which nodes may connect (`broker.cluster.hello`), the sending half
(`broker.links.link_sender`), records (`broker.links.records`), the home's side (`broker.links.host_session`).
"""

from typing import final

from mypy_extensions import i64

from warren.broker.links import records
from warren.broker.links.admission import LinkAdmission
from warren.broker.links.direct_master import LocalMasters
from warren.broker.links.host_session import HostSession, LinkHost
from warren.broker.links.link_sender import DeliveryTarget, LinkDirectory, LinkSender
from warren.broker.links.queue_proxy import QueueProxy
from warren.broker.links.records import NUMBER_MAX, EnvelopeTable, RecordReader
from warren.broker.links.remote_queue import RemoteQueue, set_home_position
from warren.broker.model.effects import DropPeer, SendToPeer
from warren.broker.model.message import NEVER, NO_EXPIRATION, Entry, Message
from warren.broker.model.ports import QueuePort
from warren.broker.model.remote_queue import GET, QueueAnswer
from warren.broker.model.turn import Turn
from warren.errors import REPLY_NAMES, ChannelFault, ConnectionFault, PeerFault
from warren.wire.values import ArgumentReader


@final
class NodeLink(LinkSender):
    """Both directions of a link, from its start until it is lost."""

    def __init__(self, node: str, run_no: i64, home: LinkHost, turn: Turn, admission: LinkAdmission) -> None:
        super().__init__(node, run_no, admission)
        self.host_session: HostSession = HostSession(self, home, turn)
        self._home: LinkHost = home
        self._turn: Turn = turn
        self._reader: RecordReader = RecordReader()
        self._envelopes: EnvelopeTable = EnvelopeTable()
        self._queues: dict[int, RemoteQueue] = {}
        self._subscriptions: dict[int, DeliveryTarget] = {}
        self._answers: dict[int, QueueAnswer] = {}
        self._queue_no: i64 = 0
        self._consumer_no: i64 = 0
        self._ticket: i64 = 0
        # the inbox of the reply that comes next
        self._reply_to: str = ""
        # the position of the entry that is got next; 0 if it is not known
        self._position: i64 = 0

    # -- output

    def resume(self) -> None:
        self.lane.paused = False
        self.admission.ease()
        self.host_session.go_on()

    def end_turn(self) -> None:
        self.host_session.end_turn()
        pieces = self.taken()
        if pieces:
            self._turn.effects.append(SendToPeer(self.node, *pieces))
            self.host_session.go_on()

    # -- numbers

    def define(self, queue: QueueProxy) -> i64:
        assert isinstance(queue, RemoteQueue), "the queue is at the other end of the link"
        self._queue_no = _next(self._queue_no)
        while int(self._queue_no) in self._queues:
            self._queue_no = _next(self._queue_no)
        self._queues[int(self._queue_no)] = queue
        return self._queue_no

    def forget(self, number: i64) -> None:
        records.write_words(self.output(), records.FORGET_QUEUE, 0, [int(number)])

    def part(self, number: i64) -> None:
        self._queues.pop(int(number), None)

    def subscribe(self, target: DeliveryTarget) -> i64:
        self._consumer_no = _next(self._consumer_no)
        while int(self._consumer_no) in self._subscriptions:
            self._consumer_no = _next(self._consumer_no)
        self._subscriptions[int(self._consumer_no)] = target
        return self._consumer_no

    def unsubscribe(self, number: i64) -> None:
        self._subscriptions.pop(int(number), None)

    def ticket(self, answer: QueueAnswer) -> i64:
        self._ticket = _next(self._ticket)
        while int(self._ticket) in self._answers:
            self._ticket = _next(self._ticket)
        self._answers[int(self._ticket)] = answer
        return self._ticket

    # -- input

    def receive(self, data: bytes) -> None:
        """Act on the bytes of one event; a `PeerFault` if they are invalid."""
        reader = self._reader
        reader.feed(data)
        try:
            # handling a record may end the link
            while not self.host_session.over and reader.next():
                self._take(reader)
        except ConnectionFault as fault:
            raise PeerFault(fault.text) from fault

    def lost(self) -> None:
        """End everything of this run; queues keep their own state (`RemoteQueue.link_lost`)."""
        self.host_session.lost()
        deleted = [queue for queue in self._queues.values() if queue.deleted]
        self._queues = {}
        for queue in deleted:
            # these are no longer in the directory
            queue.link_lost()
        self._subscriptions = {}
        answers = list(self._answers.values())
        self._answers = {}
        for answer in answers:
            answer.failed(answer.queue.down())
        self.lane.paused = False
        self.admission.arrived(self.lane, self.lane.unsettled_bytes)

    def _take(self, reader: RecordReader) -> None:
        kind = reader.kind
        if kind == records.DELIVER:
            self._deliver(reader)
            return
        if kind == records.PUBLISH:
            message = self._message(reader)
            self.host_session.publish(reader.number, reader.flags, message)
            return
        arguments = ArgumentReader(reader.data, reader.start, reader.end)
        if kind == records.ACKED:
            self.host_session.acked(arguments)
        elif kind == records.SETTLED:
            queue = self._queues.get(int(arguments.longlong()))
            if queue is not None:
                queue.settled_to(arguments.longlong(), arguments.longlong())
        elif kind >= records.FROM_HOME:
            self._take_from_home(kind, reader, arguments)
        elif kind >= records.TO_HOME:
            self.host_session.take(kind, reader.flags, arguments)
        else:
            self._take_of_either(kind, reader, arguments)

    def _message(self, reader: RecordReader) -> Message:
        """The message of this record."""
        return reader.message(self._envelopes.of(reader))

    def _deliver(self, reader: RecordReader) -> None:
        message = self._message(reader)
        entry = self._lent(message, reader.flags)
        if reader.flags & records.AT_POSITION:
            # the word is not the message's TTL
            message.expiration_ms = NO_EXPIRATION
            set_home_position(entry, reader.word)
        subscription = self._subscriptions.get(int(reader.number))
        # the consumer left: the home knows, and takes the delivery back
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
        elif kind == records.CONSUMER_GONE:
            subscription = self._subscriptions.pop(int(arguments.longlong()), None)
            if subscription is not None:
                subscription.gone(reader.flags & records.FOR_GOOD != 0)
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
                answer.queue.counts_received(answer.question, ready, consumers)
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
            set_home_position(entry, self._position)
            self._position = 0
        answer = self._answers.pop(int(reader.number), None)
        if answer is None:
            raise PeerFault("the reply to a get does not match any request")
        answer.queue.counts_received(answer.question, reader.word, 0)
        answer.got(entry, reader.word)
        if answer.abandoned and answer.question == GET:
            self.send_numbers(records.RETURNED, [entry])

    def _take_of_either(self, kind: i64, reader: RecordReader, arguments: ArgumentReader) -> None:
        if kind == records.ENVELOPE:
            self._envelopes.define(arguments)
        elif kind == records.NOTICE:
            self._home.notice_arrived(self.node, reader.data[reader.start : reader.end])
        elif kind == records.REPLICATION:
            self._home.replication_arrived(self.node, reader.data, reader.start, reader.end)
        elif kind == records.REPLY_TO:
            self._reply_to = reader.data[reader.start : reader.end].decode("utf-8", "surrogateescape")
        elif kind == records.REPLY:
            self._home.reply_arrived(self._reply_to, self._message(reader))
        else:
            raise PeerFault(f"a record of kind {kind}")


def _next(number: i64) -> i64:
    return number + 1 if number < NUMBER_MAX else 1


@final
class NodeLinks(LinkDirectory):
    """The links of this node, and the queues of other nodes that it knows."""

    def __init__(self, turn: Turn, home: LinkHost) -> None:
        super().__init__(turn)
        self.admission: LinkAdmission = LinkAdmission(turn)
        self._home: LinkHost = home
        self._links: dict[str, NodeLink] = {}
        # by home, in the order in which they were defined
        self._queues: dict[str, dict[RemoteQueue, None]] = {}
        # runs of links, of all nodes
        self._runs: i64 = 0
        # the masters on this node, as its own proxies use them; none if it cannot be a master
        self.local_masters: LocalMasters | None = None

    def host_masters(self, node: str) -> None:
        """Masters of mirrored queues may be on this node."""
        self.local_masters = LocalMasters(node, self._home, self.turn, self.admission)

    # -- what the shell tells

    def connected(self, node: str, incarnation: int) -> None:
        """A link is up; everything of an earlier link was lost with it."""
        self.lost(node)
        self._runs += 1
        link = NodeLink(node, self._runs, self._home, self.turn, self.admission)
        self._links[node] = link
        for queue in list(self._queues.get(node, {})):
            queue.linked(link)

    def received(self, node: str, data: bytes) -> None:
        link = self._links.get(node)
        if link is None:
            return
        try:
            link.receive(data)
        except PeerFault as fault:
            self.turn.note("error", "link.broken", {"node": node, "reason": str(fault)})
            self.turn.effects.append(DropPeer(node, str(fault)))
            self.lost(node)

    def writes_paused(self, node: str) -> None:
        """The link is full: the other node reads more slowly than this node sends."""
        link = self._links.get(node)
        if link is not None:
            link.paused()

    def writes_resumed(self, node: str) -> None:
        link = self._links.get(node)
        if link is not None:
            link.resume()

    def lost(self, node: str) -> None:
        """A link is lost: end everything that used it. May be called twice."""
        link = self._links.pop(node, None)
        if link is None:
            return
        link.lost()
        for queue in list(self._queues.get(node, {})):
            queue.link_lost()

    def end_turn(self) -> None:
        """Send the output of the turn; called at the end of a turn."""
        for link in self._links.values():
            link.end_turn()
        self.admission.end_turn()

    # -- what the node wants

    def is_connected(self, node: str) -> bool:
        return node in self._links

    def lent_out(self, queue: QueuePort) -> list[Entry]:
        """Entries of a queue of this node that clients of other nodes hold."""
        found: list[Entry] = []
        for link in self._links.values():
            found += link.host_session.lent_of(queue)
        return found

    def nodes(self) -> list[str]:
        """The nodes with a link to this one."""
        return list(self._links)

    def notify(self, node: str, data: bytes) -> bool:
        """Send another node a notice that is not about queues; False if there is no link to it."""
        link = self._links.get(node)
        if link is None:
            return False
        records.write_text(link.output(), records.NOTICE, 0, data)
        return True

    def send_replication(self, node: str, head: bytes, data: bytes) -> bool:
        """Send a replication message to another member of a replica set; False if there is no link to it."""
        link = self._links.get(node)
        if link is None:
            return False
        if link.overcome():
            self.turn.effects.append(DropPeer(node, "it takes less than the queues that it mirrors are given"))
        elif not link.doomed:
            link.send_replication(head, data)
        return True

    def reply(self, node: str, inbox: str, message: Message) -> None:
        """Send a direct reply to the node of its inbox; drop it if there is no link."""
        link = self._links.get(node)
        if link is not None:
            link.send_reply(inbox, message)

    # -- queues

    def add(self, queue: QueueProxy) -> None:
        assert isinstance(queue, RemoteQueue), "the queue is on another node"
        self._queues.setdefault(queue.node, {})[queue] = None
        link = self._links.get(queue.node)
        if link is not None:
            queue.linked(link)

    def remove(self, queue: QueueProxy) -> None:
        assert isinstance(queue, RemoteQueue), "the queue is on another node"
        self._queues[queue.node].pop(queue, None)
