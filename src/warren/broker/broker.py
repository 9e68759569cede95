"""The core of a node. `handle(events, now_ms) -> effects` is its only entry point.

A turn runs in a fixed order: the events, the timers that are due, then rounds of dead letters and drains until both
lists are empty, then the journal's batch, then every connection's confirms and output. Confirms, deliveries, flushes
and writes are batched by the turn and by nothing else. A method with a reply drains the queues before it is handled, so
that deliveries of earlier publishes precede the reply.

Invariants: an effect is returned by the turn that caused it. If work is left on the turn's lists when `handle` returns
(drains and input beyond the turn's budget of work, input of connections without output budget, dead letters beyond a
turn's slice), a timer is set at once.

Not here: sockets, clocks and threads (`node`), one client's conversation (`broker.sessions`), one queue
(`broker.queues`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.broker.access.backends import LoginAttempt, LoginWaiter
from warren.broker.access.logins import Logins
from warren.broker.access.rights import Rights
from warren.broker.access.users import AccessCatalog
from warren.broker.alarms import Alarms
from warren.broker.appliers import AccessApplier, PolicyApplier, TopologyApplier, VhostOwner
from warren.broker.cluster.cluster import ClientService, ClusterNode
from warren.broker.cluster.join import ClusterJoin
from warren.broker.cluster.mirror_commands import MirrorCommands
from warren.broker.commands.access import LoginCommands, UserCommands, VhostCommands
from warren.broker.commands.connections import ConnectionCommands
from warren.broker.commands.control import Control
from warren.broker.commands.policies import ParameterCommands, PolicyCommands
from warren.broker.commands.topology import TopologyCommands
from warren.broker.connections import ClientConnections, ConnectionLimits
from warren.broker.dead_letters import DeadLetterQueue
from warren.broker.journal.recovery import StartupState
from warren.broker.metadata.backend import CurrentMetadataBackend, LocalMetadataBackend, MetadataAppliers
from warren.broker.metadata.policy_definitions import GlobalParameterDefinition
from warren.broker.metadata.store import Definition
from warren.broker.metadata.transaction import MetadataTransaction
from warren.broker.model.effects import Effect, PauseService, ResumeService, SetTimer, StopNode
from warren.broker.model.events import (
    BytesReceived,
    ClusterEvent,
    CommandReceived,
    Event,
    StopRequested,
)
from warren.broker.model.identity import Identity
from warren.broker.model.message import Message
from warren.broker.model.names import NameGenerator
from warren.broker.model.settings import BrokerSettings
from warren.broker.model.stats import NodeStats
from warren.broker.model.turn import FlushWaiter, Turn
from warren.broker.policies.policies import CLUSTER_ID, CLUSTER_NAME, Policies
from warren.broker.sessions.acks import ConsumerTimeouts
from warren.broker.sessions.connection import Connection
from warren.broker.sessions.ports import NodePort, SessionPort, VhostEntry, VhostPort
from warren.broker.startup import add_first_access
from warren.broker.storage import Storage
from warren.broker.vhost import Vhost
from warren.errors import NOT_ALLOWED, ConnectionFault

DEAD_LETTER_BYTES_A_TURN: Final = 1024 * 1024
"""More dead letters wait for the next turn, so that a cycle of dead-letter queues does not delay other work."""


@final
class Broker(NodePort, VhostOwner, ClientService, FlushWaiter):
    """The core of one node. Generated names cannot be guessed if `seed` cannot.

    `found` is the state on disk; a core without it keeps everything in memory.
    """

    def __init__(self, settings: BrokerSettings, seed: bytes, found: StartupState | None = None) -> None:
        super().__init__(settings, Turn(settings.work_a_turn))
        self._clients: ClientConnections = ClientConnections(self)
        self.connections: dict[int, Connection] = self._clients.connections
        self.stats: NodeStats = self.turn.stats
        self.vhosts: dict[str, Vhost] = {}
        self.access: AccessCatalog = AccessCatalog()
        self._names: NameGenerator = NameGenerator(seed)
        self._logins: Logins = Logins(settings, self.turn, self.access, self._names.secret())
        self._connection_limits: ConnectionLimits = ConnectionLimits(self.access)
        self._dead_letters: DeadLetterQueue = DeadLetterQueue(self.turn, settings.node_name)
        self._alarms: Alarms = Alarms(self.turn, settings.paging_ratio)
        self._timeouts: ConsumerTimeouts = ConsumerTimeouts(settings, self.turn, self.connections)
        self._timer_at_ms: i64 = 0
        self._stopping: bool = False
        # the last batch before the stop was ordered, and is on disk
        self._final_batch_ordered: bool = False
        self._final_batch_flushed: bool = False
        self._storage: Storage | None = None
        self.appliers: MetadataAppliers = MetadataAppliers()
        self._local_backend: LocalMetadataBackend = LocalMetadataBackend(self.appliers)
        self._backend: CurrentMetadataBackend = CurrentMetadataBackend(self._local_backend)
        self.control: Control = Control(self.turn, self._backend)
        self.policies: Policies = Policies()
        self.parameters: ParameterCommands = ParameterCommands(self.policies, self.vhosts)
        if found is not None:
            self.turn.now_ms = found.now_ms
            self._storage = Storage(settings, self.turn, found)
            self.control.journal = self._storage.journal
            self._local_backend.metadata = self._storage.metadata
        self._cluster_join: ClusterJoin = ClusterJoin(
            self,
            self,
            self._local_backend,
            self._backend,
            self.appliers,
            self.vhosts,
            self.policies,
            self._names,
            self._connection_limits,
            self._storage,
        )
        self._add_appliers()
        self._add_handlers()
        if found is None or found.shared is None:
            self._cluster_join.incarnation = 0 if found is None else found.incarnation
            self._start_alone(seed)
        else:
            cluster = self._cluster_join.start_as_member(found.incarnation)
            self._load()
            cluster.adopt(found.revision, found.shared)
        # effects of loading are returned by the first turn
        self._first_effects: list[Effect] = self.turn.effects

    def handle(self, events: list[Event], now_ms: int) -> list[Effect]:
        turn = self.turn
        turn.begin(now_ms)
        turn.may_be_behind = self.may_be_behind()
        turn.effects = self._first_effects
        self._first_effects = []
        self._resume_inputs()
        for event in events:
            self._handle_event(event)
        self._timeouts.start()
        turn.fire_timers()
        self._finish()
        return turn.effects

    def _load(self) -> list[Definition]:
        """Apply recorded definitions; those of queues, exchanges and bindings are loaded by the storage."""
        if self._storage is None:
            return []
        recorded = self._storage.other_definitions()
        for definition in recorded:
            self.appliers.put(definition, 0)
        for name in self._storage.vhost_names():
            if name not in self.vhosts:
                self.add_vhost(name)
        self._storage.load(self.vhosts)
        return recorded

    def _start_alone(self, seed: bytes) -> None:
        """Load recorded definitions, and add those of a first start."""
        recorded = self._load()
        transaction = MetadataTransaction()
        add_first_access(transaction, self.settings, seed, recorded, self.vhosts)
        if CLUSTER_ID not in self.policies.global_parameters:
            transaction.put(GlobalParameterDefinition(CLUSTER_ID, self._names.fresh("rabbitmq-cluster-id-")))
        self._backend.submit(transaction, None)

    def add_vhost(self, name: str) -> Vhost:
        storage = self._storage
        journal = None if storage is None else storage.journal
        streams = None if storage is None else storage.streams
        vhost = Vhost(name, self.turn, self._backend, journal, self.policies, self.connections, streams)
        vhost.dead_letterer = self._dead_letters
        vhost.queue_locations = self._cluster_join.cluster
        self.vhosts[name] = vhost
        return vhost

    def remove_vhost(self, name: str) -> None:
        self.vhosts[name].dismantle()
        self._dead_letters.drop_letters_of_vhost(name)
        del self.vhosts[name]

    def check(self) -> None:
        """Raise `InvariantBroken` if the state of this node is inconsistent."""
        for vhost in self.vhosts.values():
            vhost.check()
        cluster = self._cluster_join.cluster
        if cluster is not None and cluster.replica_sets is not None:
            cluster.replica_sets.check()
        for connection in self.connections.values():
            connection.check()
        if self._storage is not None:
            self._storage.journal.check()

    def _add_appliers(self) -> None:
        self.appliers.add(
            AccessApplier(self.access, self._logins.internal, self._connection_limits, self, self.vhosts, self.turn)
        )
        self.appliers.add(PolicyApplier(self.policies, self.vhosts, self.turn))
        self.appliers.add(TopologyApplier(self.vhosts, self.stats))

    def _add_handlers(self) -> None:
        self.control.add(UserCommands(self.access, self.vhosts))
        self.control.add(VhostCommands(self.vhosts, self.access, self.policies))
        self.control.add_deferring(LoginCommands(self._logins, self.vhosts, self.turn))
        self.control.add(PolicyCommands(self.policies, self.vhosts))
        self.control.add(self.parameters)
        self.control.add(TopologyCommands(self.vhosts))
        self.control.add(ConnectionCommands(self.connections))
        self.control.add(MirrorCommands(self._cluster_join, self.vhosts))
        self.control.add_deferring(self._cluster_join)

    # -- services for sessions

    def log_in(self, attempt: LoginAttempt, waiter: LoginWaiter) -> None:
        self._logins.log_in(attempt, waiter)

    def renew(self, connection: SessionPort, secret: str, waiter: LoginWaiter) -> None:
        assert connection.identity is not None, "the client has logged in"
        self._logins.renew(connection.identity, secret, connection.opened.peer_host, waiter)

    def enter(self, connection: SessionPort, vhost: str, entry: VhostEntry) -> VhostPort | None:
        found = self.vhosts.get(vhost)
        if found is None:
            raise ConnectionFault(NOT_ALLOWED, f"vhost {vhost} not found")
        self._connection_limits.check_room(connection, found)
        assert connection.identity is not None, "the client has logged in"
        if not entry.decided:
            self._logins.ask_to_enter(connection.identity, vhost, connection.opened.peer_host, entry)
        if not entry.decided:
            return None
        if not entry.allowed:
            raise ConnectionFault(NOT_ALLOWED, f"access to vhost '{vhost}' refused for user '{connection.user}'")
        self._connection_limits.add_connection(connection, vhost)
        return found

    def may_enter(self, identity: Identity, vhost: str) -> bool:
        return self._logins.may_enter(identity, vhost)

    def rights(self, identity: Identity, vhost: str) -> Rights:
        return self._logins.rights(identity, vhost)

    def tags(self, identity: Identity) -> list[str]:
        """The current tags of a client that has logged in."""
        return self._logins.tags(identity)

    def check_channel_room(self, connection: SessionPort) -> None:
        self._connection_limits.check_channel_room(connection)

    def cluster_name(self) -> str:
        name = self.policies.global_parameters.get(CLUSTER_NAME)
        return name if isinstance(name, str) else self._cluster_join.first_node()

    def cluster_id(self) -> str:
        return str(self.policies.global_parameters[CLUSTER_ID])

    @property
    def cluster(self) -> ClusterNode | None:
        """The cluster side of this node; None without a cluster."""
        return self._cluster_join.cluster

    def forward_reply(self, node: str, inbox: str, message: Message) -> None:
        if self._cluster_join.cluster is not None:
            self._cluster_join.cluster.links.reply(node, inbox, message)

    def fresh_name(self, prefix: str) -> str:
        return self._names.fresh(prefix)

    def metadata_pending(self) -> bool:
        return self._storage is not None and self._storage.journal.metadata_pending()

    def connection_ended(self, connection: SessionPort) -> None:
        if connection.vhost is not None:
            name = connection.vhost.name
            self._connection_limits.remove_connection(connection, name)
            self.vhosts[name].delete_queues_of(connection.connection_id)

    # -- events

    def _resume_inputs(self) -> None:
        """Handle input that waited for an earlier turn; if the budget does not suffice for all, the others are next."""
        turn = self.turn
        waiting = turn.inputs
        turn.inputs = []
        resumed = 0
        for held in waiting:
            if turn.work >= turn.work_max:
                break
            resumed += 1
            if isinstance(held, Connection):
                self._clients.resume(held)
            else:
                held.go_on()
        turn.inputs = waiting[resumed:] + turn.inputs

    def _handle_event(self, event: Event) -> None:
        if isinstance(event, BytesReceived):
            self._clients.received(event)
        elif isinstance(event, ClusterEvent):
            self._cluster_join.take(event)
        elif self._clients.handle(event) or self._alarms.handle(event):
            return
        elif isinstance(event, CommandReceived):
            self.control.handle(event)
        elif self._logins.handle(event):
            return
        elif isinstance(event, StopRequested):
            self._stop()
        elif self._storage is not None:
            self._storage.handle(event)

    def _stop(self) -> None:
        self._stopping = True
        self.turn.note("info", "node.stopping", {"connections": len(self.connections)})
        self._clients.stop_accepting("shutdown")
        if self._cluster_join.cluster is not None:
            self._cluster_join.cluster.retreat()

    # -- partitions

    def pause(self) -> None:
        self.turn.note("warning", "node.paused", {"connections": len(self.connections)})
        self._clients.stop_accepting("cut off from too many nodes of the cluster")
        self.turn.effects.append(PauseService())

    def resume(self) -> None:
        self.turn.note("warning", "node.resumed", {})
        if not self._stopping:
            self._clients.start_accepting()
        self.turn.effects.append(ResumeService())

    def may_be_behind(self) -> bool:
        cluster = self._cluster_join.cluster
        return cluster is not None and cluster.shared.may_be_behind(int(self.turn.now_ms))

    # -- the end of the turn

    def _finish(self) -> None:
        turn = self.turn
        cluster = self._cluster_join.cluster
        stops = self._stopping and not self.connections and (cluster is None or cluster.may_leave())
        if stops and cluster is not None:
            cluster.leave()
        budget_bytes = DEAD_LETTER_BYTES_A_TURN
        turn.work = 0
        while (
            (turn.drains and turn.work < turn.work_a_turn)
            or (budget_bytes > 0 and self._dead_letters.waiting())
            or (cluster is not None and cluster.busy())
        ):
            if budget_bytes > 0:
                budget_bytes = self._dead_letters.publish_slice(self.vhosts, budget_bytes)
            turn.drain_queues()
            if cluster is not None:
                cluster.end_round()
        turn.fold_counters()
        turn.free_discards()
        if stops:
            self._stop_node()
        if self._storage is not None:
            self._storage.journal.end_turn()
        else:
            self._end_flush_waits()
        self._update_alarm()
        outputs, turn.outputs = turn.outputs, []
        for output in outputs:
            output.flush()
        if self._cluster_join.cluster is not None:
            self._cluster_join.cluster.end_turn()
        self._set_timer()

    def _end_flush_waits(self) -> None:
        """Without a disk, flushes complete at once."""
        waiters = self.turn.flush_waiters
        self.turn.flush_waiters = []
        for waiter in waiters:
            waiter.flushed()

    def _stop_node(self) -> None:
        """All connections have ended: write the last batch, and stop when it is on disk."""
        if self._storage is None or self._final_batch_flushed:
            self.turn.effects.append(StopNode())
        elif not self._final_batch_ordered:
            self._final_batch_ordered = True
            self._storage.journal.stop()
            self.turn.await_flush(self)

    def flushed(self) -> None:
        """The last batch is on disk."""
        self._final_batch_flushed = True

    def _update_alarm(self) -> None:
        alarm = self._alarms.update()
        if self._cluster_join.cluster is not None:
            alarm = self._cluster_join.cluster.notices.alarmed(alarm)
        if alarm == self.alarm:
            return
        self.alarm = alarm
        if alarm:
            self.turn.note("warning", "alarm.raised", {"reason": alarm})
            return
        self.turn.note("warning", "alarm.cleared", {})
        for connection in self.connections.values():
            if connection.blocked:
                connection.unblock()

    def _set_timer(self) -> None:
        turn = self.turn
        unfinished = turn.drains or turn.inputs or turn.flush_waiters or turn.discards or self._dead_letters.waiting()
        wanted_ms: i64 = turn.now_ms if unfinished else turn.next_timer_ms()
        if self._timer_at_ms <= turn.now_ms:
            self._timer_at_ms = 0
        if wanted_ms != 0 and (self._timer_at_ms == 0 or wanted_ms < self._timer_at_ms):
            self._timer_at_ms = wanted_ms
            turn.effects.append(SetTimer(wanted_ms))
