"""A user's program that uses every part of the client, with a broker in memory and a database in a file.

It is checked by `mypy --strict` against the installed package (`test_typed_program`), and run with it. `assert_type`
says what a user's editor would show; each `type: ignore` is a mistake that a type checker has to find.
"""

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import assert_type

from sqlalchemy import Connection, Engine, create_engine
from sqlalchemy.orm import Session

from warren.client import ClientError, Message, Properties, PublishFailed
from warren.client.converters import payload_of
from warren.client.inbox import Inbox
from warren.client.ledgers import OpenItem, OpenRows, open_items
from warren.client.listening import Arrival, ImmediateAck, Listener, MessageGroup, Puller, Requester, Retries
from warren.client.listening.blocking import Puller as BlockingPuller
from warren.client.outbox import Outbox, Relay, RelaySettings
from warren.client.outbox.blocking import Relay as BlockingRelay
from warren.client.receipts import Alert, Chaser, ChasingSettings, Receipts
from warren.client.recovering.blocking import Transport as BlockingTransport
from warren.client.settings import Settings, SettingsBuilder
from warren.client.tables import create_tables
from warren.client.telemetry import Traced, in_span, observe, stamped
from warren.client.template import Template
from warren.client.testing import MemoryBroker
from warren.client.transport import Incoming, Layout, Outgoing, QueueLayout, Transport


@dataclass(frozen=True)
class Order:
    number: int
    amount: Decimal


def order_of(message: Incoming) -> Order:
    found = payload_of(message)
    assert isinstance(found, dict)
    return Order(int(found["number"]), Decimal(found["amount"]))


SETTINGS: Settings = SettingsBuilder().queue("orders").queue("bills").template(routing_key="orders").build()


async def place_orders(transport: Transport) -> None:
    template = Template.of(transport, SETTINGS.template)
    assert_type(await template.send(Order(1, Decimal("2.50"))), str)
    assert_type(await template.send_batch([Order(2, Decimal(3))], key="customer 7"), list[str])
    async with template.transaction() as together:
        assert_type(together.send(Order(3, Decimal(4))), str)
    [error] = await transport.publish([Outgoing(Message(b"?"), routing_key="nowhere")])
    assert_type(error, ClientError | None)
    assert isinstance(error, PublishFailed)
    print("returned", error.returned[0].text, error.outcome)


async def take_orders(transport: Transport, count: int) -> None:
    taken: list[Order] = []
    done = asyncio.Event()

    @in_span
    async def handle(order: Arrival[Order]) -> None:
        assert_type(order.payload, Order)
        taken.append(order.payload)
        if len(taken) == count:
            done.set()
            raise ImmediateAck

    listener = Listener(transport, "orders", handle, convert=order_of, retries=Retries(tries=3), concurrency=2)
    assert_type(listener, Listener[Order])
    observe(listener)
    async with listener:
        await done.wait()
    print("taken", sorted(order.number for order in taken))


def bill(engine: Engine, numbers: Sequence[int]) -> None:
    outbox = Outbox(routing_key="bills")
    with Session(engine) as session, session.begin():
        for number in numbers:
            message = stamped(Message(b"%d" % number, Properties(content_type="text/plain")))
            outbox.add(session, message, business_id=f"bill-{number}", wants_receipt=True, compensation="reverse")


async def send_bills(engine: Engine, transport: Transport) -> None:
    relay = Relay(engine, transport, RelaySettings(tries=2))
    observe(relay, OpenRows(engine))
    assert_type(await relay.drain(), int)

    def on_alert(alert: Alert) -> None:
        print("alert", alert)

    chaser = Chaser(engine, ChasingSettings(resends=1), on_alert=on_alert)
    print("resent", (await chaser.once()).resent)
    assert_type(open_items(engine), list[OpenItem])
    print("done", Receipts(engine).done(None, "bill-1"), "open", len(open_items(engine)))


async def pay_bills(engine: Engine, transport: Transport) -> None:
    inbox = Inbox(engine, "payments", keep=timedelta(days=3))

    def pay(connection: Connection, message: Incoming) -> None:
        print("paid", message.body.decode())

    handler = inbox.handler(pay, money=lambda message: (Decimal(message.body.decode()), "EUR"))
    async with Puller(transport, "bills", group_size=2) as puller:
        group = await puller.take(wait_s=1.0)
        assert_type(group, MessageGroup)
        for message in group:
            assert_type(message, Incoming)
            handler(message)
        group.ack()


async def ask(transport: Transport) -> None:
    async def price(question: Arrival[bytes]) -> bytes:
        return b"%d cents" % len(question.payload)

    async with Requester(transport, routing_key="prices") as requester, Listener(transport, "prices", price):
        print("answer", (await requester.request(b"cake")).body.decode())


def without_a_loop(engine: Engine, broker: MemoryBroker) -> None:
    async def opening() -> Transport:
        return broker.transport()

    with BlockingTransport(opening()) as transport, BlockingPuller(transport, "bills") as puller:
        bill(engine, [3])
        assert_type(BlockingRelay(engine, transport).drain(), int)
        print("pulled", [message.body for message in puller.take()])


async def mistakes(transport: Transport, engine: Engine) -> None:
    """Input for a type checker; it is not run."""
    Outbox().add(engine, b"no transaction")  # type: ignore[arg-type]
    Outbox().add(Session(engine), "text")  # type: ignore[arg-type]
    await Template(transport).send({}, routing_kee="orders")  # type: ignore[call-arg]
    await transport.publish(Outgoing(Message(b"")))  # type: ignore[arg-type]
    Listener(transport, "orders", lambda order: order.payload.dish, convert=order_of)  # type: ignore[attr-defined]
    Relay(engine, transport, ChasingSettings())  # type: ignore[arg-type]
    RelaySettings(tries="many")  # type: ignore[arg-type]
    observe(engine)  # type: ignore[arg-type]


async def main(database: str) -> None:
    engine = create_engine(f"sqlite:///{database}")
    create_tables(engine)
    broker = MemoryBroker()
    transport: Transport = Traced(broker.transport())
    await transport.declare(SETTINGS.layout)
    await transport.declare(Layout(queues=(QueueLayout("prices"),)))
    await place_orders(transport)
    await take_orders(transport, 3)
    bill(engine, [1, 2])
    await send_bills(engine, transport)
    await pay_bills(engine, transport)
    await ask(transport)
    await asyncio.to_thread(without_a_loop, engine, broker)
    await transport.close()
    engine.dispose()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
