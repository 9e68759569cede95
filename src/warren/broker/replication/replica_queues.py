"""By type of queue: the contents of a replica, and the queue that a master makes from them.

A replica has contents in every role. Only a master also has a queue, in its virtual host, made when its epoch opens and
closed when another node is master. Entries are in both then: the queue uses the contents' journal or memory.

Not here: when a queue is made (`broker.replication.master_replica`), queues that are not mirrored
(`broker.queue_factory`).
"""

from typing import final

from mypy_extensions import i64

from warren.broker.journal.queue_index import QueueIndex
from warren.broker.journal.replica_contents import DiskContents, MemoryContents
from warren.broker.links.link import NodeLinks
from warren.broker.metadata.topology_definitions import QueueDefinition
from warren.broker.model.archive import Archive, ArchiveReadWaiter, ArchiveWriteWaiter
from warren.broker.model.local_queue import LocalQueue
from warren.broker.model.message import Entry
from warren.broker.model.replica_contents import ReplicaContents
from warren.broker.model.turn import Turn
from warren.broker.queues.arguments import STREAM, type_of
from warren.broker.replication.master import Master
from warren.broker.replication.mirrored_log import MirroredLog, max_priority_of
from warren.broker.replication.stream_contents import StreamContents
from warren.broker.sessions import firehose
from warren.broker.streams.files import StreamFiles
from warren.broker.streams.settings import stream_settings_of
from warren.broker.streams.stream import Stream
from warren.broker.vhost import Vhost


@final
class MirroredArchive(Archive):
    """The archive that a master's stream uses: it writes to the archive of the master's replica."""

    def __init__(self, contents: StreamContents, log: MirroredLog) -> None:
        self._contents: StreamContents = contents
        self._log: MirroredLog = log

    def write(self, segment: i64, at: i64, data: bytes, writer: ArchiveWriteWaiter) -> None:
        self._contents.archiver.write(segment, at, data, writer)

    def read(self, segment: i64, at: i64, length: i64, waiter: ArchiveReadWaiter) -> None:
        self._contents.archive.read(segment, at, length, waiter)

    def withdraw(self, waiter: ArchiveReadWaiter) -> None:
        self._contents.archive.withdraw(waiter)

    def drop(self, segments: list[int]) -> None:
        """Retention dropped these: the next batch tells the mirrors how far."""
        self._contents.archive.drop(segments)
        self._log.removed_up_to(self._contents.catalog.first_position() - 1)

    def close(self) -> None:
        """The stream is closed here. The replica keeps its archive."""


@final
class ReplicaQueues:
    """Makes contents and master queues, and finds the queues of virtual hosts."""

    def __init__(self, own: str, vhosts: dict[str, Vhost], links: NodeLinks, streams: StreamFiles, turn: Turn) -> None:
        self._own: str = own
        self._vhosts: dict[str, Vhost] = vhosts
        self._links: NodeLinks = links
        self._streams: StreamFiles = streams
        self._turn: Turn = turn

    # -- contents

    def contents(self, definition: QueueDefinition, queue_id: int, queue_index: QueueIndex) -> ReplicaContents:
        """The contents of a replica: empty, or as found on disk."""
        if not definition.durable:
            return MemoryContents(self._turn, max_priority_of(definition.arguments), queue_index)
        disk = DiskContents(queue_index)
        if type_of(definition.arguments) != STREAM:
            return disk
        found = self._streams.found(queue_id, stream_settings_of(definition.arguments).segment_bytes)
        return StreamContents(disk, found.catalog, self._streams.archive(queue_id), self._turn, found.damage)

    def adopted_contents(
        self, definition: QueueDefinition, queue: LocalQueue, queue_index: QueueIndex
    ) -> ReplicaContents:
        """The contents of the first replica of a queue that was not mirrored before."""
        if isinstance(queue, Stream):
            archive = self._streams.archive(queue.queue_id)
            return StreamContents(DiskContents(queue_index), queue.catalog(), archive, self._turn)
        return self.contents(definition, queue.queue_id, queue_index)

    # -- the master's queue

    def make(
        self, definition: QueueDefinition, queue_id: int, contents: ReplicaContents, log: MirroredLog
    ) -> LocalQueue:
        """The master's queue, with the contents of its replica."""
        vhost, replica_set = self._vhosts[definition.vhost], definition.replica_set
        assert replica_set is not None, "a mirrored queue has one"
        queue: LocalQueue
        if isinstance(contents, StreamContents):
            log.archives = True
            archive = MirroredArchive(contents, log)
            queue = vhost.make_master_stream(definition, queue_id, log, archive, contents.catalog)
        else:
            queue = vhost.make_master_queue(definition, queue_id, log)
        # sessions publish through the proxy, which counts: messages published before stay counted
        queue.counted = vhost.topology.queues[queue.name].counted
        queue.uncounted -= queue.counted.published
        contents.hand_over(queue)
        queue.begin_epoch(replica_set.first_position())
        return queue

    def mirror_stream(self, stream: Stream, contents: ReplicaContents, log: MirroredLog) -> None:
        """A stream that was not mirrored before becomes the master's."""
        assert isinstance(contents, StreamContents), "a stream's replica has a stream's contents"
        log.archives = True
        contents.archiver.is_master = True
        stream.mirror(log, MirroredArchive(contents, log))

    def close(self, definition: QueueDefinition) -> None:
        """This node is no longer the master, or the queue was deleted."""
        vhost = self._vhosts.get(definition.vhost)
        if vhost is not None:
            vhost.remove_master_queue(definition.name)

    def unacked_entries(self, queue: LocalQueue) -> list[Entry]:
        """The entries of a queue of this node that clients of any node have unacked."""
        vhost = self._vhosts[queue.vhost]
        return vhost.unacked_entries(queue) + self._links.lent_out(queue)

    def consumers_left(self, queue: LocalQueue) -> None:
        """The last consumer of one node is gone."""
        if queue.auto_delete and queue.consumer_count() == 0:
            self._vhosts[queue.vhost].delete_unused(queue)

    def trace_committed(self, queue: LocalQueue, master: Master, entries: list[Entry]) -> None:
        """If the virtual host is traced: report which nodes hold these entries."""
        vhost = self._vhosts.get(queue.vhost)
        if vhost is not None and vhost.tracing:
            epoch, nodes = master.replica_set.epoch, sorted([name for name, _incarnation in master.counted()])
            for entry in entries:
                firehose.trace_committed(vhost.topology, self._own, queue, entry.message, epoch, nodes)

    def id_of(self, vhost: str, name: str) -> int | None:
        """The id of the queue of that name."""
        found = self._vhosts.get(vhost)
        queue = None if found is None else found.topology.queues.get(name)
        return None if queue is None else queue.queue_id
