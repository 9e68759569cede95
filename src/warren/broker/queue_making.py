"""Makes the queues that live on a node, each of its type, with its log, its files and the policies that count for it.

Not here: which queues there are to be (`broker.vhost`), what is on disk of them (`broker.storage`).
"""

from typing import final

from warren.broker.policy.governor import Governor, tell
from warren.broker.stream_files import StreamFiles
from warren.model.archive import Archive
from warren.model.own_queue import OwnQueue
from warren.model.ports import QueueLog, QueueLogs
from warren.model.turn import Turn
from warren.queue.arguments import type_of
from warren.queue.keeper import QueueKeeper
from warren.queue.queue import Queue
from warren.queue.settings import settings_of
from warren.queue.stream_arguments import STREAM
from warren.store.topology_definitions import QueueDefinition
from warren.stream.catalog import SEGMENT_BYTES, Catalog
from warren.stream.settings import stream_settings_of
from warren.stream.stream import Stream


@final
class QueueMaking:
    """For one virtual host. Without logs its queues are in memory alone."""

    def __init__(
        self, turn: Turn, governor: Governor, keeper: QueueKeeper, logs: QueueLogs | None, streams: StreamFiles
    ) -> None:
        self._turn: Turn = turn
        self._governor: Governor = governor
        self._keeper: QueueKeeper = keeper
        self._logs: QueueLogs | None = logs
        self._streams: StreamFiles = streams

    def make(self, definition: QueueDefinition, queue_id: int) -> OwnQueue:
        if type_of(definition.arguments) == STREAM:
            return self.make_stream(definition, queue_id, self._open_log(definition, queue_id))
        return self.make_queue(definition, queue_id, self._open_log(definition, queue_id))

    def make_queue(self, definition: QueueDefinition, queue_id: int, log: QueueLog | None) -> Queue:
        in_force = self._governor.in_force_for(definition.name)
        queue = Queue(
            definition.vhost,
            definition.name,
            definition.durable,
            definition.exclusive,
            definition.auto_delete,
            definition.arguments,
            definition.owner,
            self._governor.settings_for(definition.arguments, in_force),
            self._turn,
            self._keeper,
            log,
        )
        queue.queue_id = queue_id
        tell(queue, in_force)
        return queue

    def make_stream(self, definition: QueueDefinition, queue_id: int, log: QueueLog | None) -> Stream:
        found = self._streams.found(queue_id, SEGMENT_BYTES)
        archive = self._streams.archive(queue_id)
        stream = self.make_stream_of(definition, queue_id, self._streams.log_or_none(log), archive, found.catalog)
        if found.damage:
            stream.stop(found.damage)
        return stream

    def make_stream_of(
        self, definition: QueueDefinition, queue_id: int, log: QueueLog, archive: Archive, catalog: Catalog
    ) -> Stream:
        """One that has these files."""
        in_force = self._governor.in_force_for(definition.name)
        settings = stream_settings_of(definition.arguments, in_force.definition)
        stream = Stream(
            definition.vhost, definition.name, definition.arguments, settings, self._turn, log, archive, catalog
        )
        stream.queue_id = queue_id
        tell(stream, in_force)
        return stream

    def _open_log(self, definition: QueueDefinition, queue_id: int) -> QueueLog | None:
        if self._logs is None:
            return None
        # what does not outlive the node has a negative id on its disk
        log_id = queue_id if definition.durable else -abs(queue_id)
        return self._logs.open(log_id, definition.durable, int(settings_of(definition.arguments).max_priority))
