"""Orphaned queues: transient and exclusive queues of a node incarnation that has ended, and queues of forgotten nodes.

A queue is orphaned exactly if its node is not a member, or if it ends with an incarnation of its node that is not the
living one. A mirrored queue is orphaned if no node of its replica set is a member, or if it is transient and every
in-sync incarnation has ended, because a restarted node has lost it. Every node sees this at the same revision, so any
node can propose the removal. All keys are relied on, so each queue is removed once, however many nodes try. To avoid
useless work the nodes take turns: the first living node by rank begins at once, the next one waits longer, and so on. A
transaction that fails is tried again while an orphan is left; when the first node dies, the next one continues.

A node that starts has a new incarnation, so the transient queues of its earlier incarnations are orphans. Transient
exchanges have no home: they are removed when a node starts and no other node is alive, because then all nodes were
down. If another node comes alive before the removal is agreed, they stay, because its clients may have found them.

Invariant: at most one transaction of this node is under way.

Not here: queues that end while their node lives (`broker.pending_deletes`).
"""

from typing import Final, final

from warren.broker.membership import ClusterMembership, LivenessListener
from warren.broker.metadata.backend import MetadataBackend
from warren.broker.metadata.cluster_definitions import LIVENESS, liveness_key, node_key
from warren.broker.metadata.shared_definitions import MirroredQueueHome, QueueHomes
from warren.broker.metadata.store import key_prefix
from warren.broker.metadata.topology_definitions import queue_key
from warren.broker.metadata.transaction import MetadataTransaction, TransactionWaiter
from warren.broker.model.ports import QueuePort
from warren.broker.model.turn import Timer, TimerTarget, Turn
from warren.broker.routing.exchanges import Exchange
from warren.broker.routing.topology import PREDECLARED_NAMES
from warren.broker.routing.topology_transactions import add_removal_of
from warren.broker.vhost import Vhost

DELAY_PER_NODE_MS: Final = 2_000
"""How much longer each node waits than the one before it by rank."""

CLEANUP_PAUSE_MS: Final = 1_000
BATCH_MAX: Final = 20


@final
class OrphanedQueues(TransactionWaiter, LivenessListener, TimerTarget):
    """This node's removal of orphaned queues."""

    def __init__(
        self,
        turn: Turn,
        backend: MetadataBackend,
        membership: ClusterMembership,
        homes: QueueHomes,
        vhosts: dict[str, Vhost],
    ) -> None:
        self._turn: Turn = turn
        self._backend: MetadataBackend = backend
        self._membership: ClusterMembership = membership
        self._homes: QueueHomes = homes
        self._vhosts: dict[str, Vhost] = vhosts
        self._under_way: bool = False
        self._timer: Timer | None = None
        self._due_ms: int = 0
        # transient exchanges from before all nodes were down, with their virtual hosts
        self._exchanges: list[tuple[str, Exchange]] = []

    def node_started(self) -> None:
        """This node is alive, its definitions are applied, and no client is connected yet."""
        if self._alone():
            for name, vhost in self._vhosts.items():
                self._exchanges += [(name, one) for one in vhost.topology.exchanges.values() if _is_transient(one)]
        self._wake_in(0)

    def liveness_changed(self) -> None:
        self._wake_in(self._place() * DELAY_PER_NODE_MS)

    def look(self) -> None:
        """Called by a timer: a queue may become orphaned without a change of liveness, if it was declared too late."""
        if self._timer is None and not self._under_way and self._any_orphans():
            self.liveness_changed()

    @property
    def clear(self) -> bool:
        """Whether there are no orphans."""
        return not self._under_way and not self._exchanges and not self._any_orphans()

    def _any_orphans(self) -> bool:
        return bool(self._dead_homes() or self._forgotten_nodes() or self._dead_replica_sets())

    # -- one batch after another

    def timer_fired(self) -> None:
        self._timer = None
        self._go_on()

    def committed(self) -> None:
        self._under_way = False
        self._go_on()

    def outdated(self) -> None:
        self._under_way = False
        self._go_on()

    def failed(self, reason: str) -> None:
        self._under_way = False
        self._turn.note("warning", "leftovers.kept", {"reason": reason})
        self._wake_in(CLEANUP_PAUSE_MS)

    def _go_on(self) -> None:
        if not self._under_way:
            transaction = self._next_transaction()
            if transaction is not None:
                self._under_way = not self._backend.submit(transaction, self)

    def _next_transaction(self) -> MetadataTransaction | None:
        if self._exchanges:
            transaction = self._exchange_removals()
            if transaction.changes:
                return transaction
        for node, incarnation in self._dead_homes():
            # the node must not come alive first
            transaction = self._queue_removals([liveness_key(node)], self._homes.transient((node, incarnation)))
            if transaction.changes:
                return transaction
        for node in self._forgotten_nodes():
            transaction = self._queue_removals([node_key(node)], self._homes.of_node_alone(node))
            if transaction.changes:
                return transaction
        for mirrored in self._dead_replica_sets():
            # no node of the replica set may come alive, or become a member, first
            relied_on = [liveness_key(name) for name in mirrored.replica_set.synced_names()]
            relied_on += [node_key(name) for name in mirrored.replica_set.members]
            transaction = self._queue_removals(relied_on, [mirrored.queue])
            if transaction.changes:
                return transaction
        return None

    def _queue_removals(self, relied_on: list[str], queues: list[tuple[str, str]]) -> MetadataTransaction:
        transaction = MetadataTransaction()
        for key in relied_on:
            transaction.rely_on(key)
        doomed: dict[str, list[QueuePort]] = {}
        for vhost, name in queues[:BATCH_MAX]:
            queue = None if vhost not in self._vhosts else self._vhosts[vhost].topology.queues.get(name)
            if queue is None:
                transaction.delete(queue_key(vhost, name), kept=False)
            else:
                doomed.setdefault(vhost, []).append(queue)
        for vhost, found in doomed.items():
            add_removal_of(transaction, self._vhosts[vhost].topology, found, [])
        return transaction

    def _exchange_removals(self) -> MetadataTransaction:
        transaction = MetadataTransaction()
        if not self._alone():
            self._exchanges = []
            return transaction
        transaction.rely_on_all(key_prefix(LIVENESS, []))
        self._exchanges = [one for one in self._exchanges if one[0] in self._vhosts and not one[1].deleted]
        doomed: dict[str, list[Exchange]] = {}
        for vhost, exchange in self._exchanges[:BATCH_MAX]:
            doomed.setdefault(vhost, []).append(exchange)
        for vhost, exchanges in doomed.items():
            add_removal_of(transaction, self._vhosts[vhost].topology, [], exchanges)
        return transaction

    # -- orphans and turns

    def _dead_homes(self) -> list[tuple[str, int]]:
        """Ended incarnations with queues."""
        members, own = self._membership.members, self._membership.own
        dead: list[tuple[str, int]] = []
        for node, incarnation in self._homes.transient_homes():
            living = self._membership.incarnation if node == own else members.incarnation(node)
            if incarnation != living:
                dead.append((node, incarnation))
        return dead

    def _forgotten_nodes(self) -> list[str]:
        """Nodes with queues that are not members. A node that does not know itself as a member knows no others."""
        members = self._membership.members
        if members.get(self._membership.own) is None:
            return []
        found = [node for node in self._homes.nodes() if node and members.get(node) is None]
        return [node for node in found if self._homes.of_node_alone(node)]

    def _dead_replica_sets(self) -> list[MirroredQueueHome]:
        """Mirrored queues without a replica."""
        members, own = self._membership.members, self._membership.own
        if members.get(own) is None:
            return []
        living = {name: members.incarnation(name) for name in members.alive_names()}
        living[own] = self._membership.incarnation
        dead: list[MirroredQueueHome] = []
        for mirrored in self._homes.mirrored():
            replica_set = mirrored.replica_set
            forgotten = all(members.get(name) is None for name in replica_set.members)
            gone = all(living.get(name) != incarnation for name, incarnation in replica_set.in_sync)
            if forgotten or (gone and not mirrored.durable):
                dead.append(mirrored)
        return dead

    def _place(self) -> int:
        """How many living nodes have a lower rank."""
        members = self._membership.members
        place = 0
        for name in members.names_by_rank():
            if name == self._membership.own:
                break
            if members.incarnation(name) is not None:
                place += 1
        return place

    def _alone(self) -> bool:
        """Whether no other node is alive."""
        own = self._membership.own
        return not [name for name in self._membership.members.alive_names() if name != own]

    def _wake_in(self, delay_ms: int) -> None:
        """Set the timer, unless it fires earlier already."""
        due_ms = int(self._turn.now_ms) + delay_ms
        if self._timer is not None:
            if self._due_ms <= due_ms:
                return
            self._turn.cancel_timer(self._timer)
        self._due_ms = due_ms
        self._timer = self._turn.set_timer(due_ms, self)


def _is_transient(exchange: Exchange) -> bool:
    return not exchange.durable and exchange.name not in PREDECLARED_NAMES
