"""All replicas of this node: it creates and drops them, and passes on definitions, messages, and changes of nodes.

A mirror may learn of an epoch before its new master does, and ask to join too early. Such a request is kept until this
node is that master, or the link is lost.

**Shutdown.** A node that is stopped by an operator first hands its masters over, so that clients of other nodes notice
only a short pause (`broker.replication.placement` chooses the successors). The node may stop when it has no master left
that could be handed over, and has followed its successors as a mirror for a moment, which tells them that it no longer
delivers; or after `HANDOVER_TIMEOUT_MS`.

Not here: one replica (`broker.replication.local_replica`), the links (`broker.links.link`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.broker.journal.queue_index import QueueIndex
from warren.broker.links.link import NodeLinks
from warren.broker.membership import ClusterMembership
from warren.broker.metadata.shared_backend import SharedMetadataBackend
from warren.broker.metadata.topology_definitions import QueueDefinition
from warren.broker.model.local_queue import LocalQueue
from warren.broker.model.master_port import MasterWaiter
from warren.broker.model.names import NameGenerator
from warren.broker.model.ports import QueueLogs, QueuePort
from warren.broker.model.replica_contents import ReplicaContents
from warren.broker.model.turn import TimerTarget, Turn
from warren.broker.replication import messages
from warren.broker.replication.adoption import QueueAdoption, forward_to_proxy
from warren.broker.replication.context import ReplicationContext
from warren.broker.replication.delivery_lease import Heartbeat
from warren.broker.replication.local_replica import LocalReplica, ReplicaOwner
from warren.broker.replication.master_replica import MasterReplica
from warren.broker.replication.messages import ReplicationMessageReader
from warren.broker.replication.mirror import MirrorJoinRequest
from warren.broker.replication.mirrored_log import max_priority_of
from warren.broker.replication.mirroring_policy import MirroringPolicies
from warren.broker.replication.peers import PeerIncarnations
from warren.broker.replication.placement import ReplicaPlacement
from warren.broker.replication.replica_history import ReplicaHistory
from warren.broker.replication.replica_queues import ReplicaQueues
from warren.broker.replication.sync_throttle import SyncThrottle
from warren.broker.storage import Storage
from warren.broker.streams.files import StreamFiles
from warren.broker.vhost import Vhost
from warren.errors import InvariantBroken

HANDOVER_TIMEOUT_MS: Final[i64] = 3_000
"""How long a stopping node tries to hand over."""

HANDOVER_LINGER_MS: Final[i64] = 50
"""How long a stopping node stays when it has handed over."""


@final
class ShutdownHandover(TimerTarget):
    """Hands over the masters of a node that is about to stop."""

    def __init__(self, replica_sets: "ReplicaSets") -> None:
        self._replica_sets: ReplicaSets = replica_sets
        self._begun: bool = False
        self._until_ms: i64 = 0
        self._lingering: bool = False

    def begin(self) -> None:
        self._begun = True
        self._wait(HANDOVER_TIMEOUT_MS)
        self._replica_sets.placement.stopping = True
        for replica in self._replica_sets.replicas():
            if replica.master_replica is not None:
                replica.master_replica.apply_policies()

    def over(self) -> bool:
        """Whether the node may stop; True if no handover was begun."""
        if not self._begun or self._replica_sets.turn.now_ms >= self._until_ms:
            return True
        if not self._lingering and not self._any_to_hand_over():
            self._lingering = True
            self._wait(HANDOVER_LINGER_MS)
        return False

    def _any_to_hand_over(self) -> bool:
        placement = self._replica_sets.placement
        return any(
            replica.master_replica is not None and placement.successor(replica.definition, replica.replica_set)
            for replica in self._replica_sets.replicas()
        )

    def _wait(self, for_ms: i64) -> None:
        turn = self._replica_sets.turn
        self._until_ms = turn.now_ms + for_ms
        turn.set_timer(self._until_ms, self)

    def timer_fired(self) -> None:
        """The timer only makes a turn: `over` is asked at its end."""


REOPEN_RETRY_MS: Final[i64] = 200


@final
class ReplicaSets(TimerTarget, ReplicaOwner):
    """The replicas of one node."""

    def __init__(
        self,
        turn: Turn,
        membership: ClusterMembership,
        backend: SharedMetadataBackend,
        links: NodeLinks,
        vhosts: dict[str, Vhost],
        storage: Storage,
        mirroring_policies: MirroringPolicies,
        names: NameGenerator,
        throttle: SyncThrottle,
    ) -> None:
        self.turn: Turn = turn
        peers = PeerIncarnations(membership)
        self.placement: ReplicaPlacement = ReplicaPlacement(peers, mirroring_policies, names)
        queues = ReplicaQueues(membership.own, vhosts, links, storage.streams, turn)
        context = ReplicationContext(turn, links, backend, peers, queues, mirroring_policies, self.placement, throttle)
        self.shutdown_handover: ShutdownHandover = ShutdownHandover(self)
        self._context: ReplicationContext = context
        self._peers: PeerIncarnations = peers
        self._queues: ReplicaQueues = queues
        self._heartbeat: Heartbeat = context.heartbeat
        self._adoption: QueueAdoption = QueueAdoption(context, vhosts)
        self._logs: QueueLogs = storage.journal
        self._streams: StreamFiles = storage.streams
        self._replicas: dict[int, LocalReplica] = {}
        # mirrors that received messages in this turn
        self._mirrors_moved: dict[LocalReplica, None] = {}
        self._early_joins: dict[int, dict[str, tuple[int, int, MirrorJoinRequest]]] = {}
        # by queue id: waiters for the queue to open here, with their node and its incarnation
        self._master_waiters: dict[int, list[tuple[MasterWaiter, str, int]]] = {}
        self._started: bool = False
        # replicas with a new definition that they have not acted on, and replicas that are not prepared
        self._changed: dict[LocalReplica, QueueDefinition] = {}
        self._unprepared: list[LocalReplica] = []
        # queues that this node held before, whose old messages are not gone from the journal yet
        self._postponed: dict[int, tuple[QueueDefinition, ReplicaHistory]] = {}

    # -- definitions

    def put(self, definition: QueueDefinition, queue_id: int) -> None:
        """A mirrored queue was declared, or its replica set changed."""
        replica = self._replicas.get(queue_id)
        replica_set = definition.replica_set
        assert replica_set is not None, "it is mirrored"
        if self._peers.own[0] not in replica_set.members:
            self._postponed.pop(queue_id, None)
            self._streams.drop(queue_id)
            if replica is not None:
                self._drop(replica)
                self._logs.forget_past(queue_id)
        elif replica is not None:
            self._changed[replica] = definition
            replica.is_outdated = True
        else:
            self._open_replica(definition, queue_id, self._postponed.pop(queue_id, (definition, ReplicaHistory()))[1])

    def adopt(self, definition: QueueDefinition, queue: LocalQueue, proxy: QueuePort) -> None:
        """A queue of this node becomes mirrored; this node is its master."""
        queue_index = queue.log()
        assert isinstance(queue_index, QueueIndex), "this node's journal has it"
        contents = self._queues.adopted_contents(definition, queue, queue_index)
        replica = self._add_replica(definition, queue.queue_id, queue_index, contents, ReplicaHistory())
        replica.adopt(queue)
        forward_to_proxy(queue, proxy)
        self._unprepared.append(replica)

    def act(self) -> None:
        """All definitions of this event are applied: replicas may act on them, and propose."""
        if not self._started:
            return
        changed, self._changed = self._changed, {}
        for replica, definition in changed.items():
            replica.changed(definition)
        replicas, self._unprepared = self._unprepared, []
        for replica in replicas:
            replica.prepare()
        self._adoption.act()

    def delete(self, queue_id: int) -> None:
        """The queue was deleted."""
        self._postponed.pop(queue_id, None)
        self._early_joins.pop(queue_id, None)
        replica = self._replicas.get(queue_id)
        if replica is not None:
            self._drop(replica)

    def replicas(self) -> list[LocalReplica]:
        return list(self._replicas.values())

    def named(self, vhost: str, name: str) -> LocalReplica | None:
        """This node's replica of a queue."""
        queue_id = self._queues.id_of(vhost, name)
        return None if queue_id is None else self._replicas.get(queue_id)

    def master_of(self, queue_id: int) -> MasterReplica | None:
        """The master of the queue, if it is on this node."""
        replica = self._replicas.get(queue_id)
        return None if replica is None else replica.master_replica

    def begin(self) -> None:
        """The node has started: replicas may act."""
        self._started = True
        self._adoption.request_check()
        self.act()

    def _open_replica(self, definition: QueueDefinition, queue_id: int, history: ReplicaHistory) -> None:
        if not self._logs.may_open(queue_id):
            self._postponed[queue_id] = (definition, history)
            self.turn.set_timer(self.turn.now_ms + REOPEN_RETRY_MS, self)
            return
        log_id = queue_id if definition.durable else -abs(queue_id)
        queue_index = self._logs.open(log_id, definition.durable, max_priority_of(definition.arguments))
        assert isinstance(queue_index, QueueIndex), "this node's journal has it"
        contents = self._queues.contents(definition, queue_id, queue_index)
        self._unprepared.append(self._add_replica(definition, queue_id, queue_index, contents, history))

    def _add_replica(
        self,
        definition: QueueDefinition,
        queue_id: int,
        queue_index: QueueIndex,
        contents: ReplicaContents,
        history: ReplicaHistory,
    ) -> LocalReplica:
        replica = LocalReplica(self._context, self, definition, queue_id, queue_index, contents)
        replica.history = history
        self._replicas[queue_id] = replica
        return replica

    def timer_fired(self) -> None:
        """Try again to open replicas of queues that this node held before."""
        postponed, self._postponed = self._postponed, {}
        for queue_id, (definition, history) in postponed.items():
            self._open_replica(definition, queue_id, history)
        self.act()

    def replace_empty(self, replica: LocalReplica) -> None:
        self._drop(replica)
        self._logs.forget_past(replica.queue_id)
        self._open_replica(replica.definition, replica.queue_id, replica.history)
        self.act()

    def _drop(self, replica: LocalReplica) -> None:
        if replica.master_replica is not None:
            self._queues.close(replica.definition)
        del self._replicas[replica.queue_id]
        self._changed.pop(replica, None)
        self._unprepared = [one for one in self._unprepared if one is not replica]
        replica.close()

    # -- nodes

    def peer_connected(self, node: str, incarnation: int) -> None:
        self._peers.connected(node, incarnation)
        for replica in list(self._replicas.values()):
            if replica.master_replica is None:
                replica.act()
            else:
                replica.master_replica.apply_policies()

    def peer_lost(self, node: str, refused: bool) -> None:
        self._peers.lost(node, refused)
        self._heartbeat.lost(node)
        for queue_id in [one for one, early in self._early_joins.items() if node in early]:
            self._early_joins[queue_id].pop(node)
            if not self._early_joins[queue_id]:
                del self._early_joins[queue_id]
        for replica in list(self._replicas.values()):
            if replica.master_replica is not None:
                replica.master_replica.lost(node)
                replica.master_replica.delivery_lease.update()
                replica.master_replica.apply_policies()
            elif replica.replica_set.master == node:
                replica.master_lost(refused)

    def liveness_changed(self) -> None:
        for replica in list(self._replicas.values()):
            if replica.master_replica is None:
                replica.act()
            else:
                replica.master_replica.delivery_lease.update()
                replica.master_replica.apply_policies()

    def rejoin_masters(self) -> None:
        """Have every mirror that is not in sync ask its master again.

        A node that got a snapshot of the metadata may have missed that it was removed from a replica set and added
        again. Its master no longer counts it as a follower then.
        """
        for replica in self.replicas():
            replica.rejoin()

    # -- messages

    def received(self, node: str, data: bytes, start: i64, end: i64) -> None:
        reader = ReplicationMessageReader(data, start, end)
        if reader.kind == messages.HEARTBEAT:
            self._heartbeat.request_received(node, reader.word())
            return
        if reader.kind == messages.HEARTBEAT_REPLY:
            self._heartbeat.reply_received(node, reader.word())
            self._update_leases(node)
            return
        replica = self._replicas.get(reader.queue_id)
        if messages.is_from_mirror(reader.kind):
            self._from_mirror(node, replica, reader)
        elif replica is not None and replica.master_replica is None and replica.receive(node, reader):
            self._mirrors_moved[replica] = None

    def _from_mirror(self, node: str, replica: LocalReplica | None, reader: ReplicationMessageReader) -> None:
        master_replica = None if replica is None else replica.master_replica
        if reader.kind == messages.JOIN:
            self._join(node, master_replica, reader)
        elif master_replica is not None:
            master_replica.receive(node, reader)

    def _join(self, node: str, master_replica: MasterReplica | None, reader: ReplicationMessageReader) -> None:
        request = reader.join()
        incarnation = self._peers.reached(node)
        epoch = 0 if master_replica is None else master_replica.master.replica_set.epoch
        if master_replica is not None and epoch == request.epoch:
            master_replica.joined(node, incarnation, reader.tag, request)
        elif epoch < request.epoch:
            self._early_joins.setdefault(reader.queue_id, {})[node] = (incarnation, reader.tag, request)

    def promoted(self, replica: LocalReplica) -> None:
        """Answer mirrors that asked too early, and waiters for the queue."""
        master_replica = replica.master_replica
        assert master_replica is not None
        for node, (incarnation, tag, request) in self._early_joins.pop(replica.queue_id, {}).items():
            if request.epoch == replica.replica_set.epoch and self._peers.reached(node) == incarnation:
                master_replica.joined(node, incarnation, tag, request)
        for waiter, node, incarnation in self._master_waiters.pop(replica.queue_id, []):
            master_replica.await_open(waiter, node, incarnation)
        master_replica.apply_policies()
        # linear in uncommitted batches: a master that inherited a broken state must not commit it
        master_replica.check()

    # -- delivery leases

    def _watch_counted_members(self) -> None:
        self._context.counted_changed = False
        partners: dict[str, None] = {}
        for replica in self._replicas.values():
            if replica.master_replica is not None:
                for name, _incarnation in replica.master_replica.master.counted():
                    partners[name] = None
        partners.pop(self._peers.own[0], None)
        self._heartbeat.watch(list(partners))

    def _update_leases(self, node: str) -> None:
        for replica in self._replicas.values():
            if replica.master_replica is not None and node in replica.master_replica.master.followers:
                replica.master_replica.delivery_lease.update()

    # -- the turn

    def waiting(self) -> bool:
        context = self._context
        gathered = len(context.touched) > 0 or len(self._mirrors_moved) > 0 or context.proposals.waiting()
        return gathered or context.counted_changed

    def end_round(self) -> None:
        """Masters make their batches, mirrors report progress, and proposals are submitted."""
        context = self._context
        if context.counted_changed:
            self._watch_counted_members()
        touched, context.touched = context.touched, []
        for master_replica in touched:
            master_replica.end_round()
        mirrors, self._mirrors_moved = self._mirrors_moved, {}
        for replica in mirrors:
            replica.mirror.end_turn()
        context.proposals.make()

    def check(self) -> None:
        """Raise `InvariantBroken` if an invariant of a replica does not hold. Linear in the contents of all."""
        for queue_id, replica in self._replicas.items():
            if replica.closed or replica.queue_id != queue_id or queue_id in self._postponed:
                raise InvariantBroken(f"queue {queue_id} has a replica that is closed or is still to be opened")
            replica.check()
        self._peers.check()
        self._heartbeat.check()

    # -- queues

    def await_master(self, queue_id: int, node: str, waiter: MasterWaiter) -> None:
        """Call the waiter, which represents a node, when the queue opens here."""
        incarnation = self._peers.reached_or_own(node)
        replica = self._replicas.get(queue_id)
        if replica is not None and replica.master_replica is not None:
            replica.master_replica.await_open(waiter, node, incarnation)
        else:
            self._master_waiters.setdefault(queue_id, []).append((waiter, node, incarnation))

    def forget_master(self, queue_id: int, waiter: MasterWaiter) -> None:
        waiting = self._master_waiters.pop(queue_id, [])
        left = [one for one in waiting if one[0] is not waiter]
        if left:
            self._master_waiters[queue_id] = left
        replica = self._replicas.get(queue_id)
        if replica is not None and replica.master_replica is not None:
            replica.master_replica.forget(waiter)

    def policies_changed(self, vhost: str) -> None:
        self._adoption.request_check()
        for replica in self._replicas.values():
            if replica.definition.vhost == vhost:
                replica.policies_changed()
