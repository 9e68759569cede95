"""A queue with the objects that a broker provides: a turn, an owner, scripted consumers."""

from mypy_extensions import i64

from warren.broker.model.message import NO_EXPIRATION, Entry, Envelope, Message
from warren.broker.model.ports import ConsumerPort, OutputPort, QueueLog, QueuePort
from warren.broker.model.turn import Turn
from warren.broker.queues.queue import Queue, QueueOwner
from warren.broker.queues.settings import QueueSettings, queue_settings
from warren.wire.field_tables import Table

START_MS = 1_700_000_000_000


class ScriptedConsumer(ConsumerPort):
    """Takes as many messages as its credit allows, and remembers them."""

    def __init__(
        self,
        tag: str = "c",
        credit: int = 1_000_000,
        no_ack: bool = False,
        exclusive: bool = False,
        priority: i64 = 0,
    ) -> None:
        super().__init__(tag, no_ack, exclusive, priority, {})
        self.credit = credit
        self.entries: list[Entry] = []
        self.was_cancelled = False

    def able(self) -> bool:
        return self.credit > 0

    def deliver(self, entry: Entry) -> None:
        self.credit -= 1
        self.entries.append(entry)

    def cancelled(self) -> None:
        self.was_cancelled = True

    def bodies(self) -> list[str]:
        return [body_of(entry) for entry in self.entries]


class RecordingOwner(QueueOwner):
    """Records the queues that are to be deleted."""

    def __init__(self) -> None:
        self.expired: list[QueuePort] = []
        self.unused: list[QueuePort] = []

    def queue_expired(self, queue: QueuePort) -> None:
        self.expired.append(queue)

    def queue_unused(self, queue: QueuePort) -> None:
        self.unused.append(queue)


class Waiter(OutputPort):
    """A connection that waits for an entry."""

    def flush(self) -> None:
        pass


class World:
    """One queue in its turn."""

    def __init__(
        self,
        arguments: Table | None = None,
        auto_delete: bool = False,
        settings: QueueSettings | None = None,
        log: QueueLog | None = None,
    ) -> None:
        self.turn = Turn()
        self.turn.now_ms = START_MS
        self.owner = RecordingOwner()
        table: Table = arguments or {}
        durable = log is not None and log.durable
        self.queue = Queue(
            "/",
            "q",
            durable,
            False,
            auto_delete,
            table,
            0,
            settings or queue_settings(table),
            self.turn,
            self.owner,
            log,
        )

    def publish(
        self, *bodies: str, priority: int = 0, expiration_ms: int = NO_EXPIRATION, persistent: bool = False
    ) -> list[int]:
        return [self.queue.publish(message_of(body, priority, expiration_ms, persistent)) for body in bodies]

    def consumer(
        self,
        tag: str = "c",
        credit: int = 1_000_000,
        no_ack: bool = False,
        exclusive: bool = False,
        priority: int = 0,
    ) -> ScriptedConsumer:
        consumer = ScriptedConsumer(tag, credit, no_ack, exclusive, priority)
        self.queue.add_consumer(consumer)
        return consumer

    def end_turn(self) -> None:
        """Drain the queues, as a broker does at the end of a turn."""
        while self.turn.drains:
            drains, self.turn.drains = self.turn.drains, []
            for queue in drains:
                queue.drain()
        self.queue.check()

    def pass_ms(self, milliseconds: int) -> None:
        """Advance the clock, and fire each timer at its time."""
        until_ms = self.turn.now_ms + milliseconds
        while 0 < self.turn.next_timer_ms() <= until_ms:
            self.turn.now_ms = max(self.turn.next_timer_ms(), self.turn.now_ms)
            self.turn.fire_timers()
            self.end_turn()
        self.turn.now_ms = until_ms

    def take_all(self) -> list[str]:
        """The bodies of all ready entries in memory, taken by `basic.get`."""
        bodies = []
        while self.queue.can_get() and (entry := self.queue.get(True)) is not None:
            bodies.append(body_of(entry))
        return bodies

    def dead(self) -> list[tuple[str, str]]:
        """(body, reason) of each dead letter so far, in order."""
        return [(body_of(letter.entry), letter.reason) for letter in self.turn.dead_letters]


def message_of(body: str, priority: int = 0, expiration_ms: int = NO_EXPIRATION, persistent: bool = False) -> Message:
    # a queue uses only the length of the content, so the content is the body without frames
    content = body.encode()
    return Message(Envelope("", "q"), content, 1, len(content), 4096, persistent, priority, expiration_ms)


def body_of(entry: Entry) -> str:
    return entry.message.content.decode()
