"""This node's replica of one mirrored queue, as master or as mirror, from its creation until the node drops it.

::

                         another node is master               this incarnation is master
    contents prepared ────────────────────────► mirror ◄──────────────────────────────► master
                                                  │  steps down: keeps all batches it has
                                                  └── the master is lost: proposes itself

A replica acts only on committed replica sets. It learns of its own proposals in the same way as of others.

**A gap.** Files of a stream can be lost as a whole. A replica that counts as in sync and has lost messages must not be
used: as the master it would make the mirrors drop messages that they still have. It reports the damage and waits until
it no longer counts as in sync. Then it accepts the gap, and starts empty or, if there is no better candidate, is
promoted with what it has (`broker.replication.stream_contents`).

Not here: the rules of either role (`broker.replication.mirror`, `broker.replication.master_replica`), all replicas of a
node (`broker.replication.replica_sets`), the choice of a master (`broker.replication.promotion`).
"""

from abc import abstractmethod
from typing import Final, final

from mypy_extensions import i64, trait

from warren.broker.metadata.topology_definitions import QueueDefinition
from warren.broker.model.local_queue import LocalQueue
from warren.broker.model.ports import QueueLog
from warren.broker.model.replica_contents import ReplicaContents, ReplicaContentsWaiter
from warren.broker.model.replica_set import NodeIncarnation, ReplicaSet
from warren.broker.model.turn import FlushWaiter, Timer, TimerTarget, Turn
from warren.broker.queues.queue import Queue
from warren.broker.replication import messages
from warren.broker.replication.adoption import store_entries
from warren.broker.replication.context import ReplicaPort, ReplicationContext
from warren.broker.replication.master import step_down
from warren.broker.replication.master_replica import MasterReplica
from warren.broker.replication.messages import ReplicationMessageReader, epoch_of
from warren.broker.replication.mirror import ALONE, Mirror
from warren.broker.replication.peers import PeerIncarnations
from warren.broker.replication.promotion import promotion_candidates, promotion_delay_ms
from warren.broker.replication.proposals import ReplicaSetProposer
from warren.broker.replication.replica_history import DROPPED, IN_SYNC, PROMOTED, ReplicaHistory, changes_between
from warren.broker.replication.replica_links import UpstreamLink
from warren.broker.replication.stream_contents import StreamContents
from warren.broker.streams.stream import Stream
from warren.errors import InvariantBroken, PeerFault


def promotion_reason(peers: PeerIncarnations, incarnation: NodeIncarnation | None) -> str:
    """Why there is a new master: the fate of this incarnation, which was master before."""
    if incarnation is None:
        return "the queue was declared"
    if incarnation[0] == peers.own[0]:
        return f"{incarnation[0]} was master before, and has restarted"
    if peers.has_ended(incarnation):
        return f"{incarnation[0]} has stopped"
    if peers.reached(incarnation[0]) == incarnation[1]:
        return f"{incarnation[0]} handed it over"
    return f"{incarnation[0]} is not reached"


def drop_reason(peers: PeerIncarnations, incarnation: NodeIncarnation, members: list[str]) -> str:
    """Why this incarnation is in sync no more, as this node sees it."""
    node = incarnation[0]
    if node not in members:
        return f"{node} is no longer a member"
    if peers.has_ended(incarnation):
        return f"{node} has stopped"
    reached = peers.reached_or_own(node)
    if not reached:
        return f"{node} is not reached"
    return f"{node} has restarted" if reached != incarnation[1] else f"{node} did not follow in time"


MASTER_LOST_DELAY_MS: Final[i64] = 300
"""How long a mirror waits for a lost link to the master to come back."""

PROMOTION_RETRY_MS: Final[i64] = 500


@trait
class ReplicaOwner:
    """All replicas of this node."""

    @abstractmethod
    def promoted(self, replica: "LocalReplica") -> None:
        """This node is the master of an epoch, and its first batch is written."""

    @abstractmethod
    def replace_empty(self, replica: "LocalReplica") -> None:
        """The contents of this replica are unusable: make another one, which begins empty."""


@final
class LocalReplica(ReplicaContentsWaiter, TimerTarget, FlushWaiter, ReplicaPort, ReplicaSetProposer):
    """Holds the contents of one queue, and acts as its master or a mirror."""

    def __init__(
        self,
        context: ReplicationContext,
        owner: ReplicaOwner,
        definition: QueueDefinition,
        queue_id: int,
        queue_index: QueueLog,
        contents: ReplicaContents,
    ) -> None:
        self.definition: QueueDefinition = definition
        self.queue_id: int = queue_id
        self.contents: ReplicaContents = contents
        self.master_replica: MasterReplica | None = None
        self.history: ReplicaHistory = ReplicaHistory()
        self._context: ReplicationContext = context
        self._owner: ReplicaOwner = owner
        self._peers: PeerIncarnations = context.peers
        self._turn: Turn = context.turn
        self._own: NodeIncarnation = context.peers.own
        self._queue_index: QueueLog = queue_index
        self.upstream: UpstreamLink = UpstreamLink(context.links, context.backend, context.join_tags, queue_id)
        self.mirror: Mirror = Mirror(contents, self.upstream, context.turn)
        self._prepared: bool = False
        # it lacks messages that it should have, or its files cannot be read
        self._has_gap: bool = False
        self._unreadable: bool = False
        self.closed: bool = False
        # the node knows a later definition than this replica has acted on
        self.is_outdated: bool = False
        # it has proposed itself as master, and the outcome is unknown
        self._proposing_itself: bool = False
        self._timer: Timer | None = None
        # when this node noticed that the master is lost; 0 if it is not
        self._master_lost_at_ms: i64 = 0
        # the master, and the members in sync, before the last change
        self._predecessor: NodeIncarnation | None = None
        self._synced_before: list[str] = []
        self._apply_queue_policies()

    @property
    def replica_set(self) -> ReplicaSet:
        replica_set = self.definition.replica_set
        if replica_set is None:
            raise InvariantBroken(f"queue '{self.definition.name}' is not mirrored")
        return replica_set

    def latest_definition(self) -> QueueDefinition:
        return self.definition

    # -- contents

    def prepare(self) -> None:
        self.contents.prepare(self)

    def contents_prepared(self) -> None:
        gap = self.contents.describe_gap()
        self._has_gap = gap != "" and self._counts_as_in_sync()
        if self._has_gap:
            # if promoted with this gap, it would truncate the queue on mirrors that are complete
            self._report_damage(gap)
        elif self.contents.accept_gap():
            self.note("warning", "mirror.lost_files", {"reason": gap})
            self._turn.await_flush(self)
        else:
            self._prepared = True
            self.act()

    def flushed(self) -> None:
        if not self.closed:
            self.contents_prepared()

    def _counts_as_in_sync(self) -> bool:
        """Whether the replica set lists this node as in sync, in this incarnation or an earlier one."""
        return self._own[0] in self.replica_set.synced_names()

    def contents_damaged(self, reason: str) -> None:
        self._unreadable = True
        self._report_damage(reason)
        self.act()

    def _report_damage(self, reason: str) -> None:
        """Log the damage. The replica takes part again when another node is master."""
        self.note("error", "mirror.damaged", {"reason": reason})

    def adopt(self, queue: LocalQueue) -> None:
        """The queue of this node becomes the master's queue, and the contents are made from it."""
        master_replica = self._new_master_replica()
        log = master_replica.adopt(queue)
        if isinstance(queue, Queue):
            # a transient queue has no stored watermark: all its messages may have been delivered
            log.watermark.request(
                self._highest_delivered(queue) if queue.durable else self.replica_set.first_position() - 1
            )
            queue.mirror(log)
        elif isinstance(queue, Stream):
            self._context.queues.mirror_stream(queue, self.contents, log)
        queue.begin_epoch(self.replica_set.first_position())
        self.master_replica = master_replica

    def _highest_delivered(self, queue: Queue) -> i64:
        """The highest position that was delivered: the disk knows it for durable messages, memory for the others."""
        highest = self.contents.delivered_up_to()
        for entry in self._context.queues.unacked_entries(queue) + [
            one for one in queue.in_memory() if one.redelivered
        ]:
            highest = max(highest, entry.position)
        return highest

    # -- committed replica sets

    def changed(self, definition: QueueDefinition) -> None:
        before = self.replica_set
        self._predecessor = before.master_incarnation
        self._synced_before = before.synced_names()
        self.definition = definition
        self.is_outdated = False
        self._proposing_itself = False
        self._master_lost_at_ms = 0
        self._record_changes(before)
        master_replica = self.master_replica
        if master_replica is not None and master_replica.master.replica_set.epoch == self.replica_set.epoch:
            master_replica.changed(self.replica_set)
        else:
            self.act()

    def _record_changes(self, before: ReplicaSet) -> None:
        """Add the changes to the history; the master also logs them."""
        replica_set = self.replica_set
        leads = self.master_replica is not None and replica_set.epoch == before.epoch
        for name, facts in changes_between(before, replica_set):
            if name == PROMOTED:
                facts["reason"] = promotion_reason(self._peers, self._predecessor)
            elif name == DROPPED:
                node = str(facts["node"])
                dropped = (node, before.synced_incarnation(node))
                facts["reason"] = drop_reason(self._peers, dropped, replica_set.members)
            if leads and name == IN_SYNC:
                self.note("info", "mirror.in_sync", facts)
            elif leads and name == DROPPED:
                self.note("warning", "mirror.dropped", facts)
            elif name != PROMOTED or replica_set.master_incarnation != self._own:
                self.history.add(self._turn.now_ms, name, facts)

    def policies_changed(self) -> None:
        self._apply_queue_policies()
        if self.master_replica is not None:
            self.master_replica.apply_policies()

    def _apply_queue_policies(self) -> None:
        mirroring_policies = self._context.mirroring_policies
        self._queue_index.seen.bound(mirroring_policies.dedup_window(self.definition))
        if isinstance(self.contents, StreamContents):
            self.contents.catalog.segment_bytes = mirroring_policies.segment_bytes(self.definition)

    def act(self) -> None:
        """Take the role that the replica set gives this node."""
        if self.closed:
            return
        if not self._prepared:
            self._start_over_if_not_counted()
            return
        replica_set, master_replica = self.replica_set, self.master_replica
        if master_replica is not None:
            if (
                master_replica.master.replica_set.epoch == replica_set.epoch
                and replica_set.master_incarnation == self._own
            ):
                if not master_replica.begun:
                    self._begin(replica_set, master_replica)
                return
            self._step_down()
        if replica_set.master_incarnation == self._own:
            self._become_master(replica_set)
        else:
            self._follow_master(replica_set)

    def _start_over_if_not_counted(self) -> None:
        """Join as a new mirror in spite of lost messages, once the replica set does not list this node as in sync."""
        if self._counts_as_in_sync():
            return
        if self._has_gap:
            self.contents_prepared()
        elif (
            self._unreadable
            and isinstance(self.contents, StreamContents)
            and self._master_is_reachable(self.replica_set)
        ):
            self._start_empty()

    def _become_master(self, replica_set: ReplicaSet) -> None:
        self._stop_timer()
        self.mirror.leave()
        self.master_replica = self._new_master_replica()
        self.master_replica.delivery_lease.set_predecessor(self._predecessor)
        self._begin(replica_set, self.master_replica)

    def _new_master_replica(self) -> MasterReplica:
        return MasterReplica(self._context, self, self.replica_set, self.queue_id, self._queue_index, self.contents)

    def _begin(self, replica_set: ReplicaSet, master_replica: MasterReplica) -> None:
        if isinstance(master_replica.queue, Queue):
            store_entries(
                master_replica.queue, self.contents, self._context.queues.unacked_entries(master_replica.queue)
            )
        master_replica.begin(self.mirror)
        facts: dict[str, object] = {
            "node": replica_set.master,
            "epoch": replica_set.epoch,
            "in_sync": ",".join(replica_set.synced_names()),
            "reason": promotion_reason(self._peers, self._predecessor),
            "pending": len(self.mirror.batches),
        }
        self.note("info", "mirror.promoted", facts)
        if self._synced_before and replica_set.master not in self._synced_before:
            left = {
                "messages": self.contents.count(),
                "body_bytes": self.contents.body_bytes(),
            }
            self.note("warning", "mirror.promoted_unsynced", {**left, "had_all": ",".join(self._synced_before)})
        self._owner.promoted(self)
        self._context.counted_changed = True

    def _step_down(self) -> None:
        master_replica = self.master_replica
        assert master_replica is not None
        self.master_replica = None
        master_replica.end()
        self._context.queues.close(self.definition)
        self.contents.queue_closed()
        self.mirror = Mirror(self.contents, self.upstream, self._turn)
        # a master whose epoch never opened may have carried out batches that were not committed: it must be compared
        if master_replica.master.opened:
            step_down(master_replica.master, self.mirror)

    # -- as a mirror

    def _follow_master(self, replica_set: ReplicaSet) -> None:
        upstream = self.upstream
        if self._proposing_itself:
            return
        if self._master_is_reachable(replica_set):
            self._stop_timer()
            self._master_lost_at_ms = 0
            if self.contents.has_accepted_gap():
                self._start_empty()
            elif self.mirror.state == ALONE or (upstream.node, epoch_of(upstream.tag)) != (
                replica_set.master,
                replica_set.epoch,
            ):
                upstream.node = replica_set.master
                self.mirror.follow(replica_set.epoch)
            return
        self.mirror.leave()
        self._wait_or_propose(replica_set)

    def _master_is_reachable(self, replica_set: ReplicaSet) -> bool:
        """Whether there is a link to the master, and the store does not say that its incarnation ended."""
        master = replica_set.master_incarnation
        return self._peers.reached(master[0]) == master[1] and not self._peers.has_ended_by_store(master)

    def master_lost(self, refused: bool) -> None:
        """The link to the master is lost; `refused`: its port refuses connections, so the process has ended."""
        self.mirror.leave()
        if not self._prepared or self.closed or self._proposing_itself:
            return
        if refused:
            self._propose_itself()
        else:
            self._wait(MASTER_LOST_DELAY_MS)

    def _wait_or_propose(self, replica_set: ReplicaSet) -> None:
        """The master cannot be reached. While the store says that it is alive, give the link some time."""
        if self._peers.alive(replica_set.master) == replica_set.master_incarnation[1]:
            self._wait(MASTER_LOST_DELAY_MS)
        else:
            self._propose_itself()

    def timer_fired(self) -> None:
        self._timer = None
        if self.closed or self.master_replica is not None or not self._prepared:
            return
        if self._proposing_itself:
            # the result of the proposal is unknown: this node follows no master until the replica set changes
            self.propose(self.replica_set.promoting(self._own))
        elif self._master_is_reachable(self.replica_set):
            self.act()
        else:
            self._propose_itself()

    def _propose_itself(self) -> None:
        """Propose this node as master, after the delay that gives better candidates precedence."""
        peers, replica_set, now_ms = self._peers, self.replica_set, self._turn.now_ms
        allow_unsynced = self._context.mirroring_policies.promotes_unsynced(self.definition)
        order = promotion_candidates(
            replica_set, peers.all_alive(), allow_unsynced, self.definition.durable, peers.first_with_data()
        )
        if self._own not in order or self._context.placement.stopping:
            self._wait(PROMOTION_RETRY_MS)
            return
        before = [one for one in order if one == self._own or peers.reached(one[0]) == one[1]]
        if self._master_lost_at_ms == 0:
            self._master_lost_at_ms = now_ms
        at_ms = self._master_lost_at_ms + promotion_delay_ms(before, self._own)
        if now_ms < at_ms:
            self._wait(at_ms - now_ms)
            return
        self._proposing_itself = True
        self.mirror.leave()
        self.propose(replica_set.promoting(self._own))

    def propose(self, replica_set: ReplicaSet) -> None:
        self._context.proposals.add(self, replica_set)

    def is_latest(self, definition: QueueDefinition) -> bool:
        return self.definition is definition and not self.closed and not self.is_outdated

    def proposal_failed(self, replica_set: ReplicaSet) -> None:
        """Retry later, as master or as candidate."""
        if self.closed:
            return
        master_replica = self.master_replica
        if master_replica is not None:
            # a proposal of another master has the next epoch
            if replica_set.epoch - master_replica.master.replica_set.epoch in (0, 1):
                master_replica.master.refused()
            return
        self._wait(PROMOTION_RETRY_MS)

    def _start_empty(self) -> None:
        self.note("warning", "mirror.begins_anew", {})
        self._owner.replace_empty(self)

    def receive(self, node: str, reader: ReplicationMessageReader) -> bool:
        """A message of a master; False if this mirror follows another one, or joined again since."""
        mirror = self.mirror
        if (self.upstream.node, self.upstream.tag) != (node, reader.tag):
            return False
        kind = reader.kind
        if kind == messages.BATCH:
            number, epoch, committed = reader.word(), reader.word(), reader.word()
            if committed:
                mirror.commit(committed)
            mirror.take(reader.batch(number, epoch))
        elif kind == messages.COMMIT:
            mirror.commit(reader.word())
        elif kind == messages.BACKFILL:
            self._store_backfill(reader)
        elif kind == messages.RESUME:
            common = reader.word()
            mirror.resume(common, reader.word())
        elif kind == messages.START:
            number, watermark = reader.word(), reader.word()
            mirror.start(number, watermark, reader.marks())
        elif kind == messages.SURPLUS:
            self._remove_surplus(reader)
        elif kind == messages.PUBLISHING_IDS:
            replace = reader.word() != 0
            mirror.load_publishing_ids(reader.rest(), replace)
        elif kind == messages.STORED_OFFSET:
            offset = reader.word()
            mirror.take_offset(reader.rest().decode("utf-8", "surrogateescape"), offset)
        elif kind == messages.BACKFILL_END:
            mirror.backfill_done()
        else:
            raise PeerFault(f"a message of kind {kind} came from a master")
        return True

    def _store_backfill(self, reader: ReplicationMessageReader) -> None:
        position, kind, expires_at_ms = reader.word(), reader.word(), reader.word()
        returned, crc = reader.word(), reader.word()
        payload = reader.rest()
        self.mirror.take_backfill(position, kind >> 8, expires_at_ms, kind & 1 != 0, returned, payload, crc)
        self.upstream.ack_backfill(len(payload))

    def _remove_surplus(self, reader: ReplicationMessageReader) -> None:
        for span in reader.spans():
            self.mirror.remove_surplus(span)
        if isinstance(self.contents, StreamContents) and self.contents.diverged:
            # the archive has messages that the master does not have, and cannot drop them
            self._start_empty()

    def rejoin(self) -> None:
        """Join the master again, unless this replica is in sync or is the master."""
        if self.master_replica is None and self._own not in self.replica_set.in_sync:
            self.mirror.leave()
            self.act()

    def check(self) -> None:
        """Raise `InvariantBroken` if an invariant of its role or its contents does not hold; linear in the contents."""
        self.contents.check()
        if self.mirror.state != ALONE and (self.master_replica is not None or self._proposing_itself):
            raise InvariantBroken(f"'{self.definition.name}' follows a master, and is or wants to be master")
        if self.master_replica is None:
            self.mirror.check()
        else:
            self.master_replica.check()

    # -- end and log

    def close(self) -> None:
        """The queue was deleted, or this node is no longer a member."""
        self.closed = True
        self._stop_timer()
        self.mirror.leave()
        if self.master_replica is not None:
            self.master_replica.end()
            self.master_replica = None
        self.contents.close()
        if not self.definition.durable:
            # these contents were in memory
            self._queue_index.close()

    def note(self, level: str, name: str, facts: dict[str, object]) -> None:
        # every event of the history is about a node and an epoch
        facts = {"node": self._own[0], "epoch": self.replica_set.epoch, **facts}
        self.history.add(self._turn.now_ms, name, facts)
        where: dict[str, object] = {"vhost": self.definition.vhost, "queue": self.definition.name}
        self._turn.note(level, name, {**where, **facts})

    def _wait(self, for_ms: i64) -> None:
        if self._timer is None:
            self._timer = self._turn.set_timer(self._turn.now_ms + for_ms, self)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._turn.cancel_timer(self._timer)
            self._timer = None
