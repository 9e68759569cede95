"""A node as a member of a cluster: events of the metadata store and of links, the homes of queues, and partitions.

::

    the store's events ──► SharedMetadataBackend ──► appliers: membership, access, policies, topology
    links' events ───────► ClusterMembership, NodeLinks ──► queues of other nodes
    end of the turn ─────► the applied revision to all nodes; the links' bytes; the members, if they changed

**Which nodes are dead.** Three signs say that an incarnation of another node may have ended. Each is believed as far as
a mistake is harmless:

- *Its link is lost.* The node is not reached, and nothing more: the link's deliveries are given up, and its queues are
  unavailable.
- *Its port refuses connections.* Mostly the process is gone, but a firewall may refuse in its name. Metadata changes
  do not wait for the node (`broker.metadata.shared_backend`), which only saves time.
- *The store says that it is not alive*, or that another incarnation is. Only then is its state deleted: its transient
  queues (`broker.cluster.orphaned_queues`). The lease of a killed node lasts for five more seconds. A node that runs
  but is cut off from the store learns that its lease has ended (`broker.membership`).

A queue of another node is a `RemoteQueue` here. So is a transient queue of an earlier incarnation of this node: it is
unreachable until it is deleted with its bindings.

Not here: metadata transactions (`broker.metadata.shared_backend`), orphaned queues (`broker.cluster.orphaned_queues`),
the protocol of links (`broker.links.link`), how a node joins (`broker.cluster.join`, `node.cluster`).
"""

from abc import abstractmethod
from typing import final

from mypy_extensions import i64, trait

from warren.broker.cluster.orphaned_queues import OrphanedQueues
from warren.broker.cluster.peer_notices import ClusterCounts, PeerNotices
from warren.broker.cluster.placement import PlacingMetadataBackend, QueuePlacer
from warren.broker.links.host_session import LinkHost
from warren.broker.links.link import NodeLinks
from warren.broker.links.mirrored_queue_proxy import MirroredQueueProxy
from warren.broker.links.queue_proxy import QueueProxy
from warren.broker.links.remote_queue import RemoteQueue
from warren.broker.membership import PARTITIONED_AFTER_MS, ClusterMembership, LivenessListener
from warren.broker.metadata.backend import MetadataAppliers
from warren.broker.metadata.shared_backend import SharedMetadataBackend
from warren.broker.metadata.topology_definitions import QueueDefinition
from warren.broker.metadata.transaction import TransactionWaiter
from warren.broker.model.effects import RestartNode, SaveMembers
from warren.broker.model.events import (
    DefinitionsChanged,
    DefinitionsCurrent,
    DefinitionsReplaced,
    Event,
    MetadataSnapshot,
    PeerConnected,
    PeerLost,
    PeerReceived,
    PeerWritesPaused,
    PeerWritesResumed,
    TransactionDecided,
)
from warren.broker.model.local_queue import LocalQueue
from warren.broker.model.master_port import MasterWaiter
from warren.broker.model.message import Message
from warren.broker.model.names import NameGenerator
from warren.broker.model.ports import QueuePort
from warren.broker.model.replica_set import ReplicaSet
from warren.broker.model.turn import TimerTarget, Turn
from warren.broker.network_partitions import CHECK_EVERY_MS, PAUSE, RESTART, RESUME, PartitionHandling
from warren.broker.policies.policies import Policies
from warren.broker.replication.master_replica import MirroredQueueDelete
from warren.broker.replication.mirroring_policy import MirroringPolicies
from warren.broker.replication.replica_sets import ReplicaSets
from warren.broker.replication.sync_throttle import SyncThrottle
from warren.broker.sessions import direct_reply
from warren.broker.sessions.ports import NodePort
from warren.broker.storage import Storage
from warren.broker.vhost import QueueLocations, Vhost


@trait
class ClientService:
    """A node's service to its clients."""

    @abstractmethod
    def pause(self) -> None:
        """Close all client connections until `resume`: the node is cut off from too many others."""

    @abstractmethod
    def resume(self) -> None: ...


@final
class ClusterNode(LinkHost, QueueLocations, LivenessListener, TimerTarget):
    """This node as a member, in one incarnation."""

    def __init__(
        self,
        node: NodePort,
        service: ClientService,
        incarnation: int,
        handling: PartitionHandling,
        appliers: MetadataAppliers,
        vhosts: dict[str, Vhost],
        policies: Policies,
        names: NameGenerator,
        cluster_counts: ClusterCounts,
        storage: Storage | None,
    ) -> None:
        """Without storage there are no mirrored queues."""
        turn = node.turn
        self._node: NodePort = node
        self._service: ClientService = service
        self._turn: Turn = turn
        self._vhosts: dict[str, Vhost] = vhosts
        self._reported_members: int = 0
        self._left: bool = False
        own = node.settings.node_name
        self.membership: ClusterMembership = ClusterMembership(own, incarnation, handling, turn)
        appliers.add(self.membership)
        self.shared: SharedMetadataBackend = SharedMetadataBackend(turn, appliers)
        homes = self.shared.homes
        setting = node.settings.queue_master_locator
        placer = QueuePlacer(setting, self.membership, homes, policies, names)
        self.orphaned_queues: OrphanedQueues = OrphanedQueues(turn, self.shared, self.membership, homes, vhosts)
        self.membership.listener = self
        self.links: NodeLinks = NodeLinks(turn, self)
        self.replica_sets: ReplicaSets | None = None
        if storage is not None:
            self.links.host_masters(own)
            mirroring_policies = MirroringPolicies(policies, vhosts, node.settings.sync_batch_count)
            throttle = SyncThrottle(node.settings.sync_bytes_per_s)
            self.replica_sets = ReplicaSets(
                turn, self.membership, self.shared, self.links, vhosts, storage, mirroring_policies, names, throttle
            )
        self.backend: PlacingMetadataBackend = PlacingMetadataBackend(turn, self.shared, placer, self.replica_sets)
        self.notices: PeerNotices = PeerNotices(self.links, self.shared, cluster_counts)
        turn.set_timer(turn.now_ms + CHECK_EVERY_MS, self)

    def adopt(self, revision: int, snapshot: MetadataSnapshot) -> None:
        """The node was started with this snapshot: its objects exist."""
        self.shared.adopt(revision, snapshot)
        self.orphaned_queues.node_started()
        if self.replica_sets is not None:
            self.replica_sets.begin()

    # -- events

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
        elif isinstance(event, TransactionDecided):
            self.shared.decided(event)
        elif isinstance(event, DefinitionsChanged):
            self.shared.changed(event)
            self._act_on_replica_sets()
        elif isinstance(event, DefinitionsReplaced):
            self.shared.replaced(event)
            self._act_on_replica_sets()
            if self.replica_sets is not None:
                self.replica_sets.rejoin_masters()
        elif isinstance(event, DefinitionsCurrent):
            self.shared.current(event)

    def _peer_connected(self, event: PeerConnected) -> None:
        self.links.connected(event.node, event.incarnation)
        self.membership.peer_connected(event.node, event.incarnation)
        self.shared.peer_connected(event.node, event.incarnation)
        self.notices.peer_connected(event.node)
        if self.replica_sets is not None:
            self.replica_sets.peer_connected(event.node, event.incarnation)
        self._look()

    def _peer_lost(self, event: PeerLost) -> None:
        self.links.lost(event.node)
        self.membership.peer_lost(event.node)
        self.shared.peer_lost(event.node)
        self.notices.peer_lost(event.node)
        if event.refused:
            self.shared.peer_over(event.node)
        else:
            self._check_lost_incarnations()
        if self.replica_sets is not None:
            self.replica_sets.peer_lost(event.node, event.refused)
        self._look()

    def liveness_changed(self) -> None:
        self._check_lost_incarnations()
        self.orphaned_queues.liveness_changed()
        if self.replica_sets is not None:
            self.replica_sets.liveness_changed()

    def _check_lost_incarnations(self) -> None:
        members, now_ms = self.membership.members, int(self._turn.now_ms)
        for node, incarnation, lost_ms in self.shared.lost_incarnations():
            # a node that never held a lease is never reported dead
            silent = members.incarnation(node) is None and now_ms - lost_ms >= PARTITIONED_AFTER_MS
            if silent or self.membership.has_ended(node, incarnation):
                self.shared.peer_over(node)

    # -- partitions

    def timer_fired(self) -> None:
        if self._left:
            return
        self._turn.set_timer(self._turn.now_ms + CHECK_EVERY_MS, self)
        self._check_lost_incarnations()
        self._look()
        self.orphaned_queues.look()

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
            self._turn.effects.append(RestartNode())

    def retreat(self) -> None:
        """The node is going to stop: hand its master replicas over to other nodes."""
        if self.replica_sets is not None:
            self.replica_sets.shutdown_handover.begin()

    def may_leave(self) -> bool:
        return self.replica_sets is None or self.replica_sets.shutdown_handover.over()

    def leave(self) -> None:
        """The node stops, or its join failed: take and deliver nothing over links, so that its disk is final."""
        self._left = True
        for node in self.links.nodes():
            self.links.lost(node)

    def end_turn(self) -> None:
        """The last thing of a turn."""
        self.notices.end_turn()
        members = self.membership.members
        if members.version != self._reported_members:
            self._reported_members = members.version
            found = [members.get(name) for name in members.names()]
            self._turn.effects.append(
                SaveMembers([(one.name, one.peer, one.store) for one in found if one is not None])
            )
        self.links.end_turn()

    # -- replica sets

    def _act_on_replica_sets(self) -> None:
        if self.replica_sets is not None:
            self.replica_sets.act()

    def busy(self) -> bool:
        """Whether this turn has more work for replica sets or for reports to local masters."""
        masters = self.links.local_masters
        reports = masters is not None and len(masters.due) > 0
        return reports or (self.replica_sets is not None and self.replica_sets.waiting())

    def end_round(self) -> None:
        if self.links.local_masters is not None:
            self.links.local_masters.end_round()
        if self.replica_sets is not None:
            self.replica_sets.end_round()

    def replication_arrived(self, node: str, data: bytes, start: i64, end: i64) -> None:
        if self.replica_sets is not None:
            self.replica_sets.received(node, data, start, end)

    def await_master(self, queue_id: int, node: str, waiter: MasterWaiter) -> None:
        if self.replica_sets is not None:
            self.replica_sets.await_master(queue_id, node, waiter)

    def forget_master(self, queue_id: int, waiter: MasterWaiter) -> None:
        if self.replica_sets is not None:
            self.replica_sets.forget_master(queue_id, waiter)

    def policies_changed(self, vhost: str) -> None:
        if self.replica_sets is not None:
            self.replica_sets.policies_changed(vhost)

    # -- homes of queues

    def proxy_for(self, definition: QueueDefinition, queue_id: int) -> QueuePort | None:
        membership = self.membership
        if definition.replica_set is not None and self.replica_sets is not None:
            self.replica_sets.put(definition, queue_id)
            return self._new_proxy(definition, queue_id)
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
        if definition.replica_set is not None and self.replica_sets is not None:
            if not isinstance(queue, MirroredQueueProxy):
                self._replace_by_proxy(queue, definition, self.replica_sets)
                return
            self.replica_sets.put(definition, queue.queue_id)
        # an unmirrored queue on this node stays: it never moves while its node runs
        if isinstance(queue, QueueProxy):
            before, queue.replica_set = queue.replica_set, definition.replica_set
            if queue.node != definition.node or _is_master_again(before, definition.replica_set):
                queue.rehome(definition.node)

    def _new_proxy(self, definition: QueueDefinition, queue_id: int) -> MirroredQueueProxy:
        proxy = MirroredQueueProxy(
            definition.vhost,
            definition.name,
            definition.durable,
            definition.auto_delete,
            definition.arguments,
            definition.node,
            queue_id,
            self.links,
        )
        proxy.replica_set = definition.replica_set
        return proxy

    def _replace_by_proxy(self, queue: QueuePort, definition: QueueDefinition, replica_sets: ReplicaSets) -> None:
        """A queue of one node is mirrored from here on."""
        proxy = self._new_proxy(definition, queue.queue_id)
        # sessions that use the old queue keep it, and both share their counters
        proxy.counted = queue.counted
        self._vhosts[definition.vhost].bindings.replace_queue(queue, proxy)
        if isinstance(queue, LocalQueue):
            proxy.used = queue.consumer_count() > 0
            # a closed queue is about to be deleted
            if not queue.deleted:
                replica_sets.adopt(definition, queue, proxy)
        elif isinstance(queue, RemoteQueue):
            proxy.used = len(queue.consumers()) > 0
            replica_sets.put(definition, queue.queue_id)
            proxy.predecessor = queue
            queue.successor = proxy

    def forget(self, queue: QueuePort) -> None:
        assert isinstance(queue, QueueProxy), "queues of other nodes are proxies"
        queue.close()
        if self.replica_sets is not None:
            self.replica_sets.delete(queue.queue_id)

    # -- requests of other nodes

    def find_queue(self, vhost: str, name: str, queue_id: int) -> QueuePort | None:
        found = self._vhosts.get(vhost)
        queue = None if found is None else found.own_queue(name)
        return None if queue is None or (queue_id != 0 and queue.queue_id != queue_id) else queue

    def remove_queue(self, queue: QueuePort, waiter: TransactionWaiter) -> None:
        master_replica = None if self.replica_sets is None else self.replica_sets.master_of(queue.queue_id)
        if master_replica is None:
            self._vhosts[queue.vhost].delete_checked_queue(queue, waiter)
        else:
            self._vhosts[queue.vhost].delete_mirrored_queue(
                queue.name, MirroredQueueDelete(master_replica, waiter, self._turn)
            )

    def reply_arrived(self, inbox: str, message: Message) -> None:
        direct_reply.deliver_reply(self._node, inbox, message)

    def notice_arrived(self, node: str, data: bytes) -> None:
        self.notices.arrived(node, data)


def _is_master_again(before: ReplicaSet | None, replica_set: ReplicaSet | None) -> bool:
    """Whether the same incarnation is master again in another epoch. Another incarnation has another link anyway."""
    if before is None or replica_set is None:
        return False
    return before.epoch != replica_set.epoch and before.master_incarnation == replica_set.master_incarnation
