"""From one database to another and back, on every broker: payments that are done, confirmed, reversed and refused.

The sender's database is SQLite or PostgreSQL, the receiver's a file. A receiver that was down finds its messages, their
repeats and their compensations in its queue, in any order.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine, create_engine, text

from tests.client.relayed_rows import statuses
from tests.client.seam import Brokers
from tests.support.deadlines import run, until
from warren.client import Message, Properties
from warren.client.inbox import Inbox, Refused
from warren.client.listening import Arrival, Listener, parking_queue
from warren.client.outbox import Outbox, Relay, RelaySettings
from warren.client.receipts import Alert, Chaser, ChasingSettings, Receipts
from warren.client.tables import create_tables
from warren.client.transport import Layout, Outgoing, QueueLayout, Transport

IMPATIENT = RelaySettings(receipt_within_s=0.1, resent_receipt_within_s=0.1, poll_s=0.01)
PATIENT = RelaySettings(poll_s=0.01)
CHASING = ChasingSettings(resends=1, compensations=1000, poll_s=0.01)


class Bank:
    """A receiver with a database of its own, which books payments and takes them back."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.inbox = Inbox(engine, "bank")
        create_tables(engine)
        with engine.begin() as connection:
            connection.execute(text("CREATE TABLE booked (payment varchar(20))"))

    def book(self, connection: Connection, message: Arrival[bytes]) -> None:
        if message.body == b"too much":
            raise Refused("beyond the limit")
        connection.execute(text("INSERT INTO booked VALUES (:payment)"), {"payment": message.body.decode()})

    def take_back(self, connection: Connection, message: Arrival[bytes]) -> None:
        connection.execute(text("DELETE FROM booked WHERE payment = :payment"), {"payment": message.body.decode()})

    @property
    def booked(self) -> list[str]:
        with self.engine.connect() as connection:
            return list(connection.execute(text("SELECT payment FROM booked ORDER BY payment")).scalars())


@pytest.fixture
def bank(tmp_path: Path) -> Iterator[Bank]:
    engine = create_engine(f"sqlite:///{tmp_path / 'bank.db'}")
    yield Bank(engine)
    engine.dispose()


class Wire:
    """The common parts of both sides: a broker, and the names of two queues."""

    def __init__(self, broker: Brokers) -> None:
        self.broker = broker
        self.payments = broker.name("payments")
        self.receipts = broker.name("receipts")
        # they are deleted with the others
        broker.named += [parking_queue(self.payments), parking_queue(self.receipts)]

    async def open(self, stack: AsyncExitStack) -> Transport:
        transport = await stack.enter_async_context(self.broker.transport())
        await transport.declare(Layout(queues=(QueueLayout(self.payments), QueueLayout(self.receipts))))
        return transport

    def pay(self, engine: Engine, name: str, compensation: str = "") -> None:
        message = Message(name.encode(), Properties(reply_to=self.receipts))
        with engine.begin() as transaction:
            Outbox(routing_key=self.payments).add(
                transaction, message, business_id=name, wants_receipt=True, compensation=compensation
            )


@asynccontextmanager
async def running(job: Relay | Chaser) -> AsyncIterator[None]:
    task = asyncio.create_task(job.run())
    yield
    job.stop()
    await task


@asynccontextmanager
async def sender(wire: Wire, engine: Engine, settings: RelaySettings, chaser: Chaser) -> AsyncIterator[Transport]:
    """Relay, listener for receipts, and chaser."""
    async with AsyncExitStack() as stack:
        transport = await wire.open(stack)
        await stack.enter_async_context(running(Relay(engine, transport, settings)))
        await stack.enter_async_context(running(chaser))
        await stack.enter_async_context(listening(transport, wire.receipts, Receipts(engine).handler))
        yield transport


@asynccontextmanager
async def receiver(wire: Wire, bank: Bank) -> AsyncIterator[None]:
    """Listener for payments, and the relay of its receipts."""
    async with AsyncExitStack() as stack:
        transport = await wire.open(stack)
        await stack.enter_async_context(running(Relay(bank.engine, transport, PATIENT)))
        handler: Callable[[Arrival[bytes]], None]
        handler = bank.inbox.handler(bank.book, undo=bank.take_back, receipts=Outbox())
        await stack.enter_async_context(listening(transport, wire.payments, handler))
        yield


@asynccontextmanager
async def listening(transport: Transport, queue: str, handler: Callable[[Arrival[bytes]], None]) -> AsyncIterator[None]:
    listener = Listener(transport, queue, handler)
    await listener.start()
    yield
    await listener.stop()


def test_payments_are_done_or_refused_and_the_sender_knows(database: Engine, broker: Brokers, bank: Bank) -> None:
    wire = Wire(broker)
    alerts: list[Alert] = []

    async def main() -> None:
        chaser = Chaser(database, CHASING, on_alert=alerts.append)
        async with receiver(wire, bank), sender(wire, database, PATIENT, chaser) as transport:
            await transport.publish([Outgoing(Message(b"no receipt"), "", wire.receipts)])
            for number in range(10):
                wire.pay(database, f"payment {number}")
            wire.pay(database, "too much")
            await until(lambda: set(statuses(database).values()) == {"done", "failed"})
            await until(lambda: bool(alerts))
            parked = None
            async with asyncio.timeout(20):
                while parked is None:
                    parked = await transport.get(parking_queue(wire.receipts), no_ack=True)
            assert parked.body == b"no receipt"

    run(main())
    assert bank.booked == [f"payment {number}" for number in range(10)]
    assert [(alert.business_id, alert.reason) for alert in alerts] == [("too much", "refused: beyond the limit")]


def test_payments_without_a_receipt_are_confirmed_or_reversed_when_the_receiver_is_back(
    database: Engine, broker: Brokers, bank: Bank
) -> None:
    wire = Wire(broker)

    async def main() -> None:
        chaser = Chaser(database, CHASING)
        async with sender(wire, database, IMPATIENT, chaser):
            wire.pay(database, "deposit", "confirm")
            wire.pay(database, "withdrawal", "reverse")
            await until(lambda: (statuses(database)["deposit"], chaser.compensated) == ("confirming", 2))
            async with receiver(wire, bank):
                await until(lambda: set(statuses(database).values()) == {"done", "reversed"})

    run(main())
    assert statuses(database) == {
        "deposit": "done",
        "withdrawal": "reversed",
        "deposit/confirm": "done",
        "withdrawal/reverse": "done",
    }
    assert bank.booked == ["deposit"]


def test_a_receiver_that_answers_late_has_its_work_undone(database: Engine, broker: Brokers, bank: Bank) -> None:
    wire = Wire(broker)

    async def main() -> None:
        async with receiver(wire, bank), AsyncExitStack() as stack:
            transport = await wire.open(stack)
            wire.pay(database, "withdrawal", "reverse")
            async with running(Relay(database, transport, IMPATIENT)):
                # it is booked, and no process reads the receipt
                await until(lambda: bank.booked == ["withdrawal"])
                async with running(Chaser(database, CHASING)):
                    await until(lambda: bank.booked == [])
                    async with listening(transport, wire.receipts, Receipts(database).handler):
                        await until(lambda: statuses(database)["withdrawal"] == "reversed")

    run(main())
    assert statuses(database) == {"withdrawal": "reversed", "withdrawal/reverse": "done"}


def test_a_payment_that_was_purged_is_sent_again_and_booked(database: Engine, broker: Brokers, bank: Bank) -> None:
    wire = Wire(broker)

    async def main() -> None:
        async with AsyncExitStack() as stack:
            transport = await wire.open(stack)
            await stack.enter_async_context(running(Relay(database, transport, IMPATIENT)))
            wire.pay(database, "payment")
            await until(lambda: statuses(database) == {"payment": "sent"})
            lost = await transport.get(wire.payments, no_ack=True)
            assert lost is not None
            assert await transport.get(wire.payments, no_ack=True) is None
            await stack.enter_async_context(receiver(wire, bank))
            await stack.enter_async_context(listening(transport, wire.receipts, Receipts(database).handler))
            await stack.enter_async_context(running(Chaser(database, ChasingSettings(resends=1000, poll_s=0.01))))
            await until(lambda: statuses(database) == {"payment": "done"})

    run(main())
    assert bank.booked == ["payment"]
