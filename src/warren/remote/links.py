"""The links of one node to the others: where all that concerns queues on another node comes in and goes out.

Theory. A queue lives on one node, its *home*, as a `queue.Queue`. On every other node a `RemoteQueue` stands in for it,
and sessions there use it as they use a queue, but that they cannot look into it: they ask, and wait (`model.distant`).

::

    client ── session ── RemoteQueue ── Link ═════════ Link ── Hosting ── HostedQueue, HostedConsumer ── Queue
                  (the client's node)                                (the home)

Between two nodes there is one link, which carries everything in order, both ways: each node is home to queues of its
own. All that follows rests on this order. A `Link` is one run of it. When it is lost everything that belongs to the run
ends on both sides, and the next one begins with nothing: no numbers, no consumers, no publishes on their way.

*Publishes* of one RemoteQueue are counted, on both sides, from 1. The home answers `SETTLED n` once a turn: all up to n
are held as safely as the queue promises, so it comes after the flush if one of them is to be on disk; and `REFUSED n`
at once, before any `SETTLED` that passes n. A *fence* is counted as a publish of nothing, that waits for the flush.
Lost with the link: all above the last `SETTLED` are refused to their publishers, though the home may have some of them.
That is what a nack means: nobody promises anything.

*Deliveries* of one link are counted, on both sides, from 1. The home notes under this number what it lent, and to which
consumer; acks come back as ranges of numbers, everything else as lists of them. The home knows a consumer's prefetch,
or its channel's if that is less, so that is exact for a channel with one consumer. What it sends beyond is bounded by
the *window*: messages, and bytes, that the client's node has not handed to the client. What comes for a consumer that
is not able (its connection is full, its channel's other consumers have as much as it may) waits in its `Subscription`.
For a consumer without acks the home lends as for any other, and the client's node acks in the turn in which it hands
on: so nothing is lost that had not left for the client.

Lemma: what the client never saw goes back as if it had never left. A cancel says which number was the last that the
client got; whatever was lent to this consumer under a higher number is in the subscription or on its way, and the
home takes it back unmarked, unless there are others who may have been given what comes after: to them it would come
out of order, which only what is marked redelivered may. What the client did get and gives back is marked by the queue,
as locally; so is everything that was lent when the link was lost, because nobody knows how much of it the client got.

*Questions* have tickets, and each is answered once, or ends with the link.

Back-pressure acts at admission alone. Links are always read. What is published and not settled is counted in bytes
for each link and for all of them; beyond the bound connections that publish there are held until half of it is gone.
Nobody publishes to, and nothing is lent to, a node that takes no more (its socket is full), and a turn lends it so
much at most; what is lent later waits in its queue. Direct replies, which have no queue to wait in, are dropped beyond
a bound, as those of a client are that reads none. So what waits in front of a socket is bounded. Two nodes that publish
to each other cannot lock up: answers and acks are never held.

What the other node sends is checked as strangers' bytes are, and a record that makes no sense ends the link
(`DropPeer`); a client's mistake never gets that far.

Not here: sockets and who may connect (`node.peers`, `cluster.hello`), where a queue lives (its definition says).
"""

from typing import final

from mypy_extensions import i64

from warren.errors import InvariantBroken, PeerFault
from warren.model.effects import DropPeer
from warren.model.message import Entry, Message
from warren.model.ports import QueuePort
from warren.model.turn import Turn
from warren.remote import records
from warren.remote.admission import Admission
from warren.remote.hosting import Home
from warren.remote.link import Link
from warren.remote.remote_queue import RemoteQueue


@final
class Links:
    """Those that there are, and the queues of other nodes that this one knows."""

    def __init__(self, turn: Turn, home: Home) -> None:
        self.turn: Turn = turn
        self.admission: Admission = Admission(turn)
        self._home: Home = home
        self._links: dict[str, Link] = {}
        # by home, in the order they came
        self._queues: dict[str, dict[RemoteQueue, None]] = {}
        # of links, one after another, whichever nodes they lead to
        self._runs: i64 = 0
        # this node's to itself
        self._own: Link | None = None

    def open_own(self, node: str) -> None:
        """There is a link to this node itself, for the queues that it shares with others."""
        self._own = self._new_link(node, True)

    def _new_link(self, node: str, own: bool) -> Link:
        self._runs += 1
        link = Link(node, self._runs, self._home, self.turn, self.admission, own)
        self._links[node] = link
        return link

    # -- what the shell tells

    def connected(self, node: str, incarnation: int) -> None:
        """There is a link; what an earlier one carried was lost with it."""
        self.lost(node)
        link = self._new_link(node, False)
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
        """The other node takes less than it is sent."""
        link = self._links.get(node)
        if link is not None:
            link.pause()

    def writes_resumed(self, node: str) -> None:
        link = self._links.get(node)
        if link is not None:
            link.resume()

    def lost(self, node: str) -> None:
        """Everything that went over the link ends; no matter if it ended before."""
        link = self._links.pop(node, None)
        if link is None:
            return
        link.lost()
        for queue in list(self._queues.get(node, {})):
            queue.link_lost()

    def end_turn(self) -> None:
        """What the turn gathered goes out; the last thing of a turn."""
        for link in self._links.values():
            if link is not self._own:
                link.end_turn()
        self.admission.end_turn()

    def own_busy(self) -> bool:
        """Whether this node has something to tell itself."""
        return self._own is not None and self._own.has_output()

    def loop(self) -> None:
        """What this node tells itself is heard at once."""
        own = self._own
        if own is None or not own.has_output():
            return
        try:
            own.loop()
        except PeerFault as fault:
            raise InvariantBroken(f"this node does not understand itself: {fault}") from fault

    # -- what the node wants

    def is_connected(self, node: str) -> bool:
        return node in self._links

    def lent_out(self, queue: QueuePort) -> list[Entry]:
        """What other nodes have of a queue of this one."""
        found: list[Entry] = []
        for link in self._links.values():
            found += link.hosting.lent_of(queue)
        return found

    def nodes(self) -> list[str]:
        """Those there is a link to."""
        return [node for node, link in self._links.items() if link is not self._own]

    def notify(self, node: str, data: bytes) -> bool:
        """Tell another node something that is no business of queues; False if there is no link to it."""
        link = self._links.get(node)
        if link is None:
            return False
        records.write_text(link.output(), records.NOTICE, 0, data)
        return True

    def send_ring(self, node: str, head: bytes, data: bytes) -> bool:
        """Tell another node something about a ring that both are members of; False if there is no link to it."""
        link = self._links.get(node)
        if link is None:
            return False
        if link.overcome():
            self.turn.effects.append(DropPeer(node, "it takes less than the queues that it mirrors are given"))
        elif not link.doomed:
            link.send_ring(head, data)
        return True

    def reply(self, node: str, inbox: str, message: Message) -> None:
        """Carry a direct reply to the node that has the inbox; without a link to it, it goes nowhere."""
        link = self._links.get(node)
        if link is not None:
            link.send_reply(inbox, message)

    # -- queues

    def add(self, queue: RemoteQueue) -> None:
        """A queue of another node is known from here on."""
        self._queues.setdefault(queue.node, {})[queue] = None
        link = self._links.get(queue.node)
        if link is not None:
            queue.linked(link)

    def remove(self, queue: RemoteQueue) -> None:
        self._queues[queue.node].pop(queue, None)
