"""The links of a master to its followers and of a mirror to its master: they encode messages and send them.

The number of the last committed batch is sent with the next batch. If none follows within `COMMIT_DELAY_MS`, it is sent
alone: no client waits for it, and a busy mirror need not be woken once more for each batch.

Not here: the bytes (`broker.replication.messages`), when to send (`broker.replication.master`,
`broker.replication.mirror`), received messages (`broker.replication.master_replica`,
`broker.replication.local_replica`).
"""

from abc import abstractmethod
from typing import Final, final

from mypy_extensions import i64, trait

from warren.broker.links.link import NodeLinks
from warren.broker.metadata.shared_backend import SharedMetadataBackend
from warren.broker.model.replica_contents import PositionSpan, ReplicaContents
from warren.broker.model.turn import TimerTarget, Turn
from warren.broker.replication import messages
from warren.broker.replication.batches import OriginMarks, ReplicationBatch
from warren.broker.replication.master import DownstreamPort
from warren.broker.replication.mirror import MirrorJoinRequest, UpstreamPort
from warren.errors import InvariantBroken

COMMIT_DELAY_MS: Final[i64] = 10


@final
class UnsentCommits(TimerTarget):
    """The masters of a node that have committed a batch and not told their followers."""

    def __init__(self, turn: Turn) -> None:
        self._turn: Turn = turn
        self._downlinks: dict[DownstreamLink, None] = {}

    def add(self, downstream: "DownstreamLink") -> None:
        if not self._downlinks:
            self._turn.set_timer(self._turn.now_ms + COMMIT_DELAY_MS, self)
        self._downlinks[downstream] = None

    def has(self, downstream: "DownstreamLink") -> bool:
        """Whether the timer will make this link send."""
        return downstream in self._downlinks

    def timer_fired(self) -> None:
        downlinks, self._downlinks = self._downlinks, {}
        for downstream in downlinks:
            downstream.send_commits()


@trait
class DownstreamOwner:
    """The master that sends."""

    @abstractmethod
    def next_free_position(self) -> i64:
        """The lowest position that a later batch can store."""

    @abstractmethod
    def origin_marks(self) -> OriginMarks: ...


@final
class DownstreamLink(DownstreamPort):
    """From the master of one queue to its followers."""

    def __init__(
        self,
        links: NodeLinks,
        unsent_commits: UnsentCommits,
        queue_id: int,
        contents: ReplicaContents,
        owner: DownstreamOwner,
    ) -> None:
        # by follower: the tag of its messages, and the first position that it gets in batches
        self.tags: dict[str, int] = {}
        self.firsts: dict[str, i64] = {}
        self._links: NodeLinks = links
        self._unsent_commits: UnsentCommits = unsent_commits
        self._queue_id: int = queue_id
        self._contents: ReplicaContents = contents
        self._owner: DownstreamOwner = owner
        # by follower: the last committed batch, which it was not told yet
        self._committed: dict[str, int] = {}

    def forget(self, node: str) -> None:
        """The node no longer follows."""
        self.tags.pop(node, None)
        self._committed.pop(node, None)

    def resume(self, node: str, common: i64, committed: i64) -> None:
        self._committed.pop(node, None)
        self.send(node, messages.RESUME, [int(common), int(committed)])

    def start(self, node: str, number: i64) -> None:
        self._committed.pop(node, None)
        self.firsts[node] = self._owner.next_free_position()
        watermark, marks = self._contents.delivered_up_to(), self._owner.origin_marks()
        head = messages.encode_start(self._queue_id, self.tags[node], number, watermark, marks)
        self._links.send_replication(node, head, b"")

    def batch(self, node: str, batch: ReplicationBatch) -> None:
        committed = self._committed.pop(node, 0) if self._committed else 0
        self.send(node, messages.BATCH, [int(batch.number), int(batch.epoch), committed], batch.data)

    def commit(self, node: str, number: i64) -> None:
        if not self._committed:
            self._unsent_commits.add(self)
        self._committed[node] = int(number)

    def send_commits(self) -> None:
        """No batch has carried it so far."""
        committed, self._committed = self._committed, {}
        for node, number in committed.items():
            self.send(node, messages.COMMIT, [number])

    def send_spans(self, node: str, kind: i64, spans: list[PositionSpan]) -> None:
        self._links.send_replication(node, messages.encode_spans(kind, self._queue_id, self.tags[node], spans), b"")

    def send(self, node: str, kind: i64, values: list[int], data: bytes = b"") -> None:
        head = messages.encode_words(kind, self._queue_id, self.tags[node], values)
        self._links.send_replication(node, head, data)

    def check(self, followers: list[str]) -> None:
        """Raise `InvariantBroken` if a follower has no tag, or will not be told of a commit."""
        for node in [*followers, *self._committed]:
            if node not in self.tags:
                raise InvariantBroken(f"{node} follows and has no tag")
        if self._committed and not self._unsent_commits.has(self):
            raise InvariantBroken(f"{list(self._committed)} are never told of a commit")


@final
class JoinTags:
    """Numbers the attempts of one node to join masters, of any queue.

    The node numbers them, not the replica: a node can hold a queue for a second time.
    """

    def __init__(self) -> None:
        self._attempts: int = 0

    def next(self, epoch: int) -> int:
        self._attempts += 1
        return messages.tag_of(epoch, self._attempts)


@final
class UpstreamLink(UpstreamPort):
    """From the mirror of one queue to its master."""

    def __init__(self, links: NodeLinks, backend: SharedMetadataBackend, join_tags: JoinTags, queue_id: int) -> None:
        self.node: str = ""
        # of the last attempt to join
        self.tag: int = 0
        self._links: NodeLinks = links
        self._backend: SharedMetadataBackend = backend
        self._join_tags: JoinTags = join_tags
        self._queue_id: int = queue_id
        # of the backfill, since the last attempt to join
        self.acked_bytes: i64 = 0

    def join(self, request: MirrorJoinRequest) -> None:
        assert self.node, "the master is known"
        self.tag = self._join_tags.next(request.epoch)
        self.acked_bytes = 0
        request.known_revision = self._backend.applied
        self._send(messages.encode_join(self._queue_id, self.tag, request))

    def flushed_to(self, number: i64) -> None:
        self._send(messages.encode_words(messages.FLUSHED, self._queue_id, self.tag, [int(number)]))

    def has(self, spans: list[PositionSpan]) -> None:
        self._send(messages.encode_spans(messages.CONTENTS, self._queue_id, self.tag, spans))

    def caught_up(self) -> None:
        self._send(messages.encode_words(messages.CAUGHT_UP, self._queue_id, self.tag, []))

    def ack_backfill(self, size_bytes: i64) -> None:
        """So many more bytes of the backfill were stored."""
        self.acked_bytes += size_bytes
        self._send(messages.encode_words(messages.BACKFILL_ACK, self._queue_id, self.tag, [int(self.acked_bytes)]))

    def _send(self, message: bytes) -> None:
        self._links.send_replication(self.node, message, b"")
