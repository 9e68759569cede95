"""A master's way to its followers: over the links between their nodes.

What is settled is said with the next step. If none comes for `LATER_MS` it is said for itself: nobody waits for it, and
a mirror that is busy need not be woken once more for each step.

Not here: what is said (`broker.replication.messages`), when (`broker.replication.master`).

A mirror's way to its master: over the link between their nodes.

Not here: what is said (`broker.replication.messages`), when (`broker.replication.mirror`).

What members of a ring say to this node, and what becomes of it.

Not here: whose part it is (`broker.replication.replica_sets`), the bytes (`broker.replication.messages`).
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.broker.model.replica_contents import PositionSpan
from warren.broker.model.turn import TimerTarget, Turn
from warren.broker.replication import messages
from warren.broker.replication.batches import ReplicationBatch
from warren.broker.replication.master import DownstreamPort
from warren.broker.replication.messages import ReplicationMessageReader
from warren.broker.replication.mirror import MirrorJoinRequest, UpstreamPort
from warren.errors import PeerFault

if TYPE_CHECKING:
    from warren.broker.replication.local_replica import LocalReplica
    from warren.broker.replication.master_replica import MasterReplica
    from warren.broker.replication.replica_sets import ReplicaSets


COMMIT_DELAY_MS: Final[i64] = 10


@final
class UnsentCommits(TimerTarget):
    """Whichever masters of this node have yet to say what is settled."""

    def __init__(self, turn: Turn) -> None:
        self._turn: Turn = turn
        self._downlinks: dict[DownstreamLink, None] = {}

    def add(self, downstream: "DownstreamLink") -> None:
        if not self._downlinks:
            self._turn.set_timer(self._turn.now_ms + COMMIT_DELAY_MS, self)
        self._downlinks[downstream] = None

    def timer_fired(self) -> None:
        downlinks, self._downlinks = self._downlinks, {}
        for downstream in downlinks:
            downstream.send_commits()


@final
class DownstreamLink(DownstreamPort):
    """Of one queue's master."""

    def __init__(self, replica_sets: "ReplicaSets", queue_id: int, master_replica: "MasterReplica") -> None:
        # of each follower: what its messages and those to it bear, and the first position it gets in a step
        self.tags: dict[str, int] = {}
        self.firsts: dict[str, i64] = {}
        self._replica_sets: ReplicaSets = replica_sets
        self._queue_id: int = queue_id
        self._master_replica: MasterReplica = master_replica
        # of each follower: up to where what it has is settled, which it was not told
        self._committed: dict[str, int] = {}

    def forget(self, node: str) -> None:
        """It does not follow any more."""
        self.tags.pop(node, None)
        self._committed.pop(node, None)

    def resume(self, node: str, common: i64, committed: i64) -> None:
        self._committed.pop(node, None)
        self._send(node, messages.RESUME, [int(common), int(committed)], b"")

    def start(self, node: str, number: i64) -> None:
        master_replica = self._master_replica
        self._committed.pop(node, None)
        self.firsts[node] = master_replica.next_position
        head = messages.encode_start(
            self._queue_id, self.tags[node], number, master_replica.copy.delivered_up_to(), master_replica.master.marks
        )
        self._replica_sets.links.send_replication(node, head, b"")

    def batch(self, node: str, batch: ReplicationBatch) -> None:
        committed = self._committed.pop(node, 0) if self._committed else 0
        self._send(node, messages.BATCH, [int(batch.number), int(batch.epoch), committed], batch.data)

    def commit(self, node: str, number: i64) -> None:
        if not self._committed:
            self._replica_sets.unsent_commits.add(self)
        self._committed[node] = int(number)

    def send_commits(self) -> None:
        """No step has said it so far."""
        committed, self._committed = self._committed, {}
        for node, number in committed.items():
            self._send(node, messages.COMMIT, [number], b"")

    def _send(self, node: str, kind: i64, values: list[int], data: bytes) -> None:
        head = messages.encode_words(kind, self._queue_id, self.tags[node], values)
        self._replica_sets.links.send_replication(node, head, data)


@final
class UpstreamLink(UpstreamPort):
    """Of one queue; to whichever node is its master."""

    def __init__(self, replica_sets: "ReplicaSets", queue_id: int) -> None:
        self.node: str = ""
        # of the last attempt to join
        self.tag: int = 0
        self._replica_sets: ReplicaSets = replica_sets
        self._queue_id: int = queue_id
        # of the past, since the last attempt to join
        self.taken_bytes: i64 = 0

    def join(self, request: MirrorJoinRequest) -> None:
        # the node counts them: this one may hold the queue for the second time
        self._replica_sets.attempts += 1
        self.tag = messages.tag_of(request.epoch, self._replica_sets.attempts)
        self.taken_bytes = 0
        request.known = self._replica_sets.backend.applied
        self._send(messages.encode_join(self._queue_id, self.tag, request))

    def flushed_to(self, number: i64) -> None:
        self._send(messages.encode_words(messages.FLUSHED, self._queue_id, self.tag, [int(number)]))

    def has(self, spans: list[PositionSpan]) -> None:
        self._send(messages.encode_spans(messages.CONTENTS, self._queue_id, self.tag, spans))

    def caught_up(self) -> None:
        self._send(messages.encode_words(messages.CAUGHT_UP, self._queue_id, self.tag, []))

    def taken(self, size_bytes: i64) -> None:
        """So much more of the past was taken in."""
        self.taken_bytes += size_bytes
        self._send(messages.encode_words(messages.BACKFILL_ACK, self._queue_id, self.tag, [int(self.taken_bytes)]))

    def _send(self, message: bytes) -> None:
        self._replica_sets.links.send_replication(self.node, message, b"")


def rejoin_masters(replica_sets: "ReplicaSets") -> None:
    """Have every newcomer ask its master once more.

    A node that was told how things are, and not what they were in between, may have been taken out of a ring and taken
    in again. Its master does not take it for a follower any more.
    """
    for replica in replica_sets.replicas():
        if replica.master_replica is None and replica_sets.own_incarnation not in replica.replica_set.in_sync:
            replica.mirror.leave()
            replica.act()


def handle_mirror_message(node: str, master_replica: "MasterReplica", reader: ReplicationMessageReader) -> None:
    """A mirror that follows says something."""
    kind = reader.kind
    if kind == messages.FLUSHED:
        master_replica.master.flushed_to(node, reader.word())
    elif kind == messages.CONTENTS:
        master_replica.master.told(node, reader.spans())
    elif kind == messages.BACKFILL_ACK:
        master_replica.joining_mirrors.taken(node, reader.word())
    elif kind == messages.CAUGHT_UP:
        master_replica.caught_up(node)
    else:
        raise PeerFault(f"a message of kind {kind} came from a mirror")


def handle_master_message(node: str, replica: "LocalReplica", reader: ReplicationMessageReader) -> bool:
    """A node says something as a master; whether it is the one that is followed."""
    mirror = replica.mirror
    if (replica.upstream.node, replica.upstream.tag) != (node, reader.tag):
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
        _store_backfill(replica, reader)
    elif kind == messages.RESUME:
        common = reader.word()
        mirror.resume(common, reader.word())
    elif kind == messages.START:
        number, lent = reader.word(), reader.word()
        mirror.start(number, lent, reader.marks())
    elif kind == messages.SURPLUS:
        for span in reader.spans():
            mirror.remove_surplus(span)
        replica.begin_anew_if_it_must()
    elif kind == messages.PUBLISHING_IDS:
        anew = reader.word() != 0
        mirror.load_publishing_ids(reader.rest(), anew)
    elif kind == messages.STORED_OFFSET:
        offset = reader.word()
        mirror.take_offset(reader.rest().decode("utf-8", "surrogateescape"), offset)
    elif kind == messages.BACKFILL_END:
        mirror.backfill_done()
    else:
        raise PeerFault(f"a message of kind {kind} came from a master")
    return True


def _store_backfill(replica: "LocalReplica", reader: ReplicationMessageReader) -> None:
    position, kind, expires_at_ms = reader.word(), reader.word(), reader.word()
    returned, crc = reader.word(), reader.word()
    payload = reader.rest()
    replica.mirror.take_backfill(position, kind >> 8, expires_at_ms, kind & 1 != 0, returned, payload, crc)
    replica.upstream.taken(len(payload))
