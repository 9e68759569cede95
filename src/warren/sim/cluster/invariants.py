"""The rules for a cluster, during the run and at its end, when the faults are over and all clients had time to finish.

*Declared objects exist.* When a client is told that an object was declared, it was in the store at some moment since
the request, and every node knows it that was connected with the answering one all that time. A node that has not heard
of the store for a while is excepted: it knows that it is behind.

*All nodes end up the same.* Each has applied exactly what the store holds. Its queues, exchanges and bindings are those
of the keys: local ones as queues, remote ones as proxies.

*An epoch has one master.* Only one node serves clients of a mirrored queue in an epoch.

*Replicas are equal.* At the end every member of a replica set is in sync, and has what the master's queue has.

*No replica is left over.* At the end a node has replicas of the replica sets that name it, and of no others.

Not here: messages (`sim.cluster.ledger`).
"""

from collections import Counter

from warren.broker.metadata.definition_kinds import decode_definition
from warren.broker.metadata.topology_definitions import (
    BindingDefinition,
    ExchangeDefinition,
    QueueDefinition,
    queue_key,
)
from warren.broker.model.replica_set import NodeIncarnation
from warren.broker.queues.queue import Queue
from warren.broker.replication.local_replica import LocalReplica
from warren.broker.routing.topology import PREDECLARED_NAMES
from warren.sim.cluster.ledger import ClientLedger
from warren.sim.cluster.nodes import SimulatedCluster, SimulatedClusterNode
from warren.sim.history import PublishAttempt


class ReplicaSetRules:
    """The rules for mirrored queues."""

    def __init__(self, world: SimulatedCluster) -> None:
        self._world = world
        # the node that served clients, by queue and epoch
        self._masters: dict[tuple[int, int], NodeIncarnation] = {}

    def turned(self, member: SimulatedClusterNode) -> None:
        """A node has finished a turn."""
        run = (member.name, member.disk.incarnation)
        for replica in local_replicas_of(member):
            master_replica = replica.master_replica
            if master_replica is None or master_replica.queue is None:
                continue
            epoch = master_replica.master.replica_set.epoch
            first = self._masters.setdefault((replica.queue_id, epoch), run)
            if first != run:
                text = f"'{replica.definition.name}' was served by {first} and by {run} in epoch {epoch}"
                self._complain("an epoch has one master", text)

    def unsettled(self) -> str:
        """Which replica set is not at rest; "" if all are."""
        for definition in self._mirrored():
            replica_set = definition.replica_set
            assert replica_set is not None, "it is mirrored"
            runs = sorted((name, self._world.member(name).disk.incarnation) for name in replica_set.members)
            if sorted(replica_set.in_sync) != runs:
                return f"of '{definition.name}' {runs} are members and {replica_set.in_sync} in sync"
            for name in replica_set.members:
                replica = self._replica(name, definition.name)
                if replica is None or replica.replica_set != replica_set:
                    return f"{name} does not know the replica set of '{definition.name}' as it is"
                held = replica.contents.count()
                if held and name != replica_set.master:
                    return f"{name} holds {held} messages of '{definition.name}' that were not consumed"
        return ""

    def ended(self) -> None:
        """Everything is at rest."""
        wanted = {(name, definition.name) for definition in self._mirrored() for name in _members(definition)}
        found = {
            (member.name, replica.definition.name)
            for member in self._world.members
            for replica in local_replicas_of(member)
        }
        if wanted != found:
            text = f"nodes hold {sorted(found - wanted)} for nothing and lack {sorted(wanted - found)}"
            self._complain("a node holds the replicas that it should, and no others", text)
        for definition in self._mirrored():
            held = {name: self._held(name, definition.name) for name in _members(definition)}
            if len({str(spans) for spans in held.values()}) > 1:
                self._complain("all replicas of a queue are equal", f"'{definition.name}': {held}")

    def _held(self, name: str, queue: str) -> list[tuple[int, int]]:
        replica = self._replica(name, queue)
        return [] if replica is None else [(int(span.first), int(span.last)) for span in replica.contents.spans()]

    def _mirrored(self) -> list[QueueDefinition]:
        found: list[QueueDefinition] = []
        for key, (_created, _modified, value) in self._world.store.snapshot()[1].items():
            if key.startswith("queues/"):
                definition = decode_definition(key, value)
                if isinstance(definition, QueueDefinition) and definition.replica_set is not None:
                    found.append(definition)
        return found

    def _replica(self, name: str, queue: str) -> LocalReplica | None:
        cluster = self._world.member(name).broker.cluster
        return None if cluster is None or cluster.replica_sets is None else cluster.replica_sets.named("/", queue)

    def _complain(self, rule: str, text: str) -> None:
        self._world.checkers.complain(rule, text)


def local_replicas_of(member: SimulatedClusterNode) -> list[LocalReplica]:
    """A node's replicas."""
    cluster = member.broker.cluster if member.up else None
    return [] if cluster is None or cluster.replica_sets is None else cluster.replica_sets.replicas()


def _members(definition: QueueDefinition) -> list[str]:
    return [] if definition.replica_set is None else definition.replica_set.members


class ClusterInvariants:
    """The rules for one world."""

    def __init__(self, world: SimulatedCluster, ledger: ClientLedger) -> None:
        self._world = world
        self._ledger = ledger
        # by key: when it was last put, when it was last deleted
        self._put_ms: dict[str, int] = {}
        self._deleted_ms: Counter[str] = Counter()
        self.replica_sets = ReplicaSetRules(world)

    def definition_changed(self, key: str, value: bytes | None) -> None:
        if value is None:
            self._deleted_ms[key] = self._world.now_ms
        else:
            self._put_ms[key] = self._world.now_ms

    # -- during the run

    def turned(self, member: SimulatedClusterNode) -> None:
        """The node's own checks pass."""
        try:
            member.broker.check()
        except Exception as error:
            self._complain("the node checks itself", f"{member.name}: {type(error).__name__}: {error}")
        self.replica_sets.turned(member)

    def answered_for(self, node: str, key: str, sent_ms: int) -> None:
        """A node told a client that an object exists."""
        world = self._world
        answering = world.member(node)
        if not answering.is_member:
            return
        if key not in self._put_ms:
            self._complain("declared objects are in the store", f"{node} answered for {key}, which never was")
            return
        for other in world.members:
            if other is answering or not other.up or other.broker.cluster is None:
                continue
            since_ms = world.peer_links.between(node, other.name).whole_since_ms()
            shared = other.broker.cluster.shared
            if since_ms is None or since_ms > sent_ms or shared.is_stale(world.now_ms):
                continue
            if shared.modified(key) == 0 and self._deleted_ms[key] < sent_ms:
                text = f"{node} answered for {key}, and {other.name} does not know it"
                self._complain("declared objects are known on every node", text)

    def missing(self, text: str, queue: str, attempts: list[PublishAttempt]) -> None:
        """A queue has fewer messages than were confirmed."""
        sent_ms = min(attempt.sent_ms for attempt in attempts)
        if self._world.disrupted_ms < sent_ms and self._deleted_ms[queue_key("/", queue)] < sent_ms:
            self._complain("confirmed messages are in the queue", text)

    # -- at the end

    def ended(self) -> None:
        """Everything is at rest."""
        lost = self._ledger.lost()
        if lost:
            self._complain("nothing confirmed is lost", lost)
        self._look_for_remains()
        self.replica_sets.ended()
        for member in self._world.members:
            self._look_at_definitions(member)
            held = member.broker.turn.held_bytes
            if held and not any(queue.ready_count() for queue in member.broker.vhosts["/"].own_queues()):
                text = f"{member.name} holds {held} bytes for messages it does not have"
                self._complain("no memory is counted without messages", text)

    def unsettled(self) -> str:
        """What keeps the world from coming to rest; "" if nothing does."""
        for client in self._world.clients:
            if not client.done():
                return f"{client.name} waits: {client.waiting_for()}"
        for member in self._world.members:
            cluster = member.broker.cluster if member.up else None
            if cluster is None:
                return f"{member.name} is no member"
            if cluster.shared.applied != self._world.store.revision:
                return f"{member.name} has applied {cluster.shared.applied} of {self._world.store.revision}"
            if not cluster.orphaned_queues.clear:
                return f"{member.name} has something to clear up"
            if member.busy():
                return f"{member.name} is busy"
            left = self._left_in(member)
            if left:
                return left
        replica_sets = self.replica_sets.unsettled()
        if replica_sets:
            return replica_sets
        return "" if self._world.whole() else "some nodes are not connected"

    def _left_in(self, member: SimulatedClusterNode) -> str:
        for queue in member.broker.vhosts["/"].own_queues():
            if not queue.exclusive and queue.ready_count() + queue.unacked_count():
                held = f"{queue.ready_count()} ready and {queue.unacked_count()} unacked"
                return f"'{queue.name}' on {member.name} still holds {held}"
        return ""

    def _look_for_remains(self) -> None:
        """Queues that should have gone with their owners or their last consumers."""
        for definition in self._queues():
            owners = self._world.member(definition.node).broker.connections
            if definition.exclusive and definition.owner not in owners:
                self._complain("queues go with their owners", f"'{definition.name}' is left on {definition.node}")
            if self._is_deserted(definition):
                self._complain("queues go with their owners", f"'{definition.name}' is left without consumers")

    def deserted(self) -> list[str]:
        """Queues that have yet to go with their last consumers: a new master waits a while before it deletes one."""
        return [definition.name for definition in self._queues() if self._is_deserted(definition)]

    def _queues(self) -> list[QueueDefinition]:
        definitions = [decode_definition(key, value[2]) for key, value in self._world.store.snapshot()[1].items()]
        return [definition for definition in definitions if isinstance(definition, QueueDefinition)]

    def _is_deserted(self, definition: QueueDefinition) -> bool:
        """Whether it should go with its last consumer; a node that ends before the deletion is committed forgets it."""
        deserted_ms = self._world.deserted_ms.get(definition.name)
        if deserted_ms is None:
            return False
        # a mirrored queue's deletion is known to its master and to the consumer's node
        known_by = [definition.node] if definition.replica_set is None else [one.name for one in self._world.members]
        return all(self._ledger.ended_ms(name) < deserted_ms for name in known_by)

    def _look_at_definitions(self, member: SimulatedClusterNode) -> None:
        rule = "all nodes end up the same"
        cluster = member.broker.cluster
        assert cluster is not None, "that was waited for"
        _revision, snapshot = self._world.store.snapshot()
        for key, (_created, modified, _value) in snapshot.items():
            if cluster.shared.modified(key) != modified:
                self._complain(rule, f"{member.name} knows {key} of {cluster.shared.modified(key)}, not {modified}")
                return
        wanted: set[tuple[str, ...]] = set()
        for key, (_created, _modified, value) in snapshot.items():
            definition = decode_definition(key, value)
            if isinstance(definition, QueueDefinition):
                wanted.add(("queue", definition.name, definition.node))
            elif isinstance(definition, ExchangeDefinition):
                wanted.add(("exchange", definition.name))
            elif isinstance(definition, BindingDefinition):
                wanted.add(("binding", definition.source, definition.destination, definition.routing_key))
        found = _what_is_made(member)
        if found != wanted:
            text = f"{member.name} lacks {sorted(wanted - found)} and has {sorted(found - wanted)} for nothing"
            self._complain(rule, text)

    def _complain(self, rule: str, text: str) -> None:
        self._world.checkers.complain(rule, text)


def _what_is_made(member: SimulatedClusterNode) -> set[tuple[str, ...]]:
    topology = member.broker.vhosts["/"].topology
    made: set[tuple[str, ...]] = set()
    for name, queue in topology.queues.items():
        made.add(("queue", name, member.name if isinstance(queue, Queue) else str(getattr(queue, "node", ""))))
    for name, exchange in topology.exchanges.items():
        if name not in PREDECLARED_NAMES:
            made.add(("exchange", name))
        for binding in topology.bindings_from(exchange):
            if name:
                made.add(("binding", name, binding.destination.name, binding.routing_key))
    return made
