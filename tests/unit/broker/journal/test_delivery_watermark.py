"""The delivery watermark is on disk before an entry is delivered, also after a restart."""

from tests.unit.broker.journal.journal_world import DurableCore, get, persistent
from tests.unit.broker.journal.plain_disk import PlainDisk
from warren.broker.model.effects import AppendRecords, Effect
from warren.broker.model.events import Event, FlushCompleted
from warren.wire.methods import BasicGet, BasicGetOk, QueueDeclare


class SlowCore(DurableCore):
    """A core with a disk that writes at once and flushes on request."""

    def __init__(self, disk: PlainDisk) -> None:
        self.unflushed: list[Event] = []
        super().__init__(disk)

    def flush(self) -> list[Effect]:
        flushed, self.unflushed = self.unflushed, []
        return self.turn(*flushed)

    def _carry_out(self, effect: Effect) -> None:
        super()._carry_out(effect)
        if isinstance(effect, AppendRecords):
            self._answers.pop()
            self.unflushed.append(FlushCompleted(effect.batch_no, effect.batch_no))


def disk_with_one_delivered() -> PlainDisk:
    disk = PlainDisk()
    client = DurableCore(disk).client()
    client.say(QueueDeclare(queue="q", durable=True))
    client.heard()
    client.read(persistent("q", b"m"))
    get(client, "q")
    return disk


def test_a_recovered_watermark_waits_for_the_first_flush() -> None:
    core = SlowCore(disk_with_one_delivered())
    client = core.client()
    client.say(BasicGet(queue="q"))
    assert client.methods() == []
    core.flush()
    (heard,) = client.heard()
    assert isinstance(heard.method, BasicGetOk)
    assert heard.method.redelivered


def test_a_queue_without_deliveries_asks_for_no_flush() -> None:
    disk = PlainDisk()
    client = DurableCore(disk).client()
    client.say(QueueDeclare(queue="q", durable=True))
    client.read(persistent("q", b"m"))
    core = DurableCore(disk)
    assert not any(isinstance(order, AppendRecords) and order.flush for order in core.orders)
