"""All the rings that this node has a part in, and what comes for them: definitions, messages, nodes that come and go.

A mirror may hear of an epoch before its new master does, and ask to join it too early: what it asked is kept until this
node is that master, or the link is gone.

Not here: one ring (`broker.replication.local_replica`), the links (`broker.links.link`).

Where the copies of mirrored queues are to be: asked when a queue is new, and whenever policies or nodes change.

Not here: the rules (`broker.replication.mirroring_policy`), what is wanted (`broker.replication.mirroring_policy`),
carrying it out (`broker.replication.master`).

A node that stops on purpose lets others be masters first, so that clients elsewhere notice no more than a pause.

Its mirrored queues go to mirrors that are in sync; where there is none, a policy may say that another takes over with
what it has (`ha-promote-on-shutdown`), or else the queue waits for the node to come back. The node leaves when it is
master of nothing that somebody else could be master of, and its successors have heard of it as a mirror, which tells
them that it hands out nothing any more; or after a while, whatever is left.

Not here: who is chosen (`broker.replication.replica_sets`), handing over (`broker.replication.master`).
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
from warren.broker.model.message import Entry
from warren.broker.model.names import NameGenerator
from warren.broker.model.ports import QueueLog, QueueLogs, QueuePort
from warren.broker.model.replica_contents import ReplicaContents
from warren.broker.model.replica_set import NodeIncarnation, ReplicaSet
from warren.broker.model.turn import TimerTarget, Turn
from warren.broker.replication import messages
from warren.broker.replication.adoption import QueueAdoption, forward_to_proxy
from warren.broker.replication.backfill import SyncThrottle
from warren.broker.replication.delivery_lease import Heartbeat, IncarnationWatch
from warren.broker.replication.local_replica import LocalReplica, adopted_contents, make_queue, new_contents
from warren.broker.replication.master import Master
from warren.broker.replication.master_replica import FIRST_EPOCH, MasterReplica
from warren.broker.replication.messages import ReplicationMessageReader
from warren.broker.replication.mirror import MirrorJoinRequest
from warren.broker.replication.mirrored_log import MirroredLog, max_priority_of
from warren.broker.replication.mirroring_policy import MirroringPolicies, MirrorSpec, wanted_master, wanted_members
from warren.broker.replication.proposals import ReplicaSetProposals
from warren.broker.replication.replica_history import ReplicaHistory
from warren.broker.replication.replica_links import UnsentCommits, handle_master_message, handle_mirror_message
from warren.broker.sessions import firehose
from warren.broker.storage import Storage
from warren.broker.streams.files import StreamFiles
from warren.broker.vhost import Vhost


@final
class ReplicaPlacement:
    """One node's view of that."""

    def __init__(self, replica_sets: "ReplicaSets", names: NameGenerator) -> None:
        # this node is about to stop: others are to be masters
        self.retreats: bool = False
        self._replica_sets: ReplicaSets = replica_sets
        self._names: NameGenerator = names

    def look(self, replica: "LocalReplica") -> None:
        """See whether a queue is held where it should be; by its master alone if nobody wants mirrors any more."""
        master_replica, replica_set, mirroring_policies = (
            replica.master_replica,
            replica.replica_set,
            self._replica_sets.mirroring_policies,
        )
        if master_replica is None:
            return
        wish = mirroring_policies.of(replica.definition)
        master_replica.min_in_sync = mirroring_policies.min_in_sync(replica.definition)
        master_replica.early.wanted = mirroring_policies.confirms_early(replica.definition)
        if self.retreats:
            anyhow = mirroring_policies.promotes_on_shutdown(replica.definition)
            master_replica.master.want_master(self.successor(replica), anyhow, leaves=True)
            return
        if wish is None:
            master_replica.master.want([replica_set.master])
            return
        nodes, running = self._nodes()
        master_replica.master.want(wanted_members(wish, replica_set, nodes, running, self._names.draw()))
        wanted = wanted_master(wish, replica_set, running)
        master_replica.master.want_master("" if wanted == replica_set.master else wanted)

    def successor(self, replica: "LocalReplica") -> str:
        """Who is to be master when this node is not: the eldest in sync that is reached, or, if a policy says so and
        there is none, any other mirror; empty if there is nobody."""
        replica_sets, replica_set = self._replica_sets, replica.replica_set
        holds = replica_sets.membership.members.holding_names()
        synced = [
            name for name, run in replica_set.in_sync if name in holds and replica_sets.incarnation_reached(name) == run
        ]
        if synced:
            return synced[0]
        if not replica_sets.mirroring_policies.promotes_on_shutdown(replica.definition):
            return ""
        others = [name for name in replica_set.members if name in holds and replica_sets.incarnation_reached(name)]
        return others[0] if others else ""

    def mirror_new(self, definition: QueueDefinition) -> None:
        """A queue that is about to be proposed gets the mirrors it should have from its first moment on."""
        replica_sets = self._replica_sets
        wish, node = replica_sets.mirroring_policies.of(definition), definition.node
        incarnation = (
            replica_sets.own_incarnation[1]
            if node == replica_sets.own_incarnation[0]
            else replica_sets.incarnation_reached(node)
        )
        if wish is not None and incarnation != 0:
            definition.replica_set = self.first_replica_set(wish, (node, incarnation))
            definition.incarnation = 0

    def first_replica_set(self, wish: MirrorSpec, master: NodeIncarnation) -> ReplicaSet:
        alone = ReplicaSet(FIRST_EPOCH, master[0], [master[0]], [master])
        return alone.with_members(wanted_members(wish, alone, *self._nodes(), self._names.draw()))

    def _nodes(self) -> tuple[list[str], list[str]]:
        """Those that may hold queues, and those of them that run and are reached."""
        replica_sets = self._replica_sets
        nodes = replica_sets.membership.members.holding_names()
        return nodes, [
            name for name in nodes if name == replica_sets.own_incarnation[0] or replica_sets.incarnation_reached(name)
        ]


HANDOVER_TIMEOUT_MS: Final[i64] = 3_000
"""How long it tries."""

HANDOVER_LINGER_MS: Final[i64] = 50
"""How long it stays when it is master no more."""


@final
class ShutdownHandover(TimerTarget):
    """One node's."""

    def __init__(self, replica_sets: "ReplicaSets") -> None:
        self._replica_sets: ReplicaSets = replica_sets
        self._begun: bool = False
        self._until_ms: i64 = 0
        self._saying_farewell: bool = False

    def begin(self) -> None:
        self._begun = True
        self._wait(HANDOVER_TIMEOUT_MS)
        self._replica_sets.placing.retreats = True
        for replica in self._replica_sets.replicas():
            self._replica_sets.placing.look(replica)

    def over(self) -> bool:
        """Whether the node may leave; one that does not retreat has nothing to wait for."""
        if not self._begun or self._replica_sets.turn.now_ms >= self._until_ms:
            return True
        if not self._saying_farewell and not self._any_to_hand_over():
            self._saying_farewell = True
            self._wait(HANDOVER_LINGER_MS)
        return False

    def _any_to_hand_over(self) -> bool:
        placing = self._replica_sets.placing
        return any(
            replica.master_replica is not None and placing.successor(replica)
            for replica in self._replica_sets.replicas()
        )

    def _wait(self, for_ms: i64) -> None:
        turn = self._replica_sets.turn
        self._until_ms = turn.now_ms + for_ms
        turn.set_timer(self._until_ms, self)

    def timer_fired(self) -> None:
        """The turn it makes is all that is wanted: whoever asks is asked at its end."""


REOPEN_RETRY_MS: Final[i64] = 200


@final
class ReplicaSets(TimerTarget, IncarnationWatch):
    """One node's."""

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
        pace: SyncThrottle,
    ) -> None:
        self.turn: Turn = turn
        self.membership: ClusterMembership = membership
        self.backend: SharedMetadataBackend = backend
        self.links: NodeLinks = links
        self.own_incarnation: NodeIncarnation = (membership.own, membership.incarnation)
        # masters with something to put into a step before the turn ends
        self.touched: list[MasterReplica] = []
        # mirrors that heard something
        self._moved: dict[LocalReplica, None] = {}
        self._vhosts: dict[str, Vhost] = vhosts
        self._logs: QueueLogs = storage.journal
        self._streams: StreamFiles = storage.streams
        self.mirroring_policies: MirroringPolicies = mirroring_policies
        self.pace: SyncThrottle = pace
        self.placing: ReplicaPlacement = ReplicaPlacement(self, names)
        self.adopting: QueueAdoption = QueueAdoption(self, vhosts)
        self.shutdown_handover: ShutdownHandover = ShutdownHandover(self)
        self.proposals: ReplicaSetProposals = ReplicaSetProposals(backend)
        self._replicas: dict[int, LocalReplica] = {}
        # to join masters, whatever their queues
        self.attempts: int = 0
        self._early: dict[int, dict[str, tuple[int, int, MirrorJoinRequest]]] = {}
        # the runs of other nodes that there are links to
        self._reached: dict[str, int] = {}
        # nodes whose ports refuse connections, and the last run that was known of each
        self._refusing: dict[str, int] = {}
        # who waits for a queue to be open here: by its id
        self._awaiting: dict[int, list[tuple[MasterWaiter, str, int]]] = {}
        self._began: bool = False
        # parts that were told something and have not acted on it, and those that are new
        self._changed: dict[LocalReplica, QueueDefinition] = {}
        self._fresh: list[LocalReplica] = []
        self._partners_known: bool = True
        # queues that this node held before, whose past is not forgotten yet
        self._postponed: dict[int, tuple[QueueDefinition, ReplicaHistory]] = {}
        self.heartbeat: Heartbeat = Heartbeat(links, turn)
        self.unsent_commits: UnsentCommits = UnsentCommits(turn)

    # -- what was agreed upon

    def put(self, definition: QueueDefinition, queue_id: int) -> None:
        """A mirrored queue is there, or its ring is another."""
        replica = self._replicas.get(queue_id)
        replica_set = definition.replica_set
        assert replica_set is not None, "it is mirrored"
        if self.own_incarnation[0] not in replica_set.members:
            self._postponed.pop(queue_id, None)
            self._streams.drop(queue_id)
            if replica is not None:
                self._drop(replica)
                self._logs.forget_past(queue_id)
        elif replica is not None:
            self._changed[replica] = definition
            replica.is_behind = True
        else:
            self._take_part(definition, queue_id, self._postponed.pop(queue_id, (definition, ReplicaHistory()))[1])

    def adopt(self, definition: QueueDefinition, queue: LocalQueue, proxy: QueuePort) -> None:
        """A queue of this node alone is to be held by others, too."""
        queue_index = queue.log()
        assert isinstance(queue_index, QueueIndex), "this node's journal has it"
        copy = adopted_contents(definition, queue, queue_index, self._streams, self.turn)
        replica = self._new_part(definition, queue.queue_id, queue_index, copy, ReplicaHistory())
        replica.adopt(queue)
        forward_to_proxy(queue, proxy)
        self._fresh.append(replica)

    def lent_out(self, queue: LocalQueue) -> list[Entry]:
        """What clients of this node and others have of a queue that was this node's alone."""
        vhost = self._vhosts[queue.vhost]
        return vhost.unacked_entries(queue) + self.links.lent_out(queue)

    def act(self) -> None:
        """Everything that was told is known: what is proposed from here on relies on that."""
        if not self._began:
            return
        changed, self._changed = self._changed, {}
        for replica, definition in changed.items():
            replica.changed(definition)
        fresh, self._fresh = self._fresh, []
        for replica in fresh:
            replica.prepare()
        self.adopting.act()

    def delete(self, queue_id: int) -> None:
        """The queue is gone."""
        self._postponed.pop(queue_id, None)
        self._early.pop(queue_id, None)
        replica = self._replicas.get(queue_id)
        if replica is not None:
            self._drop(replica)

    def replicas(self) -> list[LocalReplica]:
        return list(self._replicas.values())

    def named(self, vhost: str, name: str) -> LocalReplica | None:
        """This node's part in the ring of a queue."""
        found = self._vhosts.get(vhost)
        queue = None if found is None else found.topology.queues.get(name)
        return None if queue is None else self._replicas.get(queue.queue_id)

    def master_of(self, queue_id: int) -> MasterReplica | None:
        """This node's as the master of that queue, if it is."""
        replica = self._replicas.get(queue_id)
        return None if replica is None else replica.master_replica

    def begin(self) -> None:
        """What is on disk was read: from here on this node acts."""
        self._began = True
        self.adopting.look_soon()
        self.act()

    def _take_part(self, definition: QueueDefinition, queue_id: int, history: ReplicaHistory) -> None:
        if not self._logs.may_open(queue_id):
            self._postponed[queue_id] = (definition, history)
            self.turn.set_timer(self.turn.now_ms + REOPEN_RETRY_MS, self)
            return
        log_id = queue_id if definition.durable else -abs(queue_id)
        queue_index = self._logs.open(log_id, definition.durable, max_priority_of(definition.arguments))
        assert isinstance(queue_index, QueueIndex), "this node's journal has it"
        copy = new_contents(definition, queue_id, queue_index, self._streams, self.turn)
        self._fresh.append(self._new_part(definition, queue_id, queue_index, copy, history))

    def _new_part(
        self,
        definition: QueueDefinition,
        queue_id: int,
        queue_index: QueueIndex,
        copy: ReplicaContents,
        history: ReplicaHistory,
    ) -> LocalReplica:
        replica = LocalReplica(self, definition, queue_id, queue_index, copy)
        replica.history = history
        self._replicas[queue_id] = replica
        return replica

    def timer_fired(self) -> None:
        """See whether those queues may be held again that this node held before."""
        postponed, self._postponed = self._postponed, {}
        for queue_id, (definition, history) in postponed.items():
            self._take_part(definition, queue_id, history)
        self.act()

    def hold_anew(self, replica: LocalReplica) -> None:
        """What this node holds is of no use: it begins with nothing."""
        self._drop(replica)
        self._logs.forget_past(replica.queue_id)
        self._take_part(replica.definition, replica.queue_id, replica.history)
        self.act()

    def _drop(self, replica: LocalReplica) -> None:
        if replica.master_replica is not None:
            self.close_queue(replica.definition)
        del self._replicas[replica.queue_id]
        self._changed.pop(replica, None)
        self._fresh = [fresh for fresh in self._fresh if fresh is not replica]
        replica.close()

    # -- nodes

    def living(self, node: str) -> int:
        """The run of a node that is known to be alive; 0 if there is none."""
        return self.membership.members.incarnation(node) or 0

    def all_living(self) -> dict[str, int]:
        found = {name: self.living(name) for name in self.membership.members.alive_names()}
        return {**found, self.own_incarnation[0]: self.own_incarnation[1]}

    def incarnation_reached(self, node: str) -> int:
        """The run of a node that there is a link to; 0 if there is none."""
        return self._reached.get(node, 0)

    def peer_connected(self, node: str, incarnation: int) -> None:
        self._reached[node] = incarnation
        self._refusing.pop(node, None)
        for replica in list(self._replicas.values()):
            if replica.master_replica is None:
                replica.act()
            else:
                self.placing.look(replica)

    def peer_lost(self, node: str, refused: bool) -> None:
        run = (node, self._reached.pop(node, 0))
        if refused:
            self._refusing[node] = max(run[1], self._refusing.get(node, 0), self.living(node))
        self.heartbeat.lost(node)
        for queue_id in [one for one, early in self._early.items() if node in early]:
            self._early[queue_id].pop(node)
            if not self._early[queue_id]:
                del self._early[queue_id]
        for replica in list(self._replicas.values()):
            if replica.master_replica is not None:
                replica.master_replica.lost(node)
                replica.master_replica.delivery_lease.look()
                self.placing.look(replica)
            elif replica.replica_set.master == node:
                replica.master_lost(refused)

    def liveness_changed(self) -> None:
        for replica in list(self._replicas.values()):
            if replica.master_replica is None:
                replica.act()
            else:
                replica.master_replica.delivery_lease.look()
                self.placing.look(replica)

    # -- what members say

    def arrived(self, node: str, data: bytes, start: i64, end: i64) -> None:
        reader = ReplicationMessageReader(data, start, end)
        if reader.kind == messages.HEARTBEAT:
            self.heartbeat.asked(node, reader.word())
            return
        if reader.kind == messages.HEARTBEAT_REPLY:
            self.heartbeat.answered(node, reader.word())
            self._serve_on(node)
            return
        replica = self._replicas.get(reader.queue_id)
        if messages.is_from_mirror(reader.kind):
            self._from_mirror(node, replica, reader)
        elif replica is not None and replica.master_replica is None and handle_master_message(node, replica, reader):
            self._moved[replica] = None

    def _from_mirror(self, node: str, replica: LocalReplica | None, reader: ReplicationMessageReader) -> None:
        master_replica = None if replica is None else replica.master_replica
        if reader.kind == messages.JOIN:
            self._join(node, master_replica, reader)
        elif master_replica is not None and master_replica.bears(node, reader.tag):
            handle_mirror_message(node, master_replica, reader)

    def _join(self, node: str, master_replica: MasterReplica | None, reader: ReplicationMessageReader) -> None:
        request = reader.join()
        incarnation = self.incarnation_reached(node)
        epoch = 0 if master_replica is None else master_replica.master.replica_set.epoch
        if master_replica is not None and epoch == request.epoch:
            master_replica.joined(node, incarnation, reader.tag, request)
        elif epoch < request.epoch:
            self._early.setdefault(reader.queue_id, {})[node] = (incarnation, reader.tag, request)

    def leads(self, replica: LocalReplica) -> None:
        """This node is master of an epoch: whoever asked too early is heard now."""
        master_replica = replica.master_replica
        assert master_replica is not None
        for node, (incarnation, tag, request) in self._early.pop(replica.queue_id, {}).items():
            if request.epoch == replica.replica_set.epoch and self.incarnation_reached(node) == incarnation:
                master_replica.joined(node, incarnation, tag, request)
        for waiter, node, incarnation in self._awaiting.pop(replica.queue_id, []):
            master_replica.await_open(waiter, node, incarnation)
        self.placing.look(replica)

    def trace_committed(self, queue: LocalQueue, master: Master, entries: list[Entry]) -> None:
        """Let it be seen who holds what, if that is wanted."""
        vhost = self._vhosts.get(queue.vhost)
        if vhost is not None and vhost.tracing:
            epoch, nodes = master.replica_set.epoch, sorted([run[0] for run in master.counted()])
            for entry in entries:
                firehose.trace_committed(vhost.topology, self.own_incarnation[0], queue, entry.message, epoch, nodes)

    # -- handing out

    def partners_changed(self) -> None:
        """Other nodes may count for queues of which this one is master: see to it once, however many those are."""
        self._partners_known = False

    def _find_partners(self) -> None:
        self._partners_known = True
        partners: dict[str, None] = {}
        for replica in self._replicas.values():
            if replica.master_replica is not None:
                for name, _incarnation in replica.master_replica.master.counted():
                    partners[name] = None
        partners.pop(self.own_incarnation[0], None)
        self.heartbeat.watch(list(partners))

    def _serve_on(self, node: str) -> None:
        for replica in self._replicas.values():
            if replica.master_replica is not None and node in replica.master_replica.master.followers:
                replica.master_replica.delivery_lease.look()

    def has_ended(self, run: NodeIncarnation) -> bool:
        """Whether a run of another node serves nobody any more: the store says so, or nobody listens where it did."""
        return self.membership.has_ended(run[0], run[1]) or self._refusing.get(run[0], 0) >= run[1]

    # -- the turn

    def waiting(self) -> bool:
        gathered = len(self.touched) > 0 or len(self._moved) > 0 or self.proposals.waiting()
        return gathered or not self._partners_known

    def end_round(self) -> None:
        """What was gathered becomes steps, and what came is told to be safe."""
        if not self._partners_known:
            self._find_partners()
        touched, self.touched = self.touched, []
        for master_replica in touched:
            master_replica.end_round()
        moved, self._moved = self._moved, {}
        for replica in moved:
            replica.mirror.end_turn()
        self.proposals.make()

    def check(self) -> None:
        """Raise `InvariantBroken` if a master contradicts itself."""
        for replica in self._replicas.values():
            if replica.master_replica is not None:
                replica.master_replica.check()

    # -- queues

    def await_master(self, queue_id: int, node: str, waiter: MasterWaiter) -> None:
        """Tell the waiter, who speaks for a node, when the queue is open here; never, if that does not happen."""
        incarnation = self.own_incarnation[1] if node == self.own_incarnation[0] else self.incarnation_reached(node)
        replica = self._replicas.get(queue_id)
        if replica is not None and replica.master_replica is not None:
            replica.master_replica.await_open(waiter, node, incarnation)
        else:
            self._awaiting.setdefault(queue_id, []).append((waiter, node, incarnation))

    def forget_master(self, queue_id: int, waiter: MasterWaiter) -> None:
        waiting = self._awaiting.pop(queue_id, [])
        left = [one for one in waiting if one[0] is not waiter]
        if left:
            self._awaiting[queue_id] = left
        replica = self._replicas.get(queue_id)
        if replica is not None and replica.master_replica is not None:
            replica.master_replica.forget(waiter)

    def make_queue(
        self, replica: LocalReplica, queue_index: QueueLog, master_replica: MasterReplica
    ) -> tuple[LocalQueue, MirroredLog]:
        return make_queue(replica, self._vhosts[replica.definition.vhost], queue_index, master_replica)

    def deserted(self, queue: LocalQueue) -> None:
        """Whoever consumed from a queue of which this node is master does so no more, at one node at least."""
        if queue.auto_delete and queue.consumer_count() == 0:
            self._vhosts[queue.vhost].delete_unused(queue)

    def close_queue(self, definition: QueueDefinition) -> None:
        """This node's queue is no more, though there may be one elsewhere."""
        vhost = self._vhosts.get(definition.vhost)
        if vhost is not None:
            vhost.remove_master_queue(definition.name)

    def policies_changed(self, vhost: str) -> None:
        self.adopting.look_soon()
        for replica in self._replicas.values():
            if replica.definition.vhost == vhost:
                replica.policies_changed()
