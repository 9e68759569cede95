"""A transfer between two fake brokers: a deleted queue does not hold up the others."""

from collections import Counter
from collections.abc import Iterable
from typing import Any, cast

import pytest

from warren.cli.migrate import transfer as carrying_module
from warren.cli.migrate.brokers import ExactCount, MoveFailed
from warren.cli.migrate.counts import QueueAudit, QueueCounts
from warren.cli.migrate.move import MoveOutcome, outcome_of
from warren.cli.migrate.queues import FoundQueue, QueueName
from warren.cli.migrate.transfer import Transfer

BILLS, ORDERS = QueueName("shop", "bills"), QueueName("shop", "orders")
TICKS_MAX = 50
A_TICK = 10


class PretendRabbitMQ:
    """The number of messages in each queue."""

    def __init__(self, **queues: int) -> None:
        self.queues = {QueueName("shop", name): count for name, count in queues.items()}
        self.acked: Counter[QueueName] = Counter()

    def count(self, queue: QueueName) -> ExactCount | None:
        return ExactCount(self.queues[queue], 0) if queue in self.queues else None

    def sides(self, queues: Iterable[QueueName], believe_unacked: bool = False) -> dict[QueueName, QueueCounts]:
        return {queue: QueueCounts(self.queues.get(queue, 0), acked=self.acked[queue]) for queue in queues}

    def is_transferring(self, queue: QueueName, count: ExactCount) -> bool:
        return False

    def uri(self, vhost: str) -> str:
        return f"amqp://rabbit/{vhost}"


class PretendWarren:
    """Shovels bring some messages at each look at its queues."""

    def __init__(self, source: PretendRabbitMQ) -> None:
        self._source = source
        self.queues = dict.fromkeys(source.queues, 0)
        self.shovels: set[QueueName] = set()

    def sides(self) -> dict[QueueName, QueueCounts]:
        for queue in self.shovels & set(self.queues) & set(self._source.queues):
            some = min(A_TICK, self._source.queues[queue])
            self._source.queues[queue] -= some
            self._source.acked[queue] += some
            self.queues[queue] += some
        return {queue: QueueCounts(count, brought=count) for queue, count in self.queues.items()}

    def carry(self, found: FoundQueue, _: str) -> None:
        if found.queue not in self.queues:
            raise MoveFailed("Warren says: Not Found")
        self.shovels.add(found.queue)

    def lead_to(self, queue: QueueName) -> None:
        if queue not in self.queues:
            raise MoveFailed("Warren says: Not Found")

    def end_transfer(self, queue: QueueName) -> None:
        self.shovels.discard(queue)

    def carried(self) -> list[QueueName]:
        return []

    def states(self, _: Iterable[QueueName]) -> dict[QueueName, Any]:
        return {}

    def tidy(self, _: Iterable[QueueName]) -> None:
        """There are no exchanges here."""


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TICK_S", "STATES_EVERY_S", "STATISTICS_DELAY_S", "COUNTED_WITHIN_S"):
        monkeypatch.setattr(carrying_module, name, 0.0)


def begun(source: PretendRabbitMQ, warren: PretendWarren, together: int = 0) -> Transfer:
    queues = [FoundQueue(queue, count) for queue, count in source.queues.items()]
    return Transfer(cast("Any", source), cast("Any", warren), queues, together)


def half_way() -> tuple[PretendRabbitMQ, PretendWarren, Transfer]:
    """Two queues of which some messages have arrived."""
    source = PretendRabbitMQ(bills=100, orders=100)
    warren = PretendWarren(source)
    transfer = begun(source, warren)
    transfer.tick(ending=True)
    transfer.tick(ending=True)
    return source, warren, transfer


def drained(transfer: Transfer) -> dict[QueueName, QueueAudit]:
    for _ in range(TICKS_MAX):
        if transfer.is_done:
            break
        transfer.tick(ending=True)
    assert transfer.is_done
    return {audit.queue: audit for audit in transfer.settle()}


def test_a_queue_that_is_deleted_at_warren_while_it_moves_is_reported_and_the_others_go_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    source, warren, transfer = half_way()
    del warren.queues[ORDERS]
    audits = drained(transfer)
    left = source.queues[ORDERS]
    assert left > 0
    assert "queue 'orders' in 'shop' was deleted at Warren: the rest stays at RabbitMQ, and the others continue" in (
        " ".join(capsys.readouterr().err.split())
    )
    assert audits[BILLS].matches
    assert audits[ORDERS].verdict() == (
        "it was deleted at Warren, with the messages that had arrived; "
        f"{left} are still at RabbitMQ, and are moved if the command is run again"
    )
    assert outcome_of(audits.values()) is MoveOutcome.NOT_WELL
    assert warren.shovels == set()


def test_a_queue_that_is_deleted_at_warren_before_its_turn_comes_is_no_reason_to_stop() -> None:
    source = PretendRabbitMQ(bills=100, orders=100)
    warren = PretendWarren(source)
    transfer = begun(source, warren, together=1)
    transfer.tick(ending=True)
    del warren.queues[ORDERS]
    audits = drained(transfer)
    assert audits[BILLS].matches
    assert audits[ORDERS].is_lost
    assert source.queues == {BILLS: 0, ORDERS: 100}


def test_while_publishers_go_on_a_queue_that_is_gone_may_come_back() -> None:
    source = PretendRabbitMQ(orders=100)
    warren = PretendWarren(source)
    transfer = begun(source, warren)
    transfer.tick(ending=False)
    del warren.queues[ORDERS]
    for _ in range(5):
        transfer.tick(ending=False)
    assert transfer.gone == {ORDERS}
    assert warren.shovels == {ORDERS}
    warren.queues[ORDERS] = 0
    transfer.tick(ending=False)
    assert transfer.gone == set()
    drained(transfer)
    assert source.queues == {ORDERS: 0}


def test_a_queue_that_is_deleted_at_rabbitmq_while_it_moves_is_reported_and_the_others_go_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    source, _, transfer = half_way()
    missing = source.queues.pop(ORDERS)
    audits = drained(transfer)
    assert "queue 'orders' in 'shop' was deleted at RabbitMQ" in capsys.readouterr().err
    assert audits[BILLS].matches
    told = f"{missing} have not arrived: the queue was deleted at RabbitMQ while it moved"
    assert audits[ORDERS].verdict() == told
    assert outcome_of(audits.values()) is MoveOutcome.NOT_WELL


def test_an_empty_queue_that_is_gone_at_warren_brought_nothing_and_lacks_nothing() -> None:
    source = PretendRabbitMQ(orders=0)
    warren = PretendWarren(source)
    transfer = begun(source, warren)
    del warren.queues[ORDERS]
    assert outcome_of(drained(transfer).values()) is MoveOutcome.WELL
