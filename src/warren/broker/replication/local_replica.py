"""This node's part in one ring, from the moment it is to hold the queue until it is not.

::

                     ring: another is master                ring: this run is master
    copy prepared ──────────────────────────► mirror ◄────────────────────────────────► mastery
                                                │  deposed: goes on with all it has
                                                └── no master: stands for election

It acts on what was agreed upon and on nothing else. What it proposes itself it hears of like everybody does.

Not here: what a mirror or a master does (`mirroring`, `broker.replication.master_replica`), all parts of a node
(`broker.replication.replica_sets`).

What a node needs for its part in a ring, by the type of the queue: a copy of it, and as its master the queue itself.

Not here: when either is needed (`broker.replication.local_replica`), queues of one node (`broker.queue_factory`).

Why a mirrored queue has another master, as far as a node can tell.

Not here: who becomes it (`broker.replication.promotion`), the story this is told in
(`broker.replication.replica_history`).

The archive of a mirrored stream, as the stream that its master has sees it.

Not here: who writes it (`broker.replication.stream_archiver`), what the others are told
(`broker.replication.mirrored_log`).
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.broker.journal.queue_index import QueueIndex
from warren.broker.journal.replica_contents import DiskContents, MemoryContents
from warren.broker.metadata.topology_definitions import QueueDefinition
from warren.broker.model.archive import Archive, ArchiveReadWaiter, ArchiveWriteWaiter
from warren.broker.model.local_queue import LocalQueue
from warren.broker.model.ports import QueueLog
from warren.broker.model.replica_contents import ReplicaContents, ReplicaContentsWaiter
from warren.broker.model.replica_set import NodeIncarnation, ReplicaSet
from warren.broker.model.turn import FlushWaiter, Timer, TimerTarget, Turn
from warren.broker.queues.arguments import STREAM, type_of
from warren.broker.queues.queue import Queue
from warren.broker.replication.adoption import hold_entries
from warren.broker.replication.master import step_down
from warren.broker.replication.master_replica import MasterReplica
from warren.broker.replication.messages import epoch_of
from warren.broker.replication.mirror import ALONE, Mirror
from warren.broker.replication.mirrored_log import MirroredLog, max_priority_of
from warren.broker.replication.promotion import promotion_candidates, promotion_delay_ms
from warren.broker.replication.replica_history import DROPPED, IN_SYNC, PROMOTED, ReplicaHistory, changes_between
from warren.broker.replication.replica_links import UpstreamLink
from warren.broker.replication.stream_contents import StreamContents
from warren.broker.streams.files import StreamFiles
from warren.broker.streams.settings import stream_settings_of
from warren.broker.streams.stream import Stream
from warren.broker.vhost import Vhost
from warren.errors import InvariantBroken

if TYPE_CHECKING:
    from warren.broker.replication.replica_sets import ReplicaSets


def promotion_reason(replica_sets: "ReplicaSets", run: NodeIncarnation | None) -> str:
    """What became of the master before, which was this run."""
    if run is None:
        return "the queue was declared"
    if run[0] == replica_sets.own_incarnation[0]:
        return f"{run[0]} was master before, and has restarted"
    if replica_sets.has_ended(run):
        return f"{run[0]} has stopped"
    if replica_sets.incarnation_reached(run[0]) == run[1]:
        return f"{run[0]} handed it over"
    return f"{run[0]} is not reached"


@final
class MirroredArchive(Archive):
    """Stands between a master's stream and the copy that its node has."""

    def __init__(self, copy: StreamContents, log: MirroredLog) -> None:
        self._copy: StreamContents = copy
        self._log: MirroredLog = log

    def write(self, segment: i64, at: i64, data: bytes, writer: ArchiveWriteWaiter) -> None:
        self._copy.archiver.write(segment, at, data, writer)

    def read(self, segment: i64, at: i64, length: i64, asker: ArchiveReadWaiter) -> None:
        self._copy.archive.read(segment, at, length, asker)

    def withdraw(self, asker: ArchiveReadWaiter) -> None:
        self._copy.archive.withdraw(asker)

    def drop(self, segments: list[int]) -> None:
        """What was kept too long; the others are told up to where."""
        self._copy.archive.drop(segments)
        self._log.gone_to(self._copy.catalog.first_position() - 1)

    def close(self) -> None:
        """The copy keeps it."""


def new_contents(
    definition: QueueDefinition, queue_id: int, queue_index: QueueIndex, streams: StreamFiles, turn: Turn
) -> ReplicaContents:
    """What this node holds of a queue; nothing, unless it has something on disk."""
    if not definition.durable:
        return MemoryContents(turn, max_priority_of(definition.arguments), queue_index)
    if type_of(definition.arguments) != STREAM:
        return DiskContents(queue_index)
    found = streams.found(queue_id, stream_settings_of(definition.arguments).segment_bytes)
    return StreamContents(DiskContents(queue_index), found.catalog, streams.archive(queue_id), turn, found.damage)


def adopted_contents(
    definition: QueueDefinition, queue: LocalQueue, queue_index: QueueIndex, streams: StreamFiles, turn: Turn
) -> ReplicaContents:
    """What this node holds of a queue that it has had alone so far."""
    if isinstance(queue, Stream):
        return StreamContents(DiskContents(queue_index), queue.catalog(), streams.archive(queue.queue_id), turn)
    return new_contents(definition, queue.queue_id, queue_index, streams, turn)


def mirror_stream(replica: "LocalReplica", stream: Stream, log: MirroredLog) -> None:
    """A stream that this node has had alone is the master's from here on."""
    copy = replica.copy
    assert isinstance(copy, StreamContents), "it is a stream's"
    log.archives = True
    copy.archiver.leads = True
    stream.mirror(log, MirroredArchive(copy, log))


def make_queue(
    replica: "LocalReplica", vhost: Vhost, queue_index: QueueLog, master_replica: "MasterReplica"
) -> tuple[LocalQueue, MirroredLog]:
    """The queue of which this node is master, with what its copy holds."""
    definition, copy = replica.definition, replica.copy
    log = MirroredLog(
        queue_index,
        master_replica,
        master_replica.copy,
        master_replica.delivery_lease,
        max_priority_of(definition.arguments),
    )
    queue: LocalQueue
    if isinstance(copy, StreamContents):
        log.archives = True
        archive = MirroredArchive(copy, log)
        queue = vhost.make_master_stream(definition, replica.queue_id, log, archive, copy.catalog)
    else:
        queue = vhost.make_master_queue(definition, replica.queue_id, log)
    # sessions use what stands in for it, and count there; what it was given before stays counted
    queue.counted = vhost.topology.queues[queue.name].counted
    queue.uncounted -= queue.counted.published
    copy.hand_over(queue)
    queue.begin_epoch(replica.replica_set.first_position())
    return queue, log


MASTER_LOST_DELAY_MS: Final[i64] = 300
"""How long a lost link may be nothing but a lost link."""

PROMOTION_RETRY_MS: Final[i64] = 500


@final
class LocalReplica(ReplicaContentsWaiter, TimerTarget, FlushWaiter):
    """In the ring of one queue."""

    def __init__(
        self,
        replica_sets: "ReplicaSets",
        definition: QueueDefinition,
        queue_id: int,
        queue_index: QueueLog,
        copy: ReplicaContents,
    ) -> None:
        self.definition: QueueDefinition = definition
        self.queue_id: int = queue_id
        self.copy: ReplicaContents = copy
        self.master_replica: MasterReplica | None = None
        self.history: ReplicaHistory = ReplicaHistory()
        self._replica_sets: ReplicaSets = replica_sets
        self._queue_index: QueueLog = queue_index
        self.upstream: UpstreamLink = UpstreamLink(replica_sets, queue_id)
        self.mirror: Mirror = Mirror(copy, self.upstream, replica_sets.turn)
        self._prepared: bool = False
        # what it should hold is not here, or cannot be read at all
        self._lacks: bool = False
        self._unreadable: bool = False
        self.over: bool = False
        # the node knows of a later version than this part has acted on
        self.is_behind: bool = False
        # what it proposed, until it is seen to have come about or not
        self._standing: bool = False
        self._timer: Timer | None = None
        # since when there has been no master, as far as this node can tell; 0 if there is one
        self._lost_at_ms: i64 = 0
        # the master of the ring before this one
        self._predecessor: NodeIncarnation | None = None
        self._synced_before: list[str] = []
        self._heed_policies()

    @property
    def replica_set(self) -> ReplicaSet:
        replica_set = self.definition.replica_set
        if replica_set is None:
            raise InvariantBroken(f"queue '{self.definition.name}' is not mirrored")
        return replica_set

    # -- what it holds

    def prepare(self) -> None:
        self.copy.prepare(self)

    def contents_prepared(self) -> None:
        lack = self.copy.lack()
        self._lacks = lack != "" and self._is_counted_on()
        if self._lacks:
            # as the master it would give up what lies behind that, and have the others do so, who may have it all
            self._tell_damage(lack)
        elif self.copy.disown():
            self.note("warning", "mirror.lost_files", {"node": self._replica_sets.own_incarnation[0], "reason": lack})
            self._replica_sets.turn.await_flush(self)
        else:
            self._prepared = True
            self.act()

    def flushed(self) -> None:
        if not self.over:
            self.contents_prepared()

    def _is_counted_on(self) -> bool:
        """Whether it is in sync, or was until it restarted and nobody has taken note of that."""
        return self._replica_sets.own_incarnation[0] in self.replica_set.synced_names()

    def contents_damaged(self, reason: str) -> None:
        self._unreadable = True
        self._tell_damage(reason)
        self.act()

    def _tell_damage(self, reason: str) -> None:
        """It holds nothing it could vouch for, and takes part no more until another is master, who has everything."""
        self.note("error", "mirror.damaged", {"node": self._replica_sets.own_incarnation[0], "reason": reason})

    def adopt(self, queue: LocalQueue) -> None:
        """This node has the queue already: it goes on as the master's, whose copy is to be made of it."""
        master_replica = MasterReplica(self._replica_sets, self, self.replica_set, self.copy)
        log = MirroredLog(
            self._queue_index,
            master_replica,
            self.copy,
            master_replica.delivery_lease,
            max_priority_of(self.definition.arguments),
        )
        master_replica.adopt(queue, log)
        if isinstance(queue, Queue):
            # a transient queue has no stored watermark: all its messages may have been delivered
            log.watermark.ask(self._lent_of(queue) if queue.durable else self.replica_set.first_position() - 1)
            queue.mirror(log)
        elif isinstance(queue, Stream):
            mirror_stream(self, queue, log)
        queue.begin_epoch(self.replica_set.first_position())
        self.master_replica = master_replica

    def _lent_of(self, queue: Queue) -> i64:
        """Up to where it was handed out: the disk knows of what lasts, memory of the rest."""
        highest = self.copy.delivered_up_to()
        for entry in self._replica_sets.lent_out(queue) + [one for one in queue.in_memory() if one.redelivered]:
            highest = max(highest, entry.position)
        return highest

    # -- what was agreed upon

    def changed(self, definition: QueueDefinition) -> None:
        before = self.replica_set
        self._predecessor = before.master_incarnation
        self._synced_before = before.synced_names()
        self.definition = definition
        self.is_behind = False
        self._standing = False
        self._lost_at_ms = 0
        self._tell(before)
        master_replica = self.master_replica
        if master_replica is not None and master_replica.master.replica_set.epoch == self.replica_set.epoch:
            master_replica.changed(self.replica_set)
        else:
            self.act()

    def _tell(self, before: ReplicaSet) -> None:
        """Let the ring's story go on; the master writes it into the log as well."""
        replica_set = self.replica_set
        leads = self.master_replica is not None and replica_set.epoch == before.epoch
        for name, facts in changes_between(before, replica_set):
            if name == PROMOTED:
                facts["reason"] = promotion_reason(self._replica_sets, self._predecessor)
            if leads and name == IN_SYNC:
                self.note("info", "mirror.in_sync", facts)
            elif leads and name == DROPPED:
                self.note("warning", "mirror.dropped", facts)
            elif name != PROMOTED or replica_set.master_incarnation != self._replica_sets.own_incarnation:
                self.history.tell(self._replica_sets.turn.now_ms, name, facts)

    def policies_changed(self) -> None:
        self._heed_policies()
        self._replica_sets.placing.look(self)

    def _heed_policies(self) -> None:
        mirroring_policies = self._replica_sets.mirroring_policies
        self._queue_index.seen.bound(mirroring_policies.dedup_window(self.definition))
        if isinstance(self.copy, StreamContents):
            self.copy.catalog.segment_bytes = mirroring_policies.segment_bytes(self.definition)

    def act(self) -> None:
        """Be what the ring says this node is."""
        if self.over:
            return
        if not self._prepared:
            self._be_a_newcomer_if_it_may()
            return
        replica_set, master_replica = self.replica_set, self.master_replica
        if master_replica is not None:
            if (
                master_replica.master.replica_set.epoch == replica_set.epoch
                and replica_set.master_incarnation == self._replica_sets.own_incarnation
            ):
                if not master_replica.begun:
                    self._begin(replica_set, master_replica)
                return
            self._step_down()
        if replica_set.master_incarnation == self._replica_sets.own_incarnation:
            self._lead(replica_set)
        else:
            self._follow(replica_set)

    def _be_a_newcomer_if_it_may(self) -> None:
        """One that has lost something can get everything from the master, once nobody counts on it."""
        if self._is_counted_on():
            return
        if self._lacks:
            self.contents_prepared()
        elif self._unreadable and isinstance(self.copy, StreamContents) and self._master_is_there(self.replica_set):
            self._begin_anew()

    def _lead(self, replica_set: ReplicaSet) -> None:
        self._stop_timer()
        self.mirror.leave()
        self.master_replica = MasterReplica(self._replica_sets, self, replica_set, self.copy)
        self.master_replica.delivery_lease.succeeds(self._predecessor)
        self._begin(replica_set, self.master_replica)

    def _begin(self, replica_set: ReplicaSet, master_replica: MasterReplica) -> None:
        if isinstance(master_replica.queue, Queue):
            hold_entries(master_replica.queue, self.copy, self._replica_sets.lent_out(master_replica.queue))
        master_replica.begin(self.mirror)
        facts: dict[str, object] = {
            "node": replica_set.master,
            "epoch": replica_set.epoch,
            "in_sync": ",".join(replica_set.synced_names()),
            "reason": promotion_reason(self._replica_sets, self._predecessor),
            "pending": len(self.mirror.batches),
        }
        self.note("info", "mirror.promoted", facts)
        if self._synced_before and replica_set.master not in self._synced_before:
            left = {"epoch": replica_set.epoch, "messages": self.copy.count(), "body_bytes": self.copy.body_bytes()}
            self.note("warning", "mirror.promoted_unsynced", {**left, "had_all": ",".join(self._synced_before)})
        self._replica_sets.leads(self)
        self._replica_sets.partners_changed()

    def _step_down(self) -> None:
        master_replica = self.master_replica
        assert master_replica is not None
        self.master_replica = None
        master_replica.end()
        self._replica_sets.close_queue(self.definition)
        self.copy.left_alone()
        self.mirror = Mirror(self.copy, self.upstream, self._replica_sets.turn)
        # one whose epoch was never opened may have done what did not count: whoever is master compares what it has
        if master_replica.master.opened:
            step_down(master_replica.master, self.mirror)

    # -- as a mirror

    def _follow(self, replica_set: ReplicaSet) -> None:
        upstream = self.upstream
        if self._standing:
            return
        if self._master_is_there(replica_set):
            self._stop_timer()
            self._lost_at_ms = 0
            if self.copy.has_lost():
                self._begin_anew()
            elif self.mirror.state == ALONE or (upstream.node, epoch_of(upstream.tag)) != (
                replica_set.master,
                replica_set.epoch,
            ):
                upstream.node = replica_set.master
                self.mirror.follow(replica_set.epoch)
            return
        self.mirror.leave()
        self._consider(replica_set)

    def _master_is_there(self, replica_set: ReplicaSet) -> bool:
        """Whether it is reached, and has not ceased to claim that it lives: a node that is paused does."""
        node, incarnation = replica_set.master_incarnation
        replica_sets = self._replica_sets
        return replica_sets.incarnation_reached(node) == incarnation and not replica_sets.membership.has_ended(
            node, incarnation
        )

    def master_lost(self, refused: bool) -> None:
        """The link to the master is gone."""
        self.mirror.leave()
        if not self._prepared or self.over or self._standing:
            return
        if refused:
            self._stand()
        else:
            self._wait(MASTER_LOST_DELAY_MS)

    def _consider(self, replica_set: ReplicaSet) -> None:
        """There is no way to the master: is it this node's turn?"""
        if self._replica_sets.living(replica_set.master) == replica_set.master_incarnation[1]:
            self._wait(MASTER_LOST_DELAY_MS)
        else:
            self._stand()

    def timer_fired(self) -> None:
        self._timer = None
        if self.over or self.master_replica is not None or not self._prepared:
            return
        if self._standing:
            # the result of the proposal is unknown: this node follows no master until the replica set changes
            self.propose(self.replica_set.promoting(self._replica_sets.own_incarnation))
        elif self._master_is_there(self.replica_set):
            self.act()
        else:
            self._stand()

    def _stand(self) -> None:
        """Stand for election, when those before have had their time."""
        replica_sets, replica_set, now_ms = self._replica_sets, self.replica_set, self._replica_sets.turn.now_ms
        anybody, born = (
            replica_sets.mirroring_policies.promotes_anybody(self.definition),
            replica_sets.membership.members.born,
        )
        order = promotion_candidates(replica_set, replica_sets.all_living(), anybody, self.definition.durable, born)
        if replica_sets.own_incarnation not in order or replica_sets.placing.retreats:
            self._wait(PROMOTION_RETRY_MS)
            return
        before = [
            run
            for run in order
            if run == replica_sets.own_incarnation or replica_sets.incarnation_reached(run[0]) == run[1]
        ]
        if self._lost_at_ms == 0:
            self._lost_at_ms = now_ms
        at_ms = self._lost_at_ms + promotion_delay_ms(before, replica_sets.own_incarnation)
        if now_ms < at_ms:
            self._wait(at_ms - now_ms)
            return
        self._standing = True
        self.mirror.leave()
        self.propose(replica_set.promoting(replica_sets.own_incarnation))

    def propose(self, replica_set: ReplicaSet) -> None:
        self._replica_sets.proposals.add(self, replica_set)

    def proposal_failed(self, replica_set: ReplicaSet) -> None:
        """It is not known to have come about, or has not."""
        if self.over:
            return
        master_replica = self.master_replica
        if master_replica is not None:
            # one that would make another master has the next epoch
            if replica_set.epoch - master_replica.master.replica_set.epoch in (0, 1):
                master_replica.master.refused()
            return
        self._wait(PROMOTION_RETRY_MS)

    def begin_anew_if_it_must(self) -> None:
        """What was taken off may have shown that it holds what never will count."""
        if isinstance(self.copy, StreamContents) and self.copy.contradicts:
            self._begin_anew()

    def _begin_anew(self) -> None:
        self.note("warning", "mirror.begins_anew", {"node": self._replica_sets.own_incarnation[0]})
        self._replica_sets.hold_anew(self)

    # -- as the master

    def make_queue(self, master_replica: MasterReplica) -> tuple[LocalQueue, MirroredLog]:
        return self._replica_sets.make_queue(self, self._queue_index, master_replica)

    def syncs_by_itself(self) -> bool:
        return self._replica_sets.mirroring_policies.syncs_by_itself(self.definition)

    # -- the end

    def close(self) -> None:
        """This node is not to hold the queue any more, or there is none."""
        self.over = True
        self._stop_timer()
        self.mirror.leave()
        if self.master_replica is not None:
            self.master_replica.end()
            self.master_replica = None
        self.copy.close()
        if not self.definition.durable:
            # that copy was in memory
            self._queue_index.close()

    def note(self, level: str, name: str, facts: dict[str, object]) -> None:
        self.history.tell(self._replica_sets.turn.now_ms, name, facts)
        where: dict[str, object] = {"vhost": self.definition.vhost, "queue": self.definition.name}
        self._replica_sets.turn.note(level, name, {**where, **facts})

    def _wait(self, for_ms: i64) -> None:
        if self._timer is None:
            self._timer = self._replica_sets.turn.set_timer(self._replica_sets.turn.now_ms + for_ms, self)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._replica_sets.turn.cancel_timer(self._timer)
            self._timer = None
