"""The inbox behind a listener, on both brokers and in both databases: work is done once for repeated messages."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal

import pytest
from sqlalchemy import Connection, Engine, func, select, text

from tests.support.deadlines import in_event_loop, run
from warren.client import Message, Properties, blocking, recovering
from warren.client.inbox import Inbox
from warren.client.listening import Arrival, Listener, Retries, parking_queue, retry_queue
from warren.client.tables import INBOX
from warren.client.transport import Incoming, Layout, Outgoing, QueueLayout, Transport

ON_EITHER_BROKER = True

DEADLINE_S = 20.0


@pytest.fixture
def engine(database: Engine) -> Engine:
    """A database with a table for the work."""
    with database.begin() as connection:
        connection.execute(text("CREATE TABLE paid (reference varchar(255), amount numeric(20, 2))"))
    return database


@pytest.fixture
def queue(unique: Callable[[str], str], url: str) -> Iterator[str]:
    """A queue that is deleted with its retry and parking queues."""
    name = unique("queue")
    yield name
    with blocking.connect(url) as connection, connection.channel() as channel:
        for each in (retry_queue(name, 1), retry_queue(name, 2), parking_queue(name)):
            channel.delete_queue(each)


@dataclass
class Payments:
    """The work: a row for each payment, and a failure for as many times as a test wants."""

    failures: int = 0
    calls: list[str] = field(default_factory=list)

    def pay(self, connection: Connection, message: Arrival[bytes]) -> None:
        self.calls.append(message.body.decode())
        connection.execute(text("INSERT INTO paid VALUES (:reference, 1)"), {"reference": message.body.decode()})
        if self.failures:
            self.failures -= 1
            raise RuntimeError("no money today")


def payment(message_id: str | None, **headers: object) -> Message:
    return Message((message_id or "none").encode(), Properties(message_id=message_id, headers=headers or None))


def paid(engine: Engine) -> list[str]:
    with engine.connect() as connection:
        return list(connection.execute(text("SELECT reference FROM paid ORDER BY reference")).scalars())


def recorded(engine: Engine) -> int:
    with engine.connect() as connection:
        return connection.execute(select(func.count()).select_from(INBOX)).scalar_one()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not await asyncio.to_thread(condition):
            await asyncio.sleep(0.01)


@asynccontextmanager
async def listening(url: str, queue: str, inbox: Inbox, payments: Payments) -> AsyncIterator[Transport]:
    """A consumer at work, which tries twice."""
    async with await recovering.open(url) as transport:
        await transport.declare(Layout(queues=(QueueLayout(queue),)))
        listener = Listener(
            transport, queue, inbox.handler(payments.pay), concurrency=4, retries=Retries(tries=3, delays_s=(0.05,))
        )
        await listener.start()
        try:
            yield transport
        finally:
            await listener.stop()


async def publish(transport: Transport, queue: str, *messages: Message) -> None:
    outcomes = await transport.publish([Outgoing(message, routing_key=queue) for message in messages])
    assert outcomes == [None] * len(messages)


def test_a_payment_that_comes_three_times_is_made_once(url: str, queue: str, engine: Engine) -> None:
    inbox, payments = Inbox(engine, "payments"), Payments()

    async def scenario() -> None:
        async with listening(url, queue, inbox, payments) as transport:
            await publish(transport, queue, *[payment(f"p{number % 10}") for number in range(30)])
            await until(lambda: inbox.handled + inbox.duplicates == 30)
            assert await transport.get(queue) is None

    run(scenario())
    assert (inbox.handled, inbox.duplicates) == (10, 20)
    assert paid(engine) == [f"p{number}" for number in range(10)]
    assert len(payments.calls) == 10


def test_work_that_fails_leaves_nothing_and_is_done_when_it_comes_again(url: str, queue: str, engine: Engine) -> None:
    inbox, payments = Inbox(engine, "payments"), Payments(failures=1)

    async def scenario() -> None:
        async with listening(url, queue, inbox, payments) as transport:
            await publish(transport, queue, payment("p1"))
            await until(lambda: inbox.handled == 1)

    run(scenario())
    assert payments.calls == ["p1", "p1"]
    assert paid(engine) == ["p1"]
    assert inbox.duplicates == 0


def test_work_that_always_fails_is_parked_and_nothing_of_it_is_kept(url: str, queue: str, engine: Engine) -> None:
    inbox, payments = Inbox(engine, "payments"), Payments(failures=99)

    async def scenario() -> None:
        async with listening(url, queue, inbox, payments) as transport:
            await publish(transport, queue, payment("p1"))
            await until(lambda: len(payments.calls) == 3)
            assert (await parked(transport, queue)).properties.message_id == "p1"

    run(scenario())
    assert (paid(engine), recorded(engine)) == ([], 0)


@pytest.mark.parametrize("message_id", [None, "a\0b"])
def test_a_message_without_a_usable_id_is_parked_at_once(
    url: str, queue: str, engine: Engine, message_id: str | None
) -> None:
    inbox, payments = Inbox(engine, "payments"), Payments()

    async def scenario() -> None:
        async with listening(url, queue, inbox, payments) as transport:
            await publish(transport, queue, payment(message_id))
            found = await parked(transport, queue)
            assert found.body == (message_id or "none").encode()

    run(scenario())
    assert payments.calls == []
    assert recorded(engine) == 0


def test_another_message_under_an_id_that_was_handled_is_parked_at_once(url: str, queue: str, engine: Engine) -> None:
    inbox, payments = Inbox(engine, "payments"), Payments()

    async def scenario() -> None:
        async with listening(url, queue, inbox, payments) as transport:
            await publish(transport, queue, payment("p1"))
            await until(lambda: inbox.handled == 1)
            await publish(transport, queue, Message(b"another", Properties(message_id="p1")), payment("p1"))
            found = await parked(transport, queue)
            assert found.body == b"another"
            assert "'p1' is the id of another message, which came to 'payments' before" in str(found.headers["x-error"])
            await until(lambda: inbox.duplicates == 1)

    run(scenario())
    assert (paid(engine), payments.calls) == (["p1"], ["p1"])


def test_work_that_is_never_awaited_is_parked_and_nothing_is_recorded(url: str, queue: str, engine: Engine) -> None:
    inbox = Inbox(engine, "payments")

    async def pay_later(connection: Connection, message: Arrival[bytes]) -> None:
        connection.execute(text("INSERT INTO paid VALUES ('p1', 1)"))

    async def scenario() -> None:
        async with await recovering.open(url) as transport:
            await transport.declare(Layout(queues=(QueueLayout(queue),)))
            handler = inbox.handler(lambda connection, message: pay_later(connection, message))  # type: ignore[arg-type]
            async with Listener(transport, queue, handler, retries=Retries(tries=1)):
                await publish(transport, queue, payment("p1"))
                found = await parked(transport, queue)
            assert str(found.headers["x-error"]).startswith("TypeError: the work came back undone")

    run(scenario())
    assert (paid(engine), recorded(engine), inbox.handled) == ([], 0, 0)


async def parked(transport: Transport, queue: str) -> Incoming:
    async with asyncio.timeout(DEADLINE_S):
        while (found := await transport.get(parking_queue(queue))) is None:
            await asyncio.sleep(0.01)
    found.ack()
    return found


def test_the_row_has_the_amount_and_the_attempt(url: str, queue: str, engine: Engine) -> None:
    inbox, payments = Inbox(engine, "payments"), Payments()

    def money(message: Arrival[bytes]) -> tuple[Decimal, str]:
        return Decimal(str(message.headers["amount"])), "EUR"

    async def scenario() -> None:
        async with await recovering.open(url) as transport:
            await transport.declare(Layout(queues=(QueueLayout(queue),)))
            listener = Listener(transport, queue, inbox.handler(payments.pay, money=money))
            await listener.start()
            attempts = {"whole": 2, "text": "2", "negative": -2, "large": 2**40}
            await publish(
                transport,
                queue,
                *[payment(name, amount="12.34", **{"x-attempt": said}) for name, said in attempts.items()],
                payment("none", amount="0.01"),
            )
            await until(lambda: inbox.handled == 5)
            await listener.stop()

    run(scenario())
    with engine.connect() as connection:
        rows = {row.business_id: row for row in connection.execute(select(INBOX))}
    assert {name: row.attempt for name, row in rows.items()} == {
        "whole": 2,
        "text": 1,
        "negative": 1,
        "large": 1,
        "none": 1,
    }
    assert (rows["whole"].amount, rows["whole"].currency) == (Decimal("12.3400"), "EUR")
    assert rows["none"].amount == Decimal("0.0100")


@in_event_loop
async def test_pruning_goes_on_after_the_database_was_away(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    inbox = Inbox(engine, "payments", keep=timedelta(milliseconds=1))
    caplog.set_level("INFO", "warren.client.inbox")

    def change(statement: str) -> None:
        with engine.begin() as connection:
            connection.execute(text(statement))

    def record() -> None:
        with engine.begin() as connection:
            assert inbox.first_time(connection, "p1")

    record()
    pruning = asyncio.create_task(inbox.keep_pruned(every=timedelta(milliseconds=10)))
    await until(lambda: recorded(engine) == 0)
    change("ALTER TABLE warren_inbox RENAME TO elsewhere")
    await until(lambda: "inbox.prune_failed" in caplog.messages)
    change("ALTER TABLE elsewhere RENAME TO warren_inbox")
    record()
    await until(lambda: recorded(engine) == 0)
    # notified a moment later
    await until(lambda: "inbox.pruned" in caplog.messages[caplog.messages.index("inbox.prune_failed") :])
    pruning.cancel()
    with pytest.raises(asyncio.CancelledError):
        await pruning
