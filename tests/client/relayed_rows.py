"""Rows of an outbox, written, relayed and checked, with a scripted transport.

Not here: real brokers (`test_outbox_brokers`).
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from sqlalchemy import Engine, select, update

from tests.unit.client.outbox.scripted import ScriptedTransport
from warren.client.errors import CallTimeout, ClientError, PublishFailed
from warren.client.machine.deliveries import ReturnedMessage
from warren.client.machine.publishes import ConfirmRange
from warren.client.outbox import Outbox, Relay, RelaySettings
from warren.client.tables import OUTBOX
from warren.client.transport import Outgoing

DEADLINE_S = 60.0
AT_ONCE = RelaySettings(backoff_s=0.001, tries=3, poll_s=0.01)


def add(engine: Engine, *bodies: str, key: str = "", **options: Any) -> None:
    """Each in a transaction of its own; the body is the business id as well."""
    for body in bodies:
        with engine.begin() as transaction:
            Outbox().add(transaction, body.encode(), business_id=body, ordering_key=key, **options)


def change(engine: Engine, business_id: str, **values: Any) -> None:
    with engine.begin() as transaction:
        transaction.execute(update(OUTBOX).where(OUTBOX.c.business_id == business_id).values(**values))


def rows(engine: Engine) -> dict[str, Any]:
    with engine.connect() as connection:
        return {row.business_id: row for row in connection.execute(select(OUTBOX).order_by(OUTBOX.c.id))}


def statuses(engine: Engine) -> dict[str, str]:
    return {name: row.status for name, row in rows(engine).items()}


def drain(engine: Engine, transport: ScriptedTransport, settings: RelaySettings = AT_ONCE) -> int:
    return asyncio.run(Relay(engine, transport, settings).drain())


def drain_until(engine: Engine, transport: ScriptedTransport, is_so: Callable[[], bool]) -> None:
    """Drain again and again, for rows that wait for their next try."""
    deadline = time.monotonic() + DEADLINE_S
    while not is_so():
        assert time.monotonic() < deadline, statuses(engine)
        drain(engine, transport)


def refusing(*bodies: str) -> Callable[[Outgoing], ClientError | None]:
    came_back = [ReturnedMessage(312, "NO_ROUTE", "", "", b"", b"")]
    return lambda message: PublishFailed([], came_back) if message.message.body.decode() in bodies else None


def nacking(*bodies: str) -> Callable[[Outgoing], ClientError | None]:
    nacked = [ConfirmRange(1, 1, False)]
    return lambda message: PublishFailed(nacked, []) if message.message.body.decode() in bodies else None


def silent_for(*bodies: str) -> Callable[[Outgoing], ClientError | None]:
    return lambda message: CallTimeout("no confirm") if message.message.body.decode() in bodies else None
