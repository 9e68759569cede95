"""A core with a journal on a `PlainDisk`; and recovery of such a disk, message by message.

`DurableCore` carries out every effect at once and reports it to the core in a turn of its own, until nothing is left to
do. Its `orders` are all effects on the disk, so that a test can repeat them on an empty disk and stop anywhere.

Not here: the disk and the oracle (`plain_disk`), clients (`tests.support.core_driver`).
"""

from tests.support.core_driver import START_MS, Client, Core, published
from tests.unit.broker.journal.plain_disk import Living, PlainDisk
from warren.broker.broker import Broker
from warren.broker.journal.journal import Journal
from warren.broker.journal.recovery import Recovery
from warren.broker.metadata.definition_kinds import decode_definition
from warren.broker.metadata.store import MetadataChangeLog
from warren.broker.metadata.topology_definitions import ExchangeDefinition, QueueDefinition
from warren.broker.model.effects import (
    AppendRecords,
    DropSegments,
    Effect,
    ReadIndex,
    ReadJournal,
    SealSegment,
    WriteCheckpoint,
)
from warren.broker.model.events import Event, FlushCompleted, IndexRead, JournalRead, StopRequested
from warren.broker.model.message import Entry
from warren.broker.model.ports import QueuePort
from warren.broker.model.settings import BrokerSettings
from warren.broker.model.turn import Turn
from warren.broker.queues.queue import Queue, QueueOwner
from warren.broker.queues.settings import queue_settings
from warren.errors import ChannelFault
from warren.wire.field_tables import Table
from warren.wire.methods import BasicAck, BasicGet, BasicGetOk, BasicReject
from warren.wire.properties import Properties

WRITES = (AppendRecords, SealSegment, WriteCheckpoint, DropSegments)
READS = (ReadIndex, ReadJournal)


class DurableCore(Core):
    """One broker with a disk that answers in the next turn."""

    def __init__(self, disk: PlainDisk, segment_bytes: int = 64 * 1024 * 1024, now_ms: int = START_MS) -> None:
        super().__init__(BrokerSettings())
        self.disk = disk
        self.now_ms = now_ms
        self.orders: list[Effect] = []
        self._answers: list[Event] = []
        self.broker = Broker(BrokerSettings(segment_bytes=segment_bytes), seed=b"x", found=disk.found(now_ms))
        self.turn()

    def turn(self, *events: Event) -> list[Effect]:
        effects = super().turn(*events)
        while self._answers or 0 < self.timer_at_ms <= self.now_ms:
            answers, self._answers = self._answers, []
            effects += super().turn(*answers)
        return effects

    def stop(self) -> None:
        """Stop as an operator does."""
        self.turn(StopRequested())
        for number in list(self.broker.connections):
            self._clients[number].lose()

    def journal(self) -> Journal:
        storage = self.broker._storage
        assert storage is not None
        return storage.journal

    def _carry_out(self, effect: Effect) -> None:
        super()._carry_out(effect)
        if isinstance(effect, WRITES):
            self.orders.append(effect)
            self.disk.carry_out(effect)
            if isinstance(effect, AppendRecords):
                self._answers.append(FlushCompleted(effect.batch_no, effect.batch_no))
        elif isinstance(effect, READS):
            answer = self.disk.read(effect)
            assert answer is not None
            self._answers.append(answer)


def persistent(key: str, body: bytes, exchange: str = "", **properties: object) -> bytes:
    """The frames of one persistent publish."""
    return published(key, body, exchange, Properties(delivery_mode=2, **properties))  # type: ignore[arg-type]


def get(client: Client, queue: str) -> tuple[int, bytes]:
    """One message: its tag and its body."""
    client.say(BasicGet(queue=queue))
    (heard,) = client.heard()
    assert isinstance(heard.method, BasicGetOk), heard.method
    return int(heard.method.delivery_tag), heard.body


def drain(client: Client, queue: str) -> list[bytes]:
    """Every message of a queue, acked."""
    bodies: list[bytes] = []
    while True:
        client.say(BasicGet(queue=queue))
        (heard,) = client.heard()
        if not isinstance(heard.method, BasicGetOk):
            return bodies
        bodies.append(heard.body)
        client.say(BasicAck(heard.method.delivery_tag))


def reject(client: Client, tag: int, requeue: bool) -> None:
    client.say(BasicReject(tag, requeue))


class IdleKeeper(QueueOwner):
    """The keeper of queues that are only read."""

    def queue_expired(self, queue: QueuePort) -> None:
        raise AssertionError(queue.name)

    def queue_unused(self, queue: QueuePort) -> None:
        raise AssertionError(queue.name)


class Recovered:
    """The result of recovery, which may change the disk as a start would."""

    def __init__(self, disk: PlainDisk, lenient: bool = False) -> None:
        self.disk = disk
        found = disk.found()
        self.turn = Turn()
        self.journal = Journal(self.turn, MetadataChangeLog(found.revision), 1 << 40, found.incarnation)
        self.names: dict[str, int] = {}
        self._arguments: dict[str, Table] = {}
        for key, (created, value) in found.values.items():
            definition = decode_definition(key, value)
            if isinstance(definition, QueueDefinition):
                self.names[definition.name] = created
                self._arguments[definition.name] = definition.arguments
                self.journal.open(created, True, int(queue_settings(definition.arguments).max_priority))
            elif isinstance(definition, ExchangeDefinition) and definition.type == "x-delayed-message":
                self.names[definition.name] = created
                self.journal.open(created, True, 0)
        self.recovery = Recovery(self.journal, found.files, found.revision, lenient)
        self.recovery.run()
        self.orders = self._take_orders()

    def start(self) -> "Recovered":
        """Carry out the effects of recovery."""
        for order in self.orders:
            self.disk.carry_out(order)
            if isinstance(order, AppendRecords):
                self.journal.stored(FlushCompleted(order.batch_no, order.batch_no))
        return self

    def entries(self, name: str) -> list[Entry]:
        """All deliveries of a queue, in order; an `AssertionError` if an entry cannot be read."""
        queue_index = self.journal.queue_indexes[self.names[name]]
        arguments = self._arguments.get(name, {})
        settings = queue_settings(arguments)
        # after everything was published, and before anything expires; an exchange is read as a queue without expiry
        self.turn.now_ms = START_MS + 30_000 if name in self._arguments else 0
        queue = Queue("/", name, True, False, False, arguments, 0, settings, self.turn, IdleKeeper(), queue_index)
        queue.recover(queue_index.position_ranges(), queue_index.next_position)
        found: list[Entry] = []
        try:
            while queue.ready_count() > 0:
                if queue.can_get():
                    entry = queue.get(no_ack=False)
                    assert entry is not None
                    found.append(entry)
                else:
                    self._serve()
        except ChannelFault as stopped:
            raise AssertionError(stopped.text) from stopped
        return found

    def _serve(self) -> None:
        """One turn of the journal, and the disk's answers to it."""
        self.journal.end_turn()
        for order in self._take_orders():
            self.disk.carry_out(order)
            answer = self.disk.read(order)
            if isinstance(order, AppendRecords):
                self.journal.stored(FlushCompleted(order.batch_no, order.batch_no))
            elif isinstance(answer, IndexRead):
                self.journal.index_read(answer)
            elif isinstance(answer, JournalRead):
                self.journal.journal_read(answer)

    def living(self, name: str) -> list[Living]:
        return [living_of(entry) for entry in self.entries(name)]

    def contents(self) -> dict[str, list[Living]]:
        return {name: self.living(name) for name in self.names}

    def _take_orders(self) -> list[Effect]:
        orders, self.turn.effects = self.turn.effects, []
        return orders


def living_of(entry: Entry) -> Living:
    message = entry.message
    return Living(
        int(entry.position),
        int(message.priority),
        message.body(),
        int(entry.expires_at_ms),
        int(entry.delivery_count),
    )


def expected(disk: PlainDisk, queues: dict[int, dict[int, Living]], names: dict[str, int]) -> dict[str, list[Living]]:
    """The oracle's messages of existing queues, in the order of `OfflineRecovery.living`."""
    contents = {}
    for name, queue_id in names.items():
        top = disk.truth.max_priority.get(queue_id, 0)
        living = queues.get(queue_id, {}).values()
        contents[name] = sorted(living, key=lambda one, top=top: (-min(one.priority, top), one.position))  # type: ignore[misc]
    return contents
