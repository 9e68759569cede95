"""What a node needs for its part in a ring, by the type of the queue: a copy of it, and as its master the queue itself.

Not here: when either is needed (`broker.mirrors.part`), queues of one node (`broker.queue_making`).
"""

from typing import TYPE_CHECKING

from warren.broker.mirrored_streams.ring_archive import RingArchive
from warren.broker.mirrored_streams.stream_copy import StreamCopy
from warren.broker.mirrors.mirrored_log import MirroredLog, max_priority_of
from warren.broker.stream_files import StreamFiles
from warren.broker.vhost import Vhost
from warren.model.copies import Copy
from warren.model.own_queue import OwnQueue
from warren.model.ports import QueueLog
from warren.model.turn import Turn
from warren.queue.arguments import type_of
from warren.queue.stream_arguments import STREAM
from warren.store.copies.disk_copy import DiskCopy
from warren.store.copies.memory_copy import MemoryCopy
from warren.store.queue_book import QueueBook
from warren.store.topology_definitions import QueueDefinition
from warren.stream.settings import stream_settings_of
from warren.stream.stream import Stream

if TYPE_CHECKING:
    from warren.broker.mirrors.mastery import Mastery
    from warren.broker.mirrors.part import Part


def new_copy(definition: QueueDefinition, queue_id: int, book: QueueBook, streams: StreamFiles, turn: Turn) -> Copy:
    """What this node holds of a queue; nothing, unless it has something on disk."""
    if not definition.durable:
        return MemoryCopy(turn, max_priority_of(definition.arguments), book)
    if type_of(definition.arguments) != STREAM:
        return DiskCopy(book)
    found = streams.found(queue_id, stream_settings_of(definition.arguments).segment_bytes)
    return StreamCopy(DiskCopy(book), found.catalog, streams.archive(queue_id), turn, found.damage)


def adopted_copy(
    definition: QueueDefinition, queue: OwnQueue, book: QueueBook, streams: StreamFiles, turn: Turn
) -> Copy:
    """What this node holds of a queue that it has had alone so far."""
    if isinstance(queue, Stream):
        return StreamCopy(DiskCopy(book), queue.catalog(), streams.archive(queue.queue_id), turn)
    return new_copy(definition, queue.queue_id, book, streams, turn)


def mirror_stream(part: "Part", stream: Stream, log: MirroredLog) -> None:
    """A stream that this node has had alone is the master's from here on."""
    copy = part.copy
    assert isinstance(copy, StreamCopy), "it is a stream's"
    log.archives = True
    copy.archivist.leads = True
    stream.mirror(log, RingArchive(copy, log))


def make_queue(part: "Part", vhost: Vhost, book: QueueLog, mastery: "Mastery") -> tuple[OwnQueue, MirroredLog]:
    """The queue of which this node is master, with what its copy holds."""
    definition, copy = part.definition, part.copy
    log = MirroredLog(book, mastery, max_priority_of(definition.arguments))
    queue: OwnQueue
    if isinstance(copy, StreamCopy):
        log.archives = True
        archive = RingArchive(copy, log)
        queue = vhost.make_mastered_stream(definition, part.queue_id, log, archive, copy.catalog)
    else:
        queue = vhost.make_mastered_queue(definition, part.queue_id, log)
    # sessions use what stands in for it, and count there; what it was given before stays counted
    queue.counted = vhost.topology.queues[queue.name].counted
    queue.uncounted -= queue.counted.published
    copy.hand_over(queue)
    queue.begin_epoch(part.ring.first_position())
    return queue, log
