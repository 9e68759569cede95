"""Makes the queues and streams of a node, with their logs, files and effective policies.

Not here: which queues exist (`broker.vhost`), their contents on disk (`broker.storage`).
"""

from typing import final

from warren.broker.metadata.topology_definitions import QueueDefinition
from warren.broker.model.archive import Archive
from warren.broker.model.local_queue import LocalQueue
from warren.broker.model.ports import QueueLog, QueueLogs
from warren.broker.model.turn import Turn
from warren.broker.policy_enforcer import PolicyEnforcer, set_effective_policy
from warren.broker.queues.arguments import STREAM, type_of
from warren.broker.queues.queue import Queue, QueueOwner
from warren.broker.queues.settings import queue_settings
from warren.broker.streams.archive_index import SEGMENT_BYTES, ArchiveIndex
from warren.broker.streams.files import StreamFiles
from warren.broker.streams.settings import stream_settings_of
from warren.broker.streams.stream import Stream


@final
class QueueFactory:
    """The factory of one virtual host. Without logs, queues are kept in memory only."""

    def __init__(
        self, turn: Turn, enforcer: PolicyEnforcer, keeper: QueueOwner, logs: QueueLogs | None, streams: StreamFiles
    ) -> None:
        self._turn: Turn = turn
        self._enforcer: PolicyEnforcer = enforcer
        self._keeper: QueueOwner = keeper
        self._logs: QueueLogs | None = logs
        self._streams: StreamFiles = streams

    def make(self, definition: QueueDefinition, queue_id: int) -> LocalQueue:
        if type_of(definition.arguments) == STREAM:
            return self.make_stream(definition, queue_id, self._open_log(definition, queue_id))
        return self.make_queue(definition, queue_id, self._open_log(definition, queue_id))

    def make_queue(self, definition: QueueDefinition, queue_id: int, log: QueueLog | None) -> Queue:
        effective = self._enforcer.effective_for(definition.name)
        queue = Queue(
            definition.vhost,
            definition.name,
            definition.durable,
            definition.exclusive,
            definition.auto_delete,
            definition.arguments,
            definition.owner,
            self._enforcer.settings_for(definition.arguments, effective),
            self._turn,
            self._keeper,
            log,
        )
        queue.queue_id = queue_id
        set_effective_policy(queue, effective)
        return queue

    def make_stream(self, definition: QueueDefinition, queue_id: int, log: QueueLog | None) -> Stream:
        found = self._streams.found(queue_id, SEGMENT_BYTES)
        archive = self._streams.archive(queue_id)
        stream = self.make_stream_of(definition, queue_id, self._streams.log_or_none(log), archive, found.catalog)
        if found.damage:
            stream.stop(found.damage)
        return stream

    def make_stream_of(
        self, definition: QueueDefinition, queue_id: int, log: QueueLog, archive: Archive, catalog: ArchiveIndex
    ) -> Stream:
        """A stream with these files."""
        effective = self._enforcer.effective_for(definition.name)
        settings = stream_settings_of(definition.arguments, effective.definition)
        stream = Stream(
            definition.vhost, definition.name, definition.arguments, settings, self._turn, log, archive, catalog
        )
        stream.queue_id = queue_id
        set_effective_policy(stream, effective)
        return stream

    def _open_log(self, definition: QueueDefinition, queue_id: int) -> QueueLog | None:
        if self._logs is None:
            return None
        # a transient queue has a negative id on disk
        log_id = queue_id if definition.durable else -abs(queue_id)
        return self._logs.open(log_id, definition.durable, int(queue_settings(definition.arguments).max_priority))
