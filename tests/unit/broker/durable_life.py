"""A virtual host with a real metadata file, which can be restarted."""

from tests.support.lone_vhosts import lone_vhost
from tests.unit.broker.queues.world import START_MS
from warren.broker.journal.journal import Journal
from warren.broker.metadata.store import MetadataChangeLog
from warren.broker.metadata.topology_definitions import ExchangeDefinition, QueueDefinition
from warren.broker.model.ports import QueuePort
from warren.broker.model.turn import Turn
from warren.broker.routing.exchanges import Binding, Exchange
from warren.broker.startup import DefinitionLoader, LoadedDefinitions
from warren.node.disk.sqlite_store import SqliteStore
from warren.wire.field_tables import Table

SEGMENT_BYTES = 1024 * 1024


class Life:
    """A virtual host from the start of its node on, with the files of the node."""

    def __init__(self, store: SqliteStore) -> None:
        self.store = store
        self.turn = Turn()
        self.turn.now_ms = START_MS
        revision, snapshot = store.snapshot()
        self.metadata = MetadataChangeLog(revision)
        self.journal = Journal(self.turn, self.metadata, SEGMENT_BYTES, 1)
        self.vhost = lone_vhost(self.turn, self.metadata, self.journal)
        self.loaded: LoadedDefinitions = DefinitionLoader(snapshot).load({"/": self.vhost}, self.metadata)

    def end_turn(self) -> None:
        self.store.apply(self.metadata.take())

    def keys(self) -> list[str]:
        """The recorded keys, in no order."""
        self.end_turn()
        return sorted(self.store.snapshot()[1])

    def next(self) -> "Life":
        """The node stops here and starts again."""
        self.end_turn()
        return Life(self.store)

    def queue(
        self, name: str, durable: bool = True, auto_delete: bool = False, arguments: Table | None = None, owner: int = 0
    ) -> QueuePort:
        assert self.vhost.declare_queues(
            [QueueDefinition(self.vhost.name, name, durable, owner != 0, auto_delete, arguments or {}, owner=owner)]
        )
        return self.vhost.topology.queues[name]

    def exchange(
        self,
        name: str,
        kind: str = "fanout",
        durable: bool = True,
        auto_delete: bool = False,
        arguments: Table | None = None,
    ) -> Exchange:
        assert self.vhost.declare_exchange(
            ExchangeDefinition(self.vhost.name, name, kind, durable, auto_delete, False, arguments or {})
        )
        return self.vhost.topology.exchanges[name]

    def bind(
        self, source: str, destination: QueuePort | Exchange, key: str = "", arguments: Table | None = None
    ) -> None:
        assert self.vhost.bind(Binding(self.vhost.topology.exchanges[source], destination, key, arguments or {}))
