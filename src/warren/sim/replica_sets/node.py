"""A node of a replica set model: master or mirror, by what it has heard of the store and its links; and its queue
proxy.

A mirror that takes its master for lost, and is next in line, leaves it for good: it follows no master until it has seen
another version of the replica set than the one it proposed on. Its proposal may have been applied, and may still be.

A node that is no member of the replica set holds nothing of the queue; its clients still use the queue through the
proxy, which numbers publishes, and sends them again to a new master that lacks them.

A node that is about to stop asks for another master, and does not take that back.

Not here: the model queue (`sim.replica_sets.master`), the order of events (`sim.replica_sets.world`).
"""

from collections import Counter
from collections.abc import Sequence

from warren.broker.links.publish_window import PublishWindow
from warren.broker.model.message import DROPPED, Message
from warren.broker.model.replica_contents import PositionSpan
from warren.broker.model.replica_set import NodeIncarnation, ReplicaSet
from warren.broker.model.turn import FlushWaiter, Turn
from warren.broker.replication.batches import OriginMarks, ReplicationBatch
from warren.broker.replication.master import step_down
from warren.broker.replication.mirror import ALONE, Mirror, MirrorJoinRequest, UpstreamPort
from warren.broker.replication.mirroring_policy import wanted_master, wanted_members
from warren.broker.replication.promotion import promotion_candidates
from warren.sim.replica_sets import links, metadata_store
from warren.sim.replica_sets.links import ATTACH, HELD, PUBLISH, ModelLinks, ModelMessage
from warren.sim.replica_sets.master import ModelMaster, ReplicaSetListener
from warren.sim.replica_sets.metadata_store import DesiredReplicas, ModelMetadataStore, ModelNotification
from warren.sim.replica_sets.replica import ModelReplica


class ModelQueueProxy:
    """The proxy of one node, in one incarnation."""

    def __init__(self, member: "ModelNode") -> None:
        self.window = PublishWindow()
        self.attempt = 0
        self.epoch = 0
        self.open = False
        self.detached = True
        self._member = member

    def publish(self, level: int, persistent: bool) -> None:
        held = int(self.window.last_no)
        content = self._payload(held + 1)
        self.window.add(Message(DROPPED.envelope, content, 1, len(content), 4096, persistent, level), False)
        if self.open:
            self._send_behind(held)

    def attach(self, epoch: int) -> None:
        """The master of this epoch can be reached."""
        self.attempt += 1
        self.epoch = epoch
        self.open = False
        self.detached = False
        member = self._member
        member.send(member.replica_set.master, ModelMessage(ATTACH, epoch, self.attempt, member.incarnation))

    def detach(self) -> None:
        self.attempt += 1
        self.open = False
        self.detached = True

    def receive(self, message: ModelMessage) -> None:
        if message.attempt != self.attempt or message.epoch != self.epoch:
            return
        if message.kind == HELD:
            self.open = True
            self._send_behind(message.number)
        else:
            first = int(self.window.first_no)
            self.window.settle_to(message.number)
            for number in range(first, int(self.window.first_no)):
                self._member.rules.confirm_received(self._payload(number))

    def _send_behind(self, held: int) -> None:
        """The master holds all publishes up to this one: send it the others."""
        member = self._member
        for number, *message in self._unconfirmed(held):
            what = (member.incarnation, *message)
            member.send(member.replica_set.master, ModelMessage(PUBLISH, self.epoch, self.attempt, number, what=what))

    def _unconfirmed(self, held: int) -> list[tuple[int, int, bool, bytes]]:
        return [
            (int(kept.number), int(kept.message.priority), kept.message.persistent, kept.message.content)
            for kept in self.window.to_send(held)
            if kept.message is not None
        ]

    def _payload(self, number: int) -> bytes:
        return f"{self._member.name}/{self._member.incarnation}/{number}".encode()

    def snapshot(self) -> object:
        """The state, for comparison."""
        return (int(self.window.last_no), tuple(self._unconfirmed(0)), self.attempt, self.epoch, self.open)


class ModelCluster:
    """What the nodes share: the links between them, the store, and the rules that they report to."""

    rules: ReplicaSetListener

    def __init__(self, replica_set: ReplicaSet, promotes_unsynced: bool) -> None:
        # a policy lets any member be promoted once no in-sync one is left
        self.promotes_unsynced = promotes_unsynced
        self.seen: Counter[str] = Counter()
        self.links = ModelLinks()
        self.store = ModelMetadataStore(replica_set)
        self.members: dict[str, ModelNode] = {}


class ModelNode(UpstreamPort):
    """One node; its replica survives its incarnations."""

    def __init__(self, world: "ModelCluster", name: str, replica_set: ReplicaSet) -> None:
        self.world = world
        self.name = name
        self.copy = ModelReplica(world.rules.stored)
        self.up = False
        self.incarnation = 0
        self.replica_set = replica_set
        self.start()

    def start(self) -> None:
        """Another run of its process."""
        self.up = True
        self.incarnation += 1
        self.version = 0
        self.wanted = DesiredReplicas()
        # it is about to stop
        self.retreats = False
        self.living: dict[str, int] = {}
        self.peers: set[str] = set()
        self.turn = Turn()
        self.proxy = ModelQueueProxy(self)
        self.mirror = Mirror(self.copy, self, self.turn)
        self.master_replica: ModelMaster | None = None
        # the epoch and the master it follows, and the number of this attempt
        self.following = 0
        self.followed = ""
        self.attempt = 0
        # the version of the replica set on which it proposed itself
        self.frozen = 0
        self.asks_store = False
        # messages for a master that this node does not yet know itself to be
        self.early: list[tuple[str, ModelMessage]] = []
        # waiters for writes to be on disk
        self.batches: list[tuple[int, Sequence[FlushWaiter]]] = []

    def die(self, kept: int) -> None:
        self.up = False
        self.copy.crash(kept)

    @property
    def node_incarnation(self) -> NodeIncarnation:
        return self.name, self.incarnation

    @property
    def rules(self) -> ReplicaSetListener:
        return self.world.rules

    def end_turn(self) -> None:
        if self.master_replica is not None:
            self.master_replica.end_turn()
        self.mirror.end_turn()
        if self.turn.flush_waiters:
            self.batches.append((self.copy.written_no, self.turn.flush_waiters))
            self.turn.flush_waiters = []

    def flushed(self) -> None:
        written_no, waiters = self.batches.pop(0)
        self.copy.flush(written_no)
        for waiter in waiters:
            waiter.flushed()

    def timer_fired(self) -> None:
        self.turn.now_ms = self.turn.next_timer_ms()
        self.turn.fire_timers()

    # -- links

    def connected(self, peer: str) -> None:
        self.peers.add(peer)
        self._look_for_master()
        self._apply_desired_replicas()

    def lost(self, peer: str) -> None:
        self.peers.discard(peer)
        self.early = [(sender, message) for sender, message in self.early if sender != peer]
        if self.master_replica is not None:
            self.master_replica.lost(peer)
        elif peer == self.replica_set.master:
            self._leave()
        if peer == self.replica_set.master:
            self.proxy.detach()
        self._apply_desired_replicas()

    def retreat(self) -> None:
        """Ask for another master before it stops."""
        self.retreats = True
        self._apply_desired_replicas()

    def send(self, peer: str, message: ModelMessage) -> None:
        link = self.world.links.between(self.name, peer)
        if link is not None and peer in self.peers:
            link.send(peer, message)

    def receive(self, peer: str, message: ModelMessage) -> None:
        if message.kind in links.TO_PROXY:
            self.proxy.receive(message)
        elif message.kind in links.TO_MASTER:
            self._receive_as_master(peer, message)
        elif message.attempt == self.attempt and message.epoch == self.following:
            self._receive_as_mirror(message)

    def _receive_as_master(self, peer: str, message: ModelMessage) -> None:
        master_replica = self.master_replica
        if master_replica is None or message.epoch != master_replica.epoch:
            if message.epoch > self.replica_set.epoch or not self.version:
                self.early.append((peer, message))
        elif message.kind == links.ATTACH:
            master_replica.attached(peer, message)
        elif message.kind == links.PUBLISH:
            master_replica.published(peer, message)
        else:
            master_replica.receive(peer, message)

    def _receive_as_mirror(self, message: ModelMessage) -> None:
        mirror = self.mirror
        number, what = message.number, message.what
        if message.kind == links.RESUME:
            mirror.resume(number, message.other)
        elif message.kind == links.START:
            mirror.start(number, message.other, OriginMarks(dict(what)))
        elif message.kind == links.BATCH:
            mirror.take(ReplicationBatch(number, what[0], what[1]))
        elif message.kind == links.COMMIT:
            mirror.commit(number)
        elif message.kind == links.BACKFILL:
            held, returned = what
            mirror.take_backfill(number, held.level, 0, held.persistent, returned, held.payload, 0)
        elif message.kind == links.SURPLUS:
            mirror.remove_surplus(what)
        else:
            mirror.backfill_done()

    # -- the mirror's port

    def join(self, request: MirrorJoinRequest) -> None:
        self.attempt += 1
        what = (request.whole, int(request.end), int(request.committed), tuple(request.beginnings), self.version)
        self._send_to_master(ModelMessage(links.JOIN, self.following, self.attempt, self.incarnation, what=what))

    def flushed_to(self, number: int) -> None:
        self._send_to_master(ModelMessage(links.FLUSHED, self.following, self.attempt, int(number)))

    def has(self, spans: list[PositionSpan]) -> None:
        self._send_to_master(ModelMessage(links.HAS, self.following, self.attempt, what=tuple(spans)))

    def caught_up(self) -> None:
        self._send_to_master(ModelMessage(links.CAUGHT_UP, self.following, self.attempt))

    def _send_to_master(self, message: ModelMessage) -> None:
        self.send(self.followed, message)

    # -- the store

    def notified(self, news: ModelNotification) -> None:
        if news.wanted is not None:
            self.wanted = news.wanted
            self._apply_desired_replicas()
        if news.replica_set is not None:
            self.see(news.version, news.replica_set)
            if news.anew and self.following and self.node_incarnation not in self.replica_set.in_sync:
                # it may have been removed and added again: then its master does not count it as a follower
                self._leave()
                self._look_for_master()
        elif news.living[0]:
            name, incarnation = news.living
            self.living[name] = incarnation

    def see(self, version: int, replica_set: ReplicaSet) -> None:
        """A version of the replica set; perhaps a known one."""
        if version <= self.version:
            return
        self.version, self.replica_set = version, replica_set
        self.frozen = 0
        if replica_set.master_incarnation == self.node_incarnation:
            if self.master_replica is not None and self.master_replica.epoch == replica_set.epoch:
                self.master_replica.changed(replica_set, version)
            else:
                self._become_master(replica_set)
            self._apply_desired_replicas()
        elif self.master_replica is not None:
            self._step_down()
        if self.name not in replica_set.members:
            self._hold_nothing()
        self._look_for_master()

    def _become_master(self, replica_set: ReplicaSet) -> None:
        """With the whole queue it continues where the last master was; otherwise it begins a line with what it has."""
        self._leave()
        continues = self.mirror.whole
        self.master_replica = ModelMaster(self, replica_set, self.mirror if continues else None)
        self.rules.promoted(self.master_replica, continues, self.mirror.marks)
        early, self.early = self.early, []
        for peer, message in early:
            self._receive_as_master(peer, message)

    def _step_down(self) -> None:
        """It continues as a mirror with all it has, unless its epoch was never opened."""
        master_replica = self.master_replica
        assert master_replica is not None
        master_replica.over = True
        self.master_replica = None
        self.mirror = Mirror(self.copy, self, self.turn)
        self.following = 0
        if master_replica.master.opened:
            step_down(master_replica.master, self.mirror)

    def _hold_nothing(self) -> None:
        if self.following or self.mirror.whole or self.copy.held:
            self._leave()
            self.mirror = Mirror(self.copy, self, self.turn)
            self.copy.clear()

    def _look_for_master(self) -> None:
        replica_set = self.replica_set
        if replica_set.master not in self.peers or not self.version:
            return
        if self.proxy.epoch != replica_set.epoch or self.proxy.detached:
            self.proxy.attach(replica_set.epoch)
        if (
            self.master_replica is not None
            or self.frozen
            or replica_set.master == self.name
            or self.name not in replica_set.members
        ):
            return
        if self.following != replica_set.epoch:
            self.following = replica_set.epoch
            self.followed = replica_set.master
            self.mirror.follow(replica_set.epoch)

    def _leave(self) -> None:
        self.following = 0
        self.mirror.leave()

    # -- the desired replica set

    def _apply_desired_replicas(self) -> None:
        """Pass the desired replicas on to the master, if it is on this node."""
        if self.master_replica is None:
            return
        master, replica_set, wanted = self.master_replica.master, self.replica_set, self.wanted
        if self.retreats:
            master.want_master(self._promotion_target(), self.world.promotes_unsynced, stopping=True)
        elif wanted.mode == metadata_store.ALONE:
            master.want([replica_set.master])
        else:
            nodes = list(self.world.members)
            running = [name for name in nodes if name in self.peers]
            master.want(wanted_members(wanted.spec(), replica_set, nodes, running, self.version))
            name = wanted_master(wanted.spec(), replica_set, running)
            master.want_master("" if name == replica_set.master else name)

    def _promotion_target(self) -> str:
        """The eldest in-sync member in reach; any other member, if the policy lets any be promoted."""
        replica_set = self.replica_set
        others = [*replica_set.synced_names(), *(replica_set.members if self.world.promotes_unsynced else [])]
        return next((name for name in others if name != self.name and name in self.peers), "")

    # -- when there is no master

    def takes_master_for_lost(self) -> bool:
        """It may propose itself: there is no master, or it has proposed and the outcome is unknown."""
        if self.master_replica is not None or not self.version or self.asks_store:
            return False
        if self.frozen:
            return True
        name, incarnation = self.replica_set.master_incarnation
        lost = name not in self.peers or self.living.get(name) != incarnation
        return lost and not self.retreats and self.node_incarnation in self.candidates()

    def candidates(self) -> list[NodeIncarnation]:
        living = {name: incarnation for name, incarnation in self.living.items() if incarnation}
        return promotion_candidates(self.replica_set, living, self.world.promotes_unsynced)

    def propose_itself(self) -> None:
        self._leave()
        self.frozen = self.version
        self.propose(self.replica_set.promoting(self.node_incarnation))

    def propose(self, replica_set: ReplicaSet) -> None:
        self.asks_store = True
        self.world.store.propose(self.node_incarnation, self.version, replica_set)

    def refused(self) -> None:
        """The outcome of its proposal is unknown."""
        self.asks_store = False
        if self.master_replica is not None:
            self.master_replica.master.refused()

    def at_rest(self) -> bool:
        """It holds everything, as master or mirror, and waits for nothing."""
        if not self.up or self.proxy.window.first_no <= self.proxy.window.last_no:
            return False
        if self.name not in self.replica_set.members:
            return not self.copy.held
        if self.master_replica is not None:
            return self.master_replica.is_open and not self.master_replica.uncommitted
        return self.mirror.state != ALONE and self.mirror.whole and not self.mirror.batches
