"""This node as the master of a mirrored queue: makes replication batches, and lets committed messages into the queue.

::

    intake ──► position, journal, batch ──► mirrors ──► committed ──► the queue has it; waiters are told
    queue ───► removals, returns, delivery watermark ──► batch

Until the epoch's first batch is committed there is no queue here: only then is it certain what the queue has. The queue
is made from this node's replica, and its users have waited for that.

A node's publishes come through its `NodeIntake`. One `CommitNotice` for each node and batch reports how far that node's
publishes are committed. Where a policy has `ha-confirm` = `master`, `EarlyConfirms` also reports what this node holds,
flushed if it must be; consumers wait for the commit as always.

**Conditional deletes.** While it is undecided whether the queue is deleted because it is empty or unused, nothing is
confirmed. If the outcome of the transaction is unknown it may still come about, until the queue's definition has
another version: so the replica set is proposed as it is, again and again until that is seen (`MirroredQueueDelete`).

Invariants: batches under way are in order, behind the committed one; between turns every publish is in a batch.

Not here: who counts and what is committed (`broker.replication.master`), what joining mirrors lack
(`broker.replication.backfill`), the queue (`broker.queues.queue`), the condition (`broker.links.queue_requests`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.broker.journal.payloads import message_payload
from warren.broker.metadata.transaction import TransactionWaiter
from warren.broker.model.deduplication import identity_at
from warren.broker.model.local_queue import LocalQueue
from warren.broker.model.master_port import MasterIntake, MasterWaiter
from warren.broker.model.message import Entry, Message
from warren.broker.model.ports import PENDING, REJECTED, QueueLog
from warren.broker.model.replica_contents import PositionSpan, ReplicaContents, ReplicaIdleWaiter
from warren.broker.model.replica_set import FIRST_EPOCH, NodeIncarnation, ReplicaSet
from warren.broker.model.turn import FlushWaiter, TimerTarget, Turn
from warren.broker.queues.queue import Queue
from warren.broker.replication import messages
from warren.broker.replication.backfill import BackfillSource, JoiningMirrors
from warren.broker.replication.batches import OriginMarks, ReplicationBatch
from warren.broker.replication.context import BatchSource, ReplicaPort, ReplicationContext
from warren.broker.replication.delivery_lease import DeliveryLease, LeaseOwner
from warren.broker.replication.master import Master, ReplicaSetOwner
from warren.broker.replication.messages import ReplicationMessageReader
from warren.broker.replication.mirror import Mirror, MirrorJoinRequest
from warren.broker.replication.mirrored_log import BatchGatherer, MirroredLog, RemovedRange, max_priority_of
from warren.broker.replication.replica_links import DownstreamLink, DownstreamOwner
from warren.errors import InvariantBroken, PeerFault


@final
class UncommittedBatch:
    """What waits for the commit of one batch or several: entries to add, positions to remove, waiters to call."""

    def __init__(
        self, number: i64, entries: list[Entry], removed: list[RemovedRange], waiters: list[FlushWaiter]
    ) -> None:
        self.number: i64 = number
        self.entries: list[Entry] = entries
        self.removed: list[RemovedRange] = removed
        self.waiters: list[FlushWaiter] = waiters


@final
class UncommittedBatches:
    """The uncommitted batches of one queue, in order."""

    def __init__(self) -> None:
        self._batches: list[UncommittedBatch] = []

    def any(self) -> bool:
        return len(self._batches) > 0

    def add(self, number: i64, entries: list[Entry], removed: list[RemovedRange], waiters: list[FlushWaiter]) -> None:
        self._batches.append(UncommittedBatch(number, entries, removed, waiters))

    def await_last(self, waiters: list[FlushWaiter]) -> None:
        """Let these waiters wait for the last batch."""
        self._batches[-1].waiters += waiters

    def check(self, committed: i64) -> None:
        """Raise `InvariantBroken` unless the batches are in order, behind those that are committed."""
        before = committed
        for batch in self._batches:
            if batch.number <= before:
                raise InvariantBroken(f"batch {batch.number} waits behind batch {before}")
            before = batch.number

    def commit(self, number: i64) -> UncommittedBatch | None:
        """Take everything that waited for the batches up to this one."""
        batches = self._batches
        if not batches or batches[0].number > number:
            return None
        committed = batches[0]
        count = 1
        while count < len(batches) and batches[count].number <= number:
            committed.entries += batches[count].entries
            committed.removed += batches[count].removed
            committed.waiters += batches[count].waiters
            count += 1
        del batches[:count]
        return committed


@final
class CommitNotice(FlushWaiter):
    """Reports to a node that its publishes up to a place are committed."""

    def __init__(self, publisher: MasterWaiter) -> None:
        self.place: i64 = 0
        self._publisher: MasterWaiter = publisher

    def flushed(self) -> None:
        self._publisher.committed(self.place)


@final
class NodeIntake(MasterIntake):
    """Accepts the publishes of one incarnation of a node."""

    def __init__(
        self,
        master_replica: "MasterReplica",
        node: str,
        incarnation: int,
        publisher: MasterWaiter,
    ) -> None:
        self.epoch = master_replica.master.replica_set.epoch
        self.publisher: MasterWaiter = publisher
        self.node: str = node
        self.incarnation: int = incarnation
        # its highest count since the marks were last updated; 0 for none
        self.further: i64 = 0
        # reports the commit of the batch being written
        self.notice: CommitNotice | None = None
        # the count of its last publish, if that is to be confirmed early
        self.count: i64 = 0
        self._master_replica: MasterReplica = master_replica

    def publish(self, count: i64, place: i64, message: Message, counted: bool) -> i64:
        if self._master_replica.ended:
            # the node sends it to the next master
            return PENDING
        notice = self.notice
        if notice is None:
            notice = self._begin_notice()
        notice.place = place
        outcome = self._master_replica.publish(self, count, message, counted)
        if self._master_replica.early.wanted and outcome == PENDING:
            self.count = count
            self._master_replica.early.taken(self, message.persistent)
        return outcome

    def fence(self, place: i64) -> None:
        if not self._master_replica.ended:
            notice = self._begin_notice() if self.notice is None else self.notice
            notice.place = place

    def _begin_notice(self) -> "CommitNotice":
        assert not self._master_replica.ended, "a commit follows"
        notice = CommitNotice(self.publisher)
        self.notice = notice
        self._master_replica.gather(self)
        self._master_replica.await_commit(notice)
        return notice

    def await_commit(self, waiter: FlushWaiter) -> None:
        self._master_replica.await_commit(waiter)

    def acked_late(self, positions: list[int]) -> None:
        if self._master_replica.queue is not None:
            self._master_replica.queue.acked_late(positions)

    def deserted(self) -> None:
        self._master_replica.consumers_left()


@final
class EarlyConfirms(FlushWaiter):
    """Confirms publishes of one master when this node has them, before they are committed."""

    def __init__(self, turn: Turn, master_replica: "MasterReplica") -> None:
        # the policy wants early confirms, and this node is still the master
        self.wanted: bool = False
        self._turn: Turn = turn
        self._master_replica: MasterReplica = master_replica
        # origins with publishes in the batch being written
        self._taken: list[NodeIntake] = []
        self._unflushed: bool = False
        # batches that are not flushed: origins, and the counts of their publishes
        self._unflushed_batches: list[list[tuple[NodeIntake, int]]] = []

    def taken(self, intake: NodeIntake, persistent: bool) -> None:
        if intake not in self._taken:
            self._taken.append(intake)
        queue = self._master_replica.queue
        if persistent and queue is not None and queue.durable:
            self._unflushed = True

    def end_round(self) -> None:
        """The publishes are in a batch of this turn."""
        if not self._taken:
            return
        held = [(intake, int(intake.count)) for intake in self._taken]
        self._taken = []
        if self._unflushed or self._unflushed_batches:
            self._unflushed = False
            self._unflushed_batches.append(held)
            self._turn.await_flush(self)
        else:
            self._confirm(held)

    def flushed(self) -> None:
        self._confirm(self._unflushed_batches.pop(0))

    def _confirm(self, held: list[tuple[NodeIntake, int]]) -> None:
        # while it is undecided whether the queue is deleted, nothing is confirmed
        if self.wanted and not self._master_replica.is_delete_pending():
            for intake, count in held:
                intake.publisher.held(count)

    def check(self) -> None:
        """Raise `InvariantBroken` if a flush is awaited and there is nothing to confirm."""
        if (self._unflushed and not self._taken) or any(not held for held in self._unflushed_batches):
            raise InvariantBroken("an early confirm awaits a flush, and there is no publish to confirm")


FIRST_MIRRORS_TIMEOUT_MS: Final[i64] = 2_000
"""How long a new queue waits for its mirrors before it may be used."""


@final
class MasterReplica(
    ReplicaSetOwner,
    TimerTarget,
    ReplicaIdleWaiter,
    LeaseOwner,
    BatchGatherer,
    BatchSource,
    DownstreamOwner,
    BackfillSource,
):
    """Connects one queue, its publishers and its mirrors, for one epoch."""

    def __init__(
        self,
        context: ReplicationContext,
        replica: ReplicaPort,
        replica_set: ReplicaSet,
        queue_id: int,
        queue_index: QueueLog,
        contents: ReplicaContents,
    ) -> None:
        self.queue: LocalQueue | None = None
        self.contents: ReplicaContents = contents
        self.min_in_sync: int = 1
        # the lowest position of the next message
        self.next_position: i64 = replica_set.first_position()
        self._context: ReplicationContext = context
        self._replica: ReplicaPort = replica
        self._queue_id: int = queue_id
        self._queue_index: QueueLog = queue_index
        self._turn: Turn = context.turn
        self._log: MirroredLog | None = None
        self.downstream: DownstreamLink = DownstreamLink(
            context.links, context.unsent_commits, queue_id, contents, self
        )
        self.master: Master = Master(replica_set, context.peers.own, self.downstream, self, context.turn)
        self.joining_mirrors: JoiningMirrors = JoiningMirrors(context, replica, self, contents, self.downstream)
        # waiters for the queue to open, with their node and its incarnation
        self._waiting: list[tuple[MasterWaiter, str, int]] = []
        # of the batch being written
        self._entries: list[Entry] = []
        self._waiters: list[FlushWaiter] = []
        self._touched: bool = False
        # the origin that the batch being written named last
        self._origin: NodeIntake | None = None
        # origins that published since the last batch
        self._publishing: list[NodeIntake] = []
        self._uncommitted: UncommittedBatches = UncommittedBatches()
        # the mirror that this node was, and the uncommitted batches that it had
        self._mirror: Mirror | None = None
        self._inherited: list[ReplicationBatch] = []
        self.early: EarlyConfirms = EarlyConfirms(context.turn, self)
        self.delivery_lease: DeliveryLease = DeliveryLease(
            context.peers.own[0], self, context.peers, context.heartbeat, context.turn
        )
        self._since_ms: i64 = context.turn.now_ms
        self._timer_set: bool = False
        # this node is no longer master, or the queue was deleted
        self.ended: bool = False
        self._delete_pending: bool = False
        # waiters to call when the delete is decided
        self._held_waiters: list[FlushWaiter] = []
        self.begun: bool = False
        # the queue was not mirrored before
        self._adopted: bool = False

    # -- the beginning

    def adopt(self, queue: LocalQueue) -> MirroredLog:
        """The queue exists already. The epoch begins when its contents are prepared."""
        log = self._new_log()
        self.queue, self._log = queue, log
        self._adopted = True
        return log

    def _new_log(self) -> MirroredLog:
        max_priority = max_priority_of(self._replica.latest_definition().arguments)
        return MirroredLog(self._queue_index, self, self.contents, self.delivery_lease, max_priority)

    def begin(self, mirror: Mirror) -> None:
        """Open the epoch with the state that this node had as a mirror."""
        master = self.master
        self.begun = True
        if mirror.whole:
            master.end = mirror.end
            master.opening = mirror.end + 1
            master.inherit(list(mirror.batches), mirror.committed, mirror.epochs, mirror.marks.copy())
            self._mirror = mirror
            self._inherited = list(mirror.batches)
        else:
            # its backfill was not complete: the messages that it has are the queue
            self.contents.caught_up()
            master.marks.complete = self._adopted or master.replica_set.epoch == FIRST_EPOCH
        master.open()
        self.touch()

    def _open(self) -> None:
        """The first batch of the epoch is committed: make the queue."""
        mirror = self._mirror
        if mirror is not None:
            for batch in self._inherited:
                mirror.carry_out(batch)
        self._mirror = None
        self._inherited = []
        definition, log = self._replica.latest_definition(), self._new_log()
        self.queue = self._context.queues.make(definition, self._queue_id, self.contents, log)
        self._log = log
        self._open_to_waiters()

    def contents_idle(self) -> None:
        if not self.ended and self.queue is None:
            self.committed(self.master.committed)

    def await_open(self, waiter: MasterWaiter, node: str, incarnation: int) -> None:
        self._waiting.append((waiter, node, incarnation))
        self._open_to_waiters()

    def _open_to_waiters(self) -> None:
        """Call the waiters, if the queue is open and, when it is new, has its mirrors."""
        if self.queue is None or not self.master.opened or not self._has_first_mirrors():
            return
        waiting = self._waiting
        self._waiting = []
        for waiter, node, incarnation in waiting:
            self._notify_opened(waiter, node, incarnation)

    def _has_first_mirrors(self) -> bool:
        replica_set = self.master.replica_set
        until_ms = self._since_ms + FIRST_MIRRORS_TIMEOUT_MS
        if replica_set.epoch != FIRST_EPOCH or self._adopted or self._turn.now_ms >= until_ms:
            return True
        synced = replica_set.synced_names()
        if all(name in synced or not self.reached(name) for name in replica_set.members):
            return True
        if not self._timer_set:
            self._timer_set = True
            self._turn.set_timer(until_ms, self)
        return False

    def timer_fired(self) -> None:
        self._timer_set = False
        if not self.ended:
            self._open_to_waiters()

    def counted(self) -> list[NodeIncarnation]:
        return self.master.counted()

    def delivery_resumed(self) -> None:
        if self._log is not None and self.queue is not None:
            self._log.watermark.refused = False
            self.queue.delivery_allowed()

    def forget(self, waiter: MasterWaiter) -> None:
        self._waiting = [waiting for waiting in self._waiting if waiting[0] is not waiter]

    def _notify_opened(self, waiter: MasterWaiter, node: str, incarnation: int) -> None:
        assert self.queue is not None
        intake = NodeIntake(self, node, incarnation, waiter)
        marks = self.master.marks
        self._update_marks()
        known = marks.is_certain(node, incarnation) and not self._refuses_some(self.queue)
        waiter.opened(self.queue, intake, marks.of(node, incarnation), known)

    def _refuses_some(self, queue: LocalQueue) -> bool:
        """Whether a master before this one may have refused a publish below a node's mark."""
        full = isinstance(queue, Queue) and queue.settings.limited and queue.settings.rejects
        return self.min_in_sync > 1 or full

    # -- publishes

    def publish(self, intake: NodeIntake, count: i64, message: Message, counted: bool) -> i64:
        queue, master = self.queue, self.master
        assert queue is not None, "the queue is open"
        if len(master.replica_set.in_sync) < self.min_in_sync:
            return REJECTED
        if not counted:
            queue.uncounted += 1
        if message.identified and self.log().seen.repeats(message.content):
            # the first publish of this id is in this batch or an earlier one
            return PENDING
        entry = queue.reserve(message)
        if entry is None:
            return REJECTED
        message = entry.message
        payload, crc = message_payload(message)
        writer = master.writer
        if intake is not self._origin:
            self._origin = intake
            writer.origin(intake.node, intake.incarnation)
        persistent = message.persistent
        writer.store(entry.position, message.priority, entry.expires_at_ms, persistent, count, payload, crc)
        intake.further = count
        if persistent and queue.durable:
            master.must_be_flushed()
        self.contents.store_entry(entry, payload, crc)
        self._entries.append(entry)
        self.next_position = entry.position + 1
        return PENDING

    def gather(self, intake: NodeIntake) -> None:
        """This origin publishes to the batch being written."""
        self._publishing.append(intake)

    def _update_marks(self) -> None:
        """Add the new counts to the origin marks; the next publish of an origin begins another notice."""
        publishing, self._publishing = self._publishing, []
        for intake in publishing:
            intake.notice = None
            if intake.further != 0:
                self.master.marks.record(intake.node, intake.incarnation, intake.further)
                intake.further = 0

    def log(self) -> MirroredLog:
        """The log of the queue, which must be open."""
        assert self._log is not None, "the queue is open"
        return self._log

    def publishing_ids_in_batches(self) -> list[bytes]:
        """The publishing ids of all messages but those that no batch has yet: no mirror may ever get these."""
        seen, durable = self.log().seen, self.log().durable
        fresh = [entry.message for entry in self._entries if entry.message.identified]
        for message in reversed(fresh):
            seen.discard(identity_at(message.content, 0))
        rows = seen.rows(False)
        for message in fresh:
            seen.note(message.content, message.persistent and durable)
        return rows

    def await_commit(self, waiter: FlushWaiter) -> None:
        if not self.ended:
            self._waiters.append(waiter)
            self.touch()

    def set_delete_pending(self, pending: bool) -> None:
        """Whether a delete of the queue is pending: nothing is confirmed until it is decided."""
        self._delete_pending = pending
        if not pending:
            held = self._held_waiters
            self._held_waiters = []
            self._notify(held)

    def is_delete_pending(self) -> bool:
        """Whether a delete is pending on this master."""
        return self._delete_pending and not self.ended

    def void_delete(self) -> None:
        """Propose the replica set again: a pending delete fails once the definition has another version."""
        self._replica.propose(self.master.replica_set)

    def touch(self) -> None:
        if not self._touched:
            self._touched = True
            self._context.touched.append(self)

    # -- the turn

    def end_round(self) -> None:
        """Make a batch of everything since the last one.

        Removals alone wait while a batch is uncommitted: no client waits for them, and more may come.
        """
        self._touched = False
        if not self.begun or self.ended:
            return
        master, log = self.master, self._log
        removed: list[RemovedRange] = []
        self._update_marks()
        if log is not None and self._removals_can_wait(log):
            return
        if log is not None:
            self._raise_watermark(log)
            removed = log.write(master.writer)
            if log.watermark.requested > log.watermark.committed and log.durable:
                master.must_be_flushed()
        if not len(master.writer):
            self._await_last_batch()
            return
        number: i64 = master.end + 1
        if log is not None:
            log.watermark.written(number)
        self._uncommitted.add(number, self._entries, removed, self._waiters)
        self._entries = []
        self._waiters = []
        self._origin = None
        master.end_turn()
        self.early.end_round()

    def _removals_can_wait(self, log: MirroredLog) -> bool:
        return self._uncommitted.any() and not self._entries and not self._waiters and log.has_only_removals()

    def _raise_watermark(self, log: MirroredLog) -> None:
        """A consumer waits for the messages: raise the delivery watermark over them in the same batch."""
        queue = self.queue
        if self._entries and queue is not None and queue.consumer_count() and queue.ready_count() == 0:
            log.watermark.request(self._entries[-1].position)

    def _await_last_batch(self) -> None:
        """Nothing to replicate. Waiters complete with the previous batch."""
        waiters = self._waiters
        self._waiters = []
        if self._uncommitted.any():
            self._uncommitted.await_last(waiters)
        else:
            self._notify(waiters)

    def committed(self, number: i64) -> None:
        if self.ended:
            return
        if self.queue is None:
            if not self.master.opened:
                return
            if not self.contents.prepare_handover():
                self.contents.await_idle(self)
                return
            self._open()
        queue, log = self.queue, self._log
        assert queue is not None
        assert log is not None
        committed = self._uncommitted.commit(number)
        if committed is not None:
            for level, first, last in committed.removed:
                self.contents.remove(level, first, last)
        if log.watermark.batch_committed(number):
            queue.delivery_allowed()
        if committed is not None and committed.entries:
            self._context.queues.trace_committed(queue, self.master, committed.entries)
            queue.arrive(committed.entries)
            self.contents.committed(committed.entries[-1].position)
        if self._waiting:
            self._open_to_waiters()
        if self.joining_mirrors.any():
            self.joining_mirrors.start_if_allowed()
        if committed is not None:
            self._notify(committed.waiters)
        if not self._uncommitted.any() and log.has_removals():
            self.touch()

    def _notify(self, waiters: list[FlushWaiter]) -> None:
        if self._delete_pending:
            self._held_waiters += waiters
            return
        for waiter in waiters:
            waiter.flushed()

    # -- the replica set

    def changed(self, replica_set: ReplicaSet) -> None:
        self.set_delete_pending(False)
        key = self._replica.latest_definition().key()
        self.master.changed(replica_set, self._context.backend.modified(key))
        for joining_mirror in self.joining_mirrors.all():
            if joining_mirror.node not in replica_set.members:
                self.joining_mirrors.forget(joining_mirror.node)
        self.apply_policies()
        self._context.counted_changed = True
        self._open_to_waiters()
        self.delivery_lease.update()

    def apply_policies(self) -> None:
        """Do what policies and running nodes ask for: other members, another master, another rule for confirms."""
        definition, placement, policies = (
            self._replica.latest_definition(),
            self._context.placement,
            self._context.mirroring_policies,
        )
        replica_set = definition.replica_set
        assert replica_set is not None, "a mirrored queue has one"
        spec = policies.of(definition)
        self.min_in_sync = policies.min_in_sync(definition)
        self.early.wanted = policies.confirms_early(definition)
        if placement.stopping:
            successor = placement.successor(definition, replica_set)
            self.master.want_master(successor, policies.promotes_on_shutdown(definition), stopping=True)
        elif spec is None:
            self.master.want([replica_set.master])
        else:
            self.master.want(placement.members(spec, replica_set))
            self.master.want_master(placement.other_master(spec, replica_set))

    def joined(self, node: str, incarnation: int, tag: int, request: MirrorJoinRequest) -> None:
        self.joining_mirrors.forget(node)
        self.downstream.forget(node)
        self.downstream.tags[node] = tag
        self._replica.note("info", "mirror.joined", {"node": node, "epoch": request.epoch, "whole": request.whole})
        self.master.joined(node, incarnation, request)
        self.delivery_lease.follower_joined((node, incarnation))

    def receive(self, node: str, reader: ReplicationMessageReader) -> None:
        """A message of a mirror; ignored if the mirror sent it before it last joined."""
        if self.downstream.tags.get(node) != reader.tag:
            return
        kind = reader.kind
        if kind == messages.FLUSHED:
            self.master.flushed_to(node, reader.word())
        elif kind == messages.CONTENTS:
            self.master.contents_received(node, reader.spans())
        elif kind == messages.BACKFILL_ACK:
            self.joining_mirrors.acked(node, reader.word())
        elif kind == messages.CAUGHT_UP:
            self.joining_mirrors.caught_up(node)
            self.master.caught_up(node)
        else:
            raise PeerFault(f"a message of kind {kind} came from a mirror")

    def propose(self, replica_set: ReplicaSet) -> None:
        if not self.ended:
            self._replica.propose(replica_set)

    def reached(self, node: str) -> bool:
        return self._context.links.is_connected(node)

    def lost(self, node: str) -> None:
        self.joining_mirrors.forget(node)
        self.downstream.forget(node)
        self.master.lost(node)
        self._open_to_waiters()

    def lacks(self, node: str, spans: list[PositionSpan]) -> None:
        below = self.downstream.firsts.get(node, self.next_position)
        self.joining_mirrors.add(node, spans, below, self.master.followers[node].began)

    def next_free_position(self) -> i64:
        return self.next_position

    def origin_marks(self) -> OriginMarks:
        return self.master.marks

    def has_opened_and_committed(self, number: i64) -> bool:
        return self.queue is not None and self.master.committed >= number

    def stored_offsets(self) -> dict[str, int]:
        return self.log().stored_offsets()

    def consumers_left(self) -> None:
        """The last consumer of one node is gone."""
        if self.queue is not None:
            self._context.queues.consumers_left(self.queue)

    def check(self) -> None:
        """Raise `InvariantBroken` if an invariant does not hold; between turns, and after a promotion."""
        if self.ended:
            return
        master, log = self.master, self._log
        master.check()
        self.downstream.check(list(master.followers))
        self.joining_mirrors.check([node for node, follower in master.followers.items() if not follower.complete])
        self.delivery_lease.check()
        self.early.check()
        if self.queue is None or log is None:
            return
        self._uncommitted.check(master.committed)
        log.check(master.committed)
        if self.begun and log.has_removals() and not self._uncommitted.any() and not self._touched:
            raise InvariantBroken("removals wait for no batch")
        if self._publishing or self._entries or self._origin is not None:
            raise InvariantBroken(f"{len(self._entries)} publishes are in no batch, and the turn is over")

    # -- the end

    def end(self) -> None:
        """This node is no longer master, or the queue was deleted."""
        self.ended = True
        self.early.wanted = False
        self._waiting = []
        self.joining_mirrors.end()


DELETE_RETRY_MS: Final[i64] = 1_000


@final
class MirroredQueueDelete(TransactionWaiter, TimerTarget):
    """One conditional delete, from its transaction until the outcome is known."""

    def __init__(self, master_replica: "MasterReplica", waiter: TransactionWaiter, turn: Turn) -> None:
        self._master_replica: MasterReplica = master_replica
        self._waiter: TransactionWaiter = waiter
        self._turn: Turn = turn
        master_replica.set_delete_pending(True)

    def committed(self) -> None:
        self._waiter.committed()

    def outdated(self) -> None:
        self._master_replica.set_delete_pending(False)
        self._waiter.outdated()

    def failed(self, reason: str) -> None:
        self._waiter.failed(reason)
        self.timer_fired()

    def timer_fired(self) -> None:
        if self._master_replica.is_delete_pending():
            self._master_replica.void_delete()
            self._turn.set_timer(self._turn.now_ms + DELETE_RETRY_MS, self)
