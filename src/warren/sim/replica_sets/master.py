"""The master of a replica set model: the production `Master`, and a model queue that follows it.

A message is in the queue when its batch is committed. It is delivered when a watermark at or above it is committed,
too. A removed message leaves the replica when its removal is committed, as at mirrors.

**Joining mirrors** have told what they hold, and get what they lack. Without automatic sync, an operator starts it and
may stop it again: a mirror keeps what it was sent, and gets the rest later. If everything that it lacks is removed
meanwhile, it has caught up, too. Backfill begins once this epoch is open, because inherited removals are carried out
first, and once the batch before the mirror's first one is committed, because the mirror does not hear of removals up to
there.

Not here: who is master (`sim.replica_sets.node`), the mirror's side (`broker.replication.mirror`), the rules
(`sim.replica_sets.invariants`).
"""

from typing import Protocol

from warren.broker.model.replica_contents import BackfillReceiver, PositionSpan
from warren.broker.model.replica_set import NodeIncarnation, ReplicaSet
from warren.broker.model.turn import Turn
from warren.broker.replication.backfill import span_difference
from warren.broker.replication.batches import (
    REMOVE,
    RETURNED,
    STORE,
    Epochs,
    OriginMarks,
    ReplicationBatch,
)
from warren.broker.replication.master import DownstreamPort, Master, ReplicaSetOwner
from warren.broker.replication.mirror import Mirror, MirrorJoinRequest
from warren.broker.replication.mirrored_log import ReplicatedWatermark
from warren.errors import InvariantBroken
from warren.sim.replica_sets import links
from warren.sim.replica_sets.links import ModelMessage
from warren.sim.replica_sets.metadata_store import DesiredReplicas
from warren.sim.replica_sets.operations import ReplicatedOperation, replicated_operations
from warren.sim.replica_sets.replica import ModelReplica, ModelReplicaReader, ModelStoredMessage, spans_of


class ModelJoiningMirror(BackfillReceiver):
    """The backfill of one joining mirror."""

    def __init__(self, master_replica: "ModelMaster", node: str, spans: list[PositionSpan]) -> None:
        self.allowed = master_replica.member.wanted.syncs
        self.reader: ModelReplicaReader | None = None
        self._master_replica = master_replica
        self._node = node
        self._theirs = spans
        # the first position that it gets in a batch, and the batch before that
        self._below = master_replica.firsts[node]
        self._began = int(master_replica.master.followers[node].began)
        self._sent: list[int] = []

    def look(self) -> None:
        """Begin, if it is allowed, or if nothing is lacking."""
        master_replica = self._master_replica
        if self.reader is not None or not master_replica.is_open or master_replica.master.committed < self._began:
            return
        ours = master_replica.copy.spans()
        lacking = span_difference(ours, self._theirs, self._below)
        if lacking and not self.allowed:
            return
        surplus = span_difference(self._theirs, ours, self._below)
        for span in surplus:
            master_replica.send_to_follower(self._node, links.SURPLUS, 0, span)
        self._theirs = span_difference(self._theirs, surplus, self._below)
        self.reader = master_replica.copy.read(lacking, self)

    def feed(self, count: int) -> None:
        """Send the next slice."""
        assert self.reader is not None
        self.reader.more(count)

    def stop(self) -> None:
        """Send no more until it is allowed again."""
        self.allowed = False
        self.reader = None
        theirs = [each for span in self._theirs for each in range(int(span.first), int(span.last) + 1)]
        self._theirs = spans_of([*theirs, *self._sent])
        self._sent = []

    def backfill_message(
        self,
        position: int,
        priority: int,
        expires_at_ms: int,
        persistent: bool,
        returned: int,
        payload: bytes,
        payload_crc: int,
    ) -> None:
        self._sent.append(position)
        self._master_replica.send_to_follower(
            self._node, links.BACKFILL, position, (ModelStoredMessage(priority, persistent, payload), returned)
        )

    def backfill_slice_done(self) -> None:
        pass

    def backfill_done(self) -> None:
        self._master_replica.fed(self._node)
        self._master_replica.send_to_follower(self._node, links.BACKFILL_OVER, 0, None)

    def backfill_failed(self, reason: str) -> None:
        raise InvariantBroken(reason)

    def snapshot(self) -> object:
        """The state, for comparison."""
        left = -1 if self.reader is None else len(self.reader.found)
        return (self.allowed, tuple(self._theirs), self._below, self._began, tuple(self._sent), left)


EPOCH_SHIFT = 40
"""Each epoch has its own positions: that many bits."""


class ReplicaSetListener(Protocol):
    """The rules, as nodes and masters report to them."""

    def stored(self, position: int, payload: bytes) -> None: ...

    def promoted(self, master_replica: "ModelMaster", continues: bool, marks: OriginMarks) -> None: ...

    def proposed(self, master_replica: "ModelMaster", replica_set: ReplicaSet) -> None: ...

    def committed(
        self, master_replica: "ModelMaster", number: int, epoch: int, operations: tuple[ReplicatedOperation, ...]
    ) -> None: ...

    def delivered(self, master_replica: "ModelMaster", position: int, marked: bool) -> None: ...

    def removed(self, payload: bytes) -> None: ...

    def confirm_received(self, payload: bytes) -> None: ...


class ModelMasterHost(Protocol):
    """The node that a master runs on."""

    name: str
    incarnation: int
    copy: ModelReplica
    turn: Turn
    wanted: DesiredReplicas
    peers: set[str]

    @property
    def node_incarnation(self) -> NodeIncarnation: ...

    @property
    def rules(self) -> ReplicaSetListener: ...

    def send(self, peer: str, message: ModelMessage) -> None: ...

    def propose(self, replica_set: ReplicaSet) -> None: ...


class ModelMaster(ReplicaSetOwner):
    """The master on one node, in one epoch."""

    def __init__(self, member: ModelMasterHost, replica_set: ReplicaSet, mirror: Mirror | None) -> None:
        self.member = member
        self.copy = member.copy
        self.epoch = replica_set.epoch
        self.over = False
        self.is_open = False
        self.next_position = replica_set.epoch << EPOCH_SHIFT
        # earlier masters may have delivered up to here
        self.watermark_before = self.copy.watermark
        # its own replica's may come from a batch that others dropped
        self.watermark = ReplicatedWatermark(in_order=True)
        self.watermark.request(self.copy.watermark)
        # the queue: committed messages; messages out with consumers; messages ever delivered
        self.arrived: set[int] = set()
        self.out: set[int] = set()
        self.handed: set[int] = set()
        # removed, by the uncommitted batch that says so
        self.gone: dict[int, int] = {}
        self.returns: dict[int, int] = {}
        # the operations of uncommitted batches, and their epochs
        self.uncommitted: dict[int, tuple[int, tuple[ReplicatedOperation, ...]]] = {}
        # the last attempt of each node to follow, and to attach
        self.joins: dict[str, int] = {}
        self.proxies: dict[str, tuple[int, int]] = {}
        self.committed_marks = OriginMarks()
        # the count that each proxy was told to be confirmed
        self.confirmed: dict[str, int] = {}
        # joining mirrors, and the first position that each gets in a batch
        self.joining_mirrors: dict[str, ModelJoiningMirror] = {}
        self.firsts: dict[str, int] = {}
        end = 0 if mirror is None else int(mirror.end)
        self.master: Master = Master(replica_set, member.node_incarnation, ModelDownlink(self), self, member.turn, end)
        if mirror is None:
            self.copy.caught_up()
        else:
            self._inherit(mirror)
        self.master.open()

    def _inherit(self, mirror: Mirror) -> None:
        for batch in mirror.batches:
            self.uncommitted[int(batch.number)] = int(batch.epoch), replicated_operations(batch.data)
        epochs = Epochs(list(mirror.epochs.beginnings))
        self.master.inherit(list(mirror.batches), mirror.committed, epochs, mirror.marks.copy())

    # -- the turn

    def end_turn(self) -> None:
        writer, number = self.master.writer, int(self.master.end) + 1
        watermark = self.watermark.take_unwritten()
        if watermark:
            writer.mark_delivered(watermark)
            self.watermark.written(number)
            if self.copy.mark_delivered(watermark):
                self.master.must_be_flushed()
        if len(writer):
            self.uncommitted[number] = self.epoch, replicated_operations(writer._out.getvalue())
        self.master.end_turn()

    def committed(self, number: int) -> None:
        if self.over:
            return
        self.watermark.batch_committed(number)
        for each in sorted(self.uncommitted):
            if each <= number:
                epoch, operations = self.uncommitted.pop(each)
                self.member.rules.committed(self, each, epoch, operations)
                for operation in operations:
                    self._carry_out(operation)
        if self.is_open:
            self._confirm()
        elif self.master.opened:
            self._open()
        self.look_at_joining_mirrors()

    def _carry_out(self, operation: ReplicatedOperation) -> None:
        if operation.kind == STORE:
            self.arrived.add(operation.first)
            name, incarnation, _count = operation.payload.decode().split("/")
            self.committed_marks.record(name, int(incarnation), operation.last)
        elif operation.kind == REMOVE:
            self.copy.remove(operation.level, operation.first, operation.last)
            for position in range(operation.first, operation.last + 1):
                self.arrived.discard(position)
                self.gone.pop(position, None)
        elif operation.kind == RETURNED:
            self.copy.returned(operation.first, operation.last)

    def _open(self) -> None:
        """All inherited batches are committed and carried out."""
        self.is_open = True
        self.arrived = set(self.copy.held)
        self.committed_marks = self.master.marks.copy()
        for node in self.proxies:
            self._answer(node)

    def check(self) -> None:
        """Raise `InvariantBroken` if an invariant of the machine does not hold."""
        self.master.check()
        self.watermark.check(self.master.committed)

    # -- publishes

    def attached(self, node: str, message: ModelMessage) -> None:
        self.proxies[node] = message.attempt, message.number
        self.confirmed.pop(node, None)
        if self.is_open:
            self._answer(node)

    def _answer(self, node: str) -> None:
        attempt, incarnation = self.proxies[node]
        self._send(node, ModelMessage(links.HELD, self.epoch, attempt, self.master.marks.of(node, incarnation)))
        self._confirm()

    def _confirm(self) -> None:
        for node, (attempt, incarnation) in self.proxies.items():
            count = self.committed_marks.of(node, incarnation)
            if count > self.confirmed.get(node, 0):
                self.confirmed[node] = count
                self._send(node, ModelMessage(links.CONFIRMED, self.epoch, attempt, count))

    def published(self, node: str, message: ModelMessage) -> None:
        if self.proxies.get(node, (0, 0))[0] != message.attempt:
            return
        incarnation, level, persistent, payload = message.what
        marks = self.master.marks
        if message.number <= marks.of(node, incarnation):
            return
        marks.record(node, incarnation, message.number)
        position = self.next_position
        self.next_position += 1
        self.master.writer.origin(node, incarnation)
        self.master.writer.store(position, level, 0, persistent, message.number, payload, 0)
        if self.copy.store(position, level, 0, persistent, payload, 0):
            self.master.must_be_flushed()

    # -- consumers

    def mark_delivered(self, ahead: int) -> None:
        """Raise the watermark above the first message that is not below it."""
        self.watermark.request(min(each for each in self.arrived if each > self.watermark.requested) + ahead)

    def can_raise_watermark(self) -> bool:
        return any(position > self.watermark.requested for position in self.arrived)

    def deliverable(self) -> list[int]:
        out, committed = self.out, self.watermark.committed
        return sorted(each for each in self.arrived - out if each <= committed and each not in self.gone)

    def deliver(self) -> None:
        position = self.deliverable()[0]
        marked = position <= self.watermark_before or position in self.handed
        self.out.add(position)
        self.handed.add(position)
        self.member.rules.delivered(self, position, marked)

    def ack(self, position: int) -> None:
        self.out.discard(position)
        self._remove(position, position)

    def purge(self) -> None:
        """Remove the ready messages, in ranges of consecutive positions."""
        ready = sorted(self.arrived - self.out - set(self.gone))
        for level in (0, 1):
            for span in spans_of([position for position in ready if self.copy.held[position].level == level]):
                self._remove(int(span.first), int(span.last))

    def _remove(self, first: int, last: int) -> None:
        level = self.copy.held[first].level
        for position in range(first, last + 1):
            self.gone[position] = int(self.master.end) + 1
            self.member.rules.removed(self.copy.held[position].payload)
        self.master.writer.remove(level, first, last)

    def requeue(self, position: int) -> None:
        self.out.discard(position)
        count = self.returns.get(position, 0) + 1
        self.returns[position] = count
        self.master.writer.returned(position, count)

    # -- followers

    def receive(self, node: str, message: ModelMessage) -> None:
        """A message from a follower."""
        if message.kind == links.JOIN:
            self._forget(node)
            self.joins[node] = message.attempt
            whole, end, committed, beginnings, known = message.what
            request = MirrorJoinRequest(message.epoch, whole, end, committed, list(beginnings), known)
            self.master.joined(node, message.number, request)
        elif self.joins.get(node) != message.attempt:
            return
        elif message.kind == links.FLUSHED:
            self.master.flushed_to(node, message.number)
        elif message.kind == links.HAS:
            self.master.contents_received(node, list(message.what))
        else:
            self.master.caught_up(node)

    def lost(self, node: str) -> None:
        self._forget(node)
        self.proxies.pop(node, None)
        self.master.lost(node)

    def changed(self, replica_set: ReplicaSet, version: int) -> None:
        self.master.changed(replica_set, version)
        for node in [node for node in self.joining_mirrors if node not in replica_set.members]:
            del self.joining_mirrors[node]

    def _forget(self, node: str) -> None:
        self.joins.pop(node, None)
        self.joining_mirrors.pop(node, None)

    def lacks(self, node: str, spans: list[PositionSpan]) -> None:
        self.joining_mirrors[node] = ModelJoiningMirror(self, node, spans)
        self.look_at_joining_mirrors()

    def look_at_joining_mirrors(self) -> None:
        for joining_mirror in list(self.joining_mirrors.values()):
            joining_mirror.look()

    def fed(self, node: str) -> None:
        """A joining mirror has been sent everything that it lacked."""
        del self.joining_mirrors[node]

    def send_to_follower(self, node: str, kind: str, number: int, what: object, other: int = 0) -> None:
        """Send a message to a follower."""
        self._send(node, ModelMessage(kind, self.epoch, self.joins[node], number, other, what))

    def _send(self, node: str, message: ModelMessage) -> None:
        if not self.over:
            self.member.send(node, message)

    # -- the machine's port

    def propose(self, replica_set: ReplicaSet) -> None:
        if not self.over:
            self.member.rules.proposed(self, replica_set)
            self.member.propose(replica_set)

    def reached(self, node: str) -> bool:
        return node in self.member.peers


class ModelDownlink(DownstreamPort):
    """The way to the followers."""

    def __init__(self, master_replica: ModelMaster) -> None:
        self._master_replica = master_replica

    def resume(self, node: str, common: int, committed: int) -> None:
        self._master_replica.send_to_follower(node, links.RESUME, common, None, committed)

    def start(self, node: str, number: int) -> None:
        master_replica = self._master_replica
        master_replica.firsts[node] = master_replica.next_position
        marks = tuple(sorted(master_replica.master.marks.counts.items()))
        master_replica.send_to_follower(node, links.START, number, marks, int(master_replica.watermark.requested))

    def batch(self, node: str, batch: ReplicationBatch) -> None:
        self._master_replica.send_to_follower(node, links.BATCH, int(batch.number), (int(batch.epoch), batch.data))

    def commit(self, node: str, number: int) -> None:
        self._master_replica.send_to_follower(node, links.COMMIT, number, None)
