"""Nodes with links in memory: the test carries the bytes across, in pieces of any size.

Sessions, queues and links are the real ones; which queue lives where is the test's decision. A disk flushes when the
test says so, or by itself.
"""

from collections.abc import Callable

from tests.support.core_driver import Client
from tests.unit.broker.sessions.journalled import JournalledCore
from warren.broker.dead_letters import DeadLetterQueue
from warren.broker.links.host_session import LinkHost
from warren.broker.links.link import NodeLinks
from warren.broker.links.remote_queue import RemoteQueue
from warren.broker.metadata.transaction import TransactionWaiter
from warren.broker.model.effects import DropPeer, Effect, SendToPeer
from warren.broker.model.events import Event, PeerConnected, PeerLost, PeerReceived, PeerWritesPaused, PeerWritesResumed
from warren.broker.model.local_queue import LocalQueue
from warren.broker.model.message import Message
from warren.broker.model.ports import QueuePort
from warren.broker.queues.queue import Queue
from warren.broker.sessions import direct_reply
from warren.broker.sessions import input as session_input
from warren.broker.sessions.connection import Connection
from warren.wire.field_tables import Table

ROUNDS_MAX = 1000


class LinkedCore(JournalledCore):
    """One node of several."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.node.settings.node_name = name
        self.links = NodeLinks(self.node.turn, LocalHome(self))
        self.node.forward_reply = self.links.reply  # type: ignore[method-assign]
        self.dead_letterer = DeadLetterQueue(self.node.turn, name)
        self.sent: list[SendToPeer] = []
        self.dropped: list[DropPeer] = []
        self.notices: list[tuple[str, bytes]] = []

    @property
    def queues(self) -> dict[str, QueuePort]:
        return self.node.only_vhost.topology.queues

    def queue(self, name: str) -> Queue:
        queue = self.queues[name]
        assert isinstance(queue, Queue)
        return queue

    def remote(self, name: str) -> RemoteQueue:
        queue = self.queues[name]
        assert isinstance(queue, RemoteQueue)
        return queue

    def remove_proxy(self, name: str) -> None:
        """Remove the proxy of a deleted queue."""
        queue = self.remote(name)
        self.node.only_vhost.topology.remove_queue(queue)
        queue.close()

    def _begin(self) -> None:
        turn = self.node.turn
        if 0 < self.timer_at_ms <= self.now_ms:
            self.timer_at_ms = 0
        turn.now_ms = self.now_ms
        turn.effects = []
        waiting, turn.inputs = turn.inputs, []
        for one in waiting:
            if isinstance(one, Connection):
                session_input.resume(one)
            else:
                one.go_on()

    def _take(self, event: Event) -> None:
        if isinstance(event, PeerConnected):
            self.links.connected(event.node, event.incarnation)
        elif isinstance(event, PeerReceived):
            self.links.received(event.node, event.data)
        elif isinstance(event, PeerLost):
            self.links.lost(event.node)
        elif isinstance(event, PeerWritesPaused):
            self.links.writes_paused(event.node)
        elif isinstance(event, PeerWritesResumed):
            self.links.writes_resumed(event.node)
        else:
            super()._take(event)

    def _end(self) -> list[Effect]:
        turn = self.node.turn
        turn.fire_timers()
        while turn.drains or self.dead_letterer.waiting():
            self.dead_letterer.publish_slice({"/": self.node.only_vhost}, 1 << 20)
            drains, turn.drains = turn.drains, []
            for queue in drains:
                queue.drain()
        turn.fold_counters()
        outputs, turn.outputs = turn.outputs, []
        for output in outputs:
            output.flush()
        self.links.end_turn()
        waiters, turn.flush_waiters = turn.flush_waiters, []
        if waiters:
            self.batches.append(waiters)
        self.timer_at_ms = self.now_ms if turn.drains or turn.inputs else turn.next_timer_ms()
        for effect in turn.effects:
            self._carry_out(effect)
        return turn.effects

    def _carry_out(self, effect: Effect) -> None:
        if isinstance(effect, SendToPeer):
            self.sent.append(effect)
        elif isinstance(effect, DropPeer):
            self.dropped.append(effect)
        else:
            super()._carry_out(effect)


class LocalHome(LinkHost):
    """Answers other nodes for one."""

    def __init__(self, core: LinkedCore) -> None:
        self._core = core

    def find_queue(self, vhost: str, name: str, queue_id: int) -> QueuePort | None:
        queue = self._core.queues.get(name)
        return queue if isinstance(queue, LocalQueue) else None

    def remove_queue(self, queue: QueuePort, waiter: TransactionWaiter) -> None:
        self._core.node.only_vhost.delete_checked_queue(queue, waiter)

    def reply_arrived(self, inbox: str, message: Message) -> None:
        direct_reply.deliver_reply(self._core.node, inbox, message)

    def notice_arrived(self, node: str, data: bytes) -> None:
        self._core.notices.append((node, data))


def whole(data: bytes) -> list[bytes]:
    return [data]


class Together:
    """Nodes, all of them linked to one another."""

    def __init__(self, *names: str, cut: Callable[[bytes], list[bytes]] = whole, flushes: bool = True) -> None:
        self.cores = {name: LinkedCore(name) for name in names}
        self._cut = cut
        # disks flush by themselves
        self.flushes = flushes
        self._linked: set[frozenset[str]] = set()
        for one in names:
            for other in names:
                if one < other:
                    self.link(one, other)

    def __getitem__(self, name: str) -> LinkedCore:
        return self.cores[name]

    def link(self, one: str, other: str) -> None:
        self._linked.add(frozenset((one, other)))
        self.cores[one].turn(PeerConnected(other, 1))
        self.cores[other].turn(PeerConnected(one, 1))

    def cut_link(self, one: str, other: str) -> None:
        """Lose the bytes in transit, and report the loss to both ends."""
        self._linked.discard(frozenset((one, other)))
        for near, far in ((one, other), (other, one)):
            self.cores[near].sent = [effect for effect in self.cores[near].sent if effect.node != far]
            self.cores[near].turn(PeerLost(far, "cut", False))

    def settle(self) -> None:
        """Carry everything across, and let disks flush, until nothing is left to do."""
        for _ in range(ROUNDS_MAX):
            if not self.step():
                return
        raise AssertionError("the nodes never become idle")

    def step(self) -> bool:
        """One round of all; whether anything moved."""
        moved = False
        for core in self.cores.values():
            for effect in core.sent[:]:
                core.sent.remove(effect)
                moved = True
                self._carry(core.name, effect)
            if 0 < core.timer_at_ms <= core.now_ms:
                core.turn()
                moved = True
            if self.flushes and core.batches:
                core.flush()
                moved = True
        return moved

    def _carry(self, name: str, effect: SendToPeer) -> None:
        if frozenset((name, effect.node)) in self._linked:
            for piece in self._cut(effect.data):
                self.cores[effect.node].turn(PeerReceived(name, piece))

    def place(self, name: str, home: str, arguments: Table | None = None, **flags: bool) -> Queue:
        """A queue at its home, and a proxy of it on every other node."""
        self.cores[home].client().declare(name, arguments, **flags)
        queue = self.cores[home].queue(name)
        for core in self.cores.values():
            if core.name != home:
                self.add_proxy(core.name, queue, home)
        return queue

    def add_proxy(self, node: str, queue: QueuePort, home: str) -> RemoteQueue:
        core = self.cores[node]
        remote = RemoteQueue(
            queue.vhost,
            queue.name,
            queue.durable,
            queue.exclusive,
            queue.auto_delete,
            queue.arguments,
            home,
            0,
            core.links,
        )
        core.node.only_vhost.topology.add_queue(remote)
        return remote

    def client(self, node: str, channels: int = 1) -> Client:
        return self.cores[node].client(channels=channels)
