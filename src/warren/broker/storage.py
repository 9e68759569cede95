"""The state of a node on disk: metadata, journal and streams, and loading them at startup.

Durable exchanges, queues and bindings are made first, each queue with its log. Then the journal is read into the logs.
Then every queue is given the positions of its messages. Messages stay on disk until they are needed, except delayed
ones.

Not here: the journal (`broker.journal.journal`), reading it (`broker.journal.recovery`), definitions
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
    """The disk of one node, as its core sees it."""

    def __init__(self, settings: BrokerSettings, turn: Turn, found: StartupState) -> None:
        self.metadata: MetadataChangeLog = MetadataChangeLog(found.revision)
        self.journal: Journal = Journal(turn, self.metadata, settings.segment_bytes, found.incarnation)
        self.streams: StreamFiles = StreamFiles(turn, True, found.archives)
        self._turn: Turn = turn
        self._found: StartupState = found
        self._definitions: DefinitionLoader = DefinitionLoader(found.values)

    def handle(self, event: Event) -> None:
        """An answer of the disk."""
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
        """Recorded definitions except exchanges, queues and bindings."""
        return self._definitions.others

    def vhost_names(self) -> list[str]:
        """The virtual hosts of recorded exchanges, queues and bindings."""
        return self._definitions.vhosts

    def load(self, vhosts: dict[str, Vhost]) -> None:
        """Load everything; a `StoreError` if the files are inconsistent."""
        loaded = self._definitions.load(vhosts, self.metadata if self._found.shared is None else None)
        recovery = Recovery(self.journal, self._found.files, self._found.revision)
        recovery.run()
        self.journal.check()
        for queue_id, queue in loaded.queues.items():
            queue_index = self.journal.queue_indexes[queue_id]
            queue.recover(queue_index.position_ranges(), queue_index.next_position)
            reason = recovery.stopped.get(queue_id, "")
            if reason:
                queue.stop(reason)
        for vhost_name, exchange_id, exchange in loaded.delaying_exchanges:
            queue_index = self.journal.queue_indexes[exchange_id]
            vhosts[vhost_name].delays.recover(exchange, queue_index.position_ranges(), queue_index.next_position)
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
