"""Rows that want receipts: sent, made overdue, chased and checked, with a transport that accepts everything.

Not here: rows of an outbox as such (`relayed_rows`).
"""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Engine, select, update

from tests.client.relayed_rows import AT_ONCE, add, drain, rows
from tests.unit.client.outbox.scripted import ScriptedTransport
from warren.client.machine.publishes import Message
from warren.client.receipts import Alert, Chased, Chaser, ChasingSettings
from warren.client.tables import OUTBOX, database_time
from warren.wire.field_tables import Table
from warren.wire.properties import Properties

FEW = ChasingSettings(resends=2, compensations=3)


@dataclass
class Came:
    """A message as a handler gets it."""

    message: Message
    exchange: str = ""
    routing_key: str = ""
    redelivered: bool = False
    is_ours: bool = True
    settled: list[str] = field(default_factory=list)

    @property
    def body(self) -> bytes:
        return self.message.body

    @property
    def properties(self) -> Properties:
        return self.message.properties or Properties()

    @property
    def headers(self) -> Table:
        return self.properties.headers or {}

    def ack(self) -> None:
        self.settled.append("ack")

    def nack(self, *, requeue: bool = True) -> None:
        self.settled.append("nack")


def send(engine: Engine, *names: str, compensation: str = "", **options: Any) -> ScriptedTransport:
    """Rows that want receipts, added and sent."""
    add(engine, *names, wants_receipt=True, compensation=compensation, **options)
    return relay(engine)


def relay(engine: Engine) -> ScriptedTransport:
    transport = ScriptedTransport()
    drain(engine, transport, AT_ONCE)
    return transport


def sent_ids(transport: ScriptedTransport) -> list[str | None]:
    return [each.message.properties.message_id for call in transport.calls for each in call if each.message.properties]


def be_late(engine: Engine) -> None:
    """Make every awaited receipt overdue."""
    with engine.begin() as connection:
        late = update(OUTBOX).where(OUTBOX.c.status == "sent", OUTBOX.c.due_at.is_not(None))
        connection.execute(late.values(due_at=database_time(-1)))


def chase(engine: Engine, settings: ChasingSettings = FEW, alerts: list[Alert] | None = None) -> Chased:
    return asyncio.run(Chaser(engine, settings, on_alert=None if alerts is None else alerts.append).once())


def chase_and_relay(engine: Engine, alerts: list[Alert] | None = None) -> list[str | None]:
    """Let one deadline pass, and send the resulting messages."""
    be_late(engine)
    chase(engine, FEW, alerts)
    return sent_ids(relay(engine))


def seconds_until_due(engine: Engine, business_id: str) -> float:
    with engine.connect() as connection:
        now = connection.execute(select(database_time())).scalar_one()
    return float((rows(engine)[business_id].due_at - now).total_seconds())
