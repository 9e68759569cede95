"""What of a node is on disk: its metadata and its journal, and how it comes back when the node starts.

Loading makes the durable exchanges, queues and bindings first, each queue with its log; then the journal is read into
the logs; then every queue is told what it has. Nothing of it is in memory until somebody wants it, but for what
exchanges delay.

Not here: the journal (`broker.journal.journal`), reading it (`broker.journal.recovery`), the metadata's way back
(`broker.startup`).
"""

from typing import final

from warren.broker.journal.journal import Journal
from warren.broker.journal.recovery import Recovery, StartupState
from warren.broker.metadata.store import Definition, MetadataChangeLog
from warren.broker.model.events import ArchiveRead, ArchiveWritten, Event, FlushCompleted, IndexRead, JournalRead
from warren.broker.model.settings import BrokerSettings
from warren.broker.model.turn import Turn
from warren.broker.startup import DefinitionLoader
from warren.broker.streams.files import StreamFiles
from warren.broker.vhost import Vhost


@final
class Storage:
    """One node's disk, as its core sees it."""

    def __init__(self, settings: BrokerSettings, turn: Turn, found: StartupState) -> None:
        self.metadata: MetadataChangeLog = MetadataChangeLog(found.revision)
        self.journal: Journal = Journal(turn, self.metadata, settings.segment_bytes, found.incarnation)
        self.streams: StreamFiles = StreamFiles(turn, True, found.archives)
        self._turn: Turn = turn
        self._found: StartupState = found
        self._definitions: DefinitionLoader = DefinitionLoader(found.values)

    def take(self, event: Event) -> None:
        """The disk answers."""
        if isinstance(event, FlushCompleted):
            self.journal.stored(event)
        elif isinstance(event, JournalRead):
            self.journal.journal_read(event)
        elif isinstance(event, IndexRead):
            self.journal.index_read(event)
        elif isinstance(event, ArchiveRead):
            self.streams.archives.read(event)
        elif isinstance(event, ArchiveWritten):
            self.streams.archives.written(event)

    def other_definitions(self) -> list[Definition]:
        """What is recorded besides exchanges, queues and bindings."""
        return self._definitions.others

    def vhost_names(self) -> list[str]:
        """The virtual hosts that something on disk belongs to."""
        return self._definitions.vhosts

    def load(self, vhosts: dict[str, Vhost]) -> None:
        """Bring back what was there; a `StoreError` if that cannot be done without guessing."""
        loaded = self._definitions.load(vhosts, self.metadata if self._found.shared is None else None)
        recovery = Recovery(self.journal, self._found.files, self._found.revision)
        recovery.run()
        self.journal.check()
        for queue_id, queue in loaded.queues.items():
            queue_index = self.journal.queue_indexes[queue_id]
            queue.recover(queue_index.runs(), queue_index.next_position)
            reason = recovery.stopped.get(queue_id, "")
            if reason:
                queue.stop(reason)
        for vhost_name, exchange_id, exchange in loaded.delaying_exchanges:
            queue_index = self.journal.queue_indexes[exchange_id]
            vhosts[vhost_name].delays.recover(exchange, queue_index.runs(), queue_index.next_position)
        facts: dict[str, object] = {
            "queues": len(loaded.queues),
            "messages": recovery.messages,
            "clean": recovery.clean,
            "incarnation": self._found.incarnation,
        }
        self._turn.note("info", "journal.recovered", facts)
        self.streams.drop_unclaimed(self._definitions.queue_ids())
        for fault in recovery.faults:
            self._turn.note("error", "journal.damaged", {"reason": fault})
        for key in loaded.dropped:
            self._turn.note("warning", "binding.dropped", {"key": key})
