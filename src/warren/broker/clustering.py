"""A node's part in a cluster: what it agrees upon with others, whom it reaches, whose queues it knows.

::

    the store's events ──► SharedAgreement ──► appliers: members, access, policies, topology
    links' events ───────► Membership, remote Links ──► queues of other nodes
    end of the turn ─────► how far this node has come, told to everybody; the links' bytes; who is a member

**Who is dead.** Three things say that a run of another node may be over, and they are believed as far as it costs
nothing to be wrong:

- *Its link is lost.* It is not reached, and nothing more: what was on the link is given up, its queues are unavailable.
- *Its port refuses connections.* Mostly the process is gone; but a firewall may refuse in its name. Nobody waits for it
  when definitions change (`broker.sharing.progress`), which only saves time.
- *The store says that it does not live*, or that another run of it does. Only then is done what cannot be undone: its
  transient queues are deleted (`broker.sharing.leftovers`). A node that is killed is said to live for five seconds
  more. A node that lives and is cut off from the store alone learns that it has lost its life (`broker.membership`).

A queue of another node is a `RemoteQueue` here. So is one that lived here in an earlier run and should not have
outlived it: nobody reaches it, until it is cleared away with its bindings.

Not here: agreeing (`broker.shared_agreement`), clearing up (`broker.sharing.leftovers`), what goes over a link
(`remote.links`), how a node becomes part of a cluster (`node.cluster`).
"""

from abc import abstractmethod
from typing import final

from mypy_extensions import i64, trait

from warren.broker.access.headcounts import Headcounts
from warren.broker.applying import Appliers
from warren.broker.membership import LifeWatcher, Membership
from warren.broker.mirrors.catching_up import SyncPace
from warren.broker.mirrors.checked_removal import CheckedRemoval
from warren.broker.mirrors.rings import Rings
from warren.broker.mirrors.upstream import ask_anew
from warren.broker.mirrors.wishes import Wishes
from warren.broker.names import FreshNames
from warren.broker.shared_agreement import SharedAgreement
from warren.broker.sharing.leftovers import Leftovers
from warren.broker.sharing.notices import Notices
from warren.broker.sharing.placing import PlacingAgreement, QueuePlacer
from warren.broker.storage import Storage
from warren.broker.vhost import Vhost
from warren.broker.vhost_ports import Whereabouts
from warren.cluster.partitions import CHECK_EVERY_MS, PAUSE, RESTART, RESUME, PartitionHandling
from warren.cluster.suspicion import PARTED_AFTER_MS
from warren.model.effects import KeepMembers, StartAnew
from warren.model.events import (
    Decided,
    DefinitionsChanged,
    DefinitionsCurrent,
    DefinitionsReplaced,
    Event,
    PeerConnected,
    PeerLost,
    PeerReceived,
    PeerWritesPaused,
    PeerWritesResumed,
    SharedSnapshot,
)
from warren.model.message import Message
from warren.model.mirrored import MasterWaiter
from warren.model.own_queue import OwnQueue
from warren.model.ports import QueuePort
from warren.model.rings import Ring
from warren.model.turn import Timed, Turn
from warren.policy.policies import Policies
from warren.remote.hosting import Home
from warren.remote.links import Links
from warren.remote.remote_queue import RemoteQueue
from warren.remote.seat import Seat
from warren.remote.stand_in import StandIn
from warren.session import direct_reply
from warren.session.ports import NodePort
from warren.store.plan import AgreementWaiter
from warren.store.topology_definitions import QueueDefinition


@trait
class Service:
    """A node's service to its clients."""

    @abstractmethod
    def pause(self) -> None:
        """Serve nobody until `resume`: the node is cut off from too many others."""

    @abstractmethod
    def resume(self) -> None: ...


@final
class Clustering(Home, Whereabouts, LifeWatcher, Timed):
    """One node's, in one run."""

    def __init__(
        self,
        node: NodePort,
        service: Service,
        incarnation: int,
        handling: PartitionHandling,
        appliers: Appliers,
        vhosts: dict[str, Vhost],
        policies: Policies,
        names: FreshNames,
        headcounts: Headcounts,
        storage: Storage | None,
    ) -> None:
        """Without a disk there are no mirrored queues."""
        turn = node.turn
        self._node: NodePort = node
        self._service: Service = service
        self._turn: Turn = turn
        self._vhosts: dict[str, Vhost] = vhosts
        self._members_told: int = 0
        self._left: bool = False
        own = node.settings.node_name
        self.membership: Membership = Membership(own, incarnation, handling, turn)
        appliers.add(self.membership)
        self.shared: SharedAgreement = SharedAgreement(turn, appliers)
        homes = self.shared.homes
        setting = node.settings.queue_master_locator
        placer = QueuePlacer(setting, self.membership, homes, policies, names)
        self.leftovers: Leftovers = Leftovers(turn, self.shared, self.membership, homes, vhosts)
        self.membership.watcher = self
        self.links: Links = Links(turn, self)
        self.rings: Rings | None = None
        if storage is not None:
            self.links.open_own(own)
            wishes = Wishes(policies, vhosts, node.settings.sync_batch_count)
            pace = SyncPace(node.settings.sync_bytes_per_s)
            self.rings = Rings(turn, self.membership, self.shared, self.links, vhosts, storage, wishes, names, pace)
        self.agreement: PlacingAgreement = PlacingAgreement(turn, self.shared, placer, self.rings)
        self.notices: Notices = Notices(self.links, self.shared, headcounts)
        turn.set_timer(turn.now_ms + CHECK_EVERY_MS, self)

    def adopt(self, revision: int, snapshot: SharedSnapshot) -> None:
        """All of this is made: the node was started with it."""
        self.shared.adopt(revision, snapshot)
        self.leftovers.node_started()
        if self.rings is not None:
            self.rings.begin()

    # -- what happens

    def take(self, event: Event) -> None:
        if isinstance(event, PeerReceived):
            self.links.received(event.node, event.data)
        elif isinstance(event, PeerConnected):
            if not self._left:
                self._peer_connected(event)
        elif isinstance(event, PeerLost):
            self._peer_lost(event)
        elif isinstance(event, PeerWritesPaused):
            self.links.writes_paused(event.node)
        elif isinstance(event, PeerWritesResumed):
            self.links.writes_resumed(event.node)
        elif isinstance(event, Decided):
            self.shared.decided(event)
        elif isinstance(event, DefinitionsChanged):
            self.shared.changed(event)
            self._let_rings_act()
        elif isinstance(event, DefinitionsReplaced):
            self.shared.replaced(event)
            self._let_rings_act()
            if self.rings is not None:
                ask_anew(self.rings)
        elif isinstance(event, DefinitionsCurrent):
            self.shared.current(event)

    def _peer_connected(self, event: PeerConnected) -> None:
        self.links.connected(event.node, event.incarnation)
        self.membership.peer_connected(event.node, event.incarnation)
        self.shared.peer_connected(event.node, event.incarnation)
        self.notices.peer_connected(event.node)
        if self.rings is not None:
            self.rings.peer_connected(event.node, event.incarnation)
        self._look()

    def _peer_lost(self, event: PeerLost) -> None:
        self.links.lost(event.node)
        self.membership.peer_lost(event.node)
        self.shared.peer_lost(event.node)
        self.notices.peer_lost(event.node)
        if event.refused:
            self.shared.peer_over(event.node)
        else:
            self._look_at_lost_runs()
        if self.rings is not None:
            self.rings.peer_lost(event.node, event.refused)
        self._look()

    def lives_changed(self) -> None:
        self._look_at_lost_runs()
        self.leftovers.lives_changed()
        if self.rings is not None:
            self.rings.lives_changed()

    def _look_at_lost_runs(self) -> None:
        members, now_ms = self.membership.members, int(self._turn.now_ms)
        for node, incarnation, lost_ms in self.shared.lost_runs():
            # one that never said that it lives does not say that it is dead
            silent = members.incarnation(node) is None and now_ms - lost_ms >= PARTED_AFTER_MS
            if silent or self.membership.has_ended(node, incarnation):
                self.shared.peer_over(node)

    # -- partitions

    def timer_fired(self) -> None:
        if self._left:
            return
        self._turn.set_timer(self._turn.now_ms + CHECK_EVERY_MS, self)
        self._look_at_lost_runs()
        self._look()
        self.leftovers.look()

    def _look(self) -> None:
        if self._left:
            return
        decision = self.membership.look(not self.shared.is_stale(int(self._turn.now_ms)))
        if decision == PAUSE:
            self._service.pause()
        elif decision == RESUME:
            self._service.resume()
        elif decision == RESTART:
            self._turn.note("warning", "node.outlived", {})
            self._turn.effects.append(StartAnew())

    def retreat(self) -> None:
        """The node is to stop: it looks for others to be masters of its queues."""
        if self.rings is not None:
            self.rings.retreating.begin()

    def may_leave(self) -> bool:
        return self.rings is None or self.rings.retreating.over()

    def leave(self) -> None:
        """The node stops, or stays alone after all: from here on it takes and lends nothing over links, so what goes to
        its disk stays true."""
        self._left = True
        for node in self.links.nodes():
            self.links.lost(node)

    def end_turn(self) -> None:
        """The last thing of a turn."""
        self.notices.end_turn()
        members = self.membership.members
        if members.version != self._members_told:
            self._members_told = members.version
            found = [members.get(name) for name in members.names()]
            self._turn.effects.append(
                KeepMembers([(one.name, one.peer, one.store) for one in found if one is not None])
            )
        self.links.end_turn()

    # -- rings

    def _let_rings_act(self) -> None:
        if self.rings is not None:
            self.rings.act()

    def busy(self) -> bool:
        """Whether something was gathered that becomes part of this turn."""
        return self.rings is not None and (self.rings.waiting() or self.links.own_busy())

    def end_round(self) -> None:
        self.links.loop()
        if self.rings is not None:
            self.rings.end_round()

    def ring_arrived(self, node: str, data: bytes, start: i64, end: i64) -> None:
        if self.rings is not None:
            self.rings.arrived(node, data, start, end)

    def await_master(self, queue_id: int, node: str, waiter: MasterWaiter) -> None:
        if self.rings is not None:
            self.rings.await_master(queue_id, node, waiter)

    def forget_master(self, queue_id: int, waiter: MasterWaiter) -> None:
        if self.rings is not None:
            self.rings.forget_master(queue_id, waiter)

    def policies_changed(self, vhost: str) -> None:
        if self.rings is not None:
            self.rings.policies_changed(vhost)

    # -- where queues live

    def elsewhere(self, definition: QueueDefinition, queue_id: int) -> QueuePort | None:
        membership = self.membership
        if definition.ring is not None and self.rings is not None:
            self.rings.put(definition, queue_id)
            return self._new_seat(definition, queue_id)
        if definition.node == membership.own and definition.incarnation in (0, membership.incarnation):
            return None
        return RemoteQueue(
            definition.vhost,
            definition.name,
            definition.durable,
            definition.exclusive,
            definition.auto_delete,
            definition.arguments,
            definition.node,
            queue_id,
            self.links,
        )

    def changed(self, queue: QueuePort, definition: QueueDefinition) -> None:
        if definition.ring is not None and self.rings is not None:
            if not isinstance(queue, Seat):
                self._seat_in_place_of(queue, definition, self.rings)
                return
            self.rings.put(definition, queue.queue_id)
        # one that lives here alone stays: nobody moves the queues of a node that runs
        if isinstance(queue, StandIn):
            before, queue.ring = queue.ring, definition.ring
            if queue.node != definition.node or _is_master_again(before, definition.ring):
                queue.rehome(definition.node)

    def _new_seat(self, definition: QueueDefinition, queue_id: int) -> Seat:
        seat = Seat(
            definition.vhost,
            definition.name,
            definition.durable,
            definition.auto_delete,
            definition.arguments,
            definition.node,
            queue_id,
            self.links,
        )
        seat.ring = definition.ring
        return seat

    def _seat_in_place_of(self, queue: QueuePort, definition: QueueDefinition, rings: Rings) -> None:
        """A queue that one node had is mirrored from here on."""
        seat = self._new_seat(definition, queue.queue_id)
        # whoever uses what was there before goes on to, and both are counted together
        seat.counted = queue.counted
        self._vhosts[definition.vhost].bindings.replace_queue(queue, seat)
        if isinstance(queue, OwnQueue):
            rings.adopt(definition, queue, seat)
        elif isinstance(queue, RemoteQueue):
            rings.put(definition, queue.queue_id)
            seat.predecessor = queue
            queue.successor = seat

    def forget(self, queue: QueuePort) -> None:
        assert isinstance(queue, StandIn), "it stands in for the queue"
        queue.close()
        if self.rings is not None:
            self.rings.delete(queue.queue_id)

    # -- this node as the others see it

    def find_queue(self, vhost: str, name: str, queue_id: int) -> QueuePort | None:
        found = self._vhosts.get(vhost)
        queue = None if found is None else found.own_queue(name)
        return None if queue is None or (queue_id != 0 and queue.queue_id != queue_id) else queue

    def remove_queue(self, queue: QueuePort, waiter: AgreementWaiter) -> None:
        mastery = None if self.rings is None else self.rings.mastery_of(queue.queue_id)
        if mastery is None:
            self._vhosts[queue.vhost].delete_checked_queue(queue, waiter)
        else:
            self._vhosts[queue.vhost].delete_mirrored_queue(queue.name, CheckedRemoval(mastery, waiter, self._turn))

    def reply_arrived(self, inbox: str, message: Message) -> None:
        direct_reply.deliver_reply(self._node, inbox, message)

    def notice_arrived(self, node: str, data: bytes) -> None:
        self.notices.arrived(node, data)


def _is_master_again(before: Ring | None, ring: Ring | None) -> bool:
    """Whether a run was master, was not, and is again; another run of its node comes over another link anyway."""
    if before is None or ring is None:
        return False
    return before.epoch != ring.epoch and before.master_run == ring.master_run
