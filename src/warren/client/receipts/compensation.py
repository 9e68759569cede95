"""Rows that confirm or reverse a message: a copy of the message with an id of its own.

    compensate(transaction, "payment 7", "reverse")      ──▶ row "payment 7/reverse"; "payment 7" is `reversing`

A message has at most one confirmation and one reversal, however often they are requested, because their ids are derived
from the message's. A row that exists and failed is sent again; if it is done, its message is done or reversed.

Not here: when to compensate (`receipts.chaser`), receipts of such rows (`receipts.receipts`).
"""

import hashlib
from typing import Any, Literal

from sqlalchemy import Row, literal, select, true, update

from warren.client.errors import CannotConvert
from warren.client.outbox.outbox import (
    AS_NEW,
    COMPENSATIONS,
    CONFIRMATION,
    KIND_HEADER,
    SETTLES_HEADER,
    WRITTEN_HEADER,
    notify_relay,
    properties_text,
    stored_properties,
)
from warren.client.tables import OUTBOX, Executor, database_time
from warren.client.tables.connections import insert_into
from warren.wire.field_tables import Timestamp

Compensation = Literal["confirm", "reverse"]

ID_BYTES_MAX = 255
ROW = OUTBOX.c
BEING_SETTLED = {"confirm": "confirming", "reverse": "reversing"}
SETTLED = {"confirm": "done", "reverse": "reversed"}
COPIED = ("ordering_key", "exchange", "routing_key", "body", "amount", "currency")


def compensating_id(business_id: str, compensation: Compensation) -> str:
    """The business id of the row that confirms or reverses this one."""
    plain = f"{business_id}/{compensation}"
    if len(plain.encode()) <= ID_BYTES_MAX:
        return plain
    return f"{hashlib.sha256(business_id.encode()).hexdigest()}/{compensation}"


def compensate(executor: Executor, business_id: str, compensation: Compensation) -> str | None:
    """Confirm or reverse a message in the caller's transaction; returns the id of the row that does it.

    None if there is no such message. `CannotConvert` if the row cannot be made, `ValueError` if the message is itself
    such a row.
    """
    own_id = write_compensation(executor, business_id, compensation)
    if own_id is not None:
        notify_relay(executor)
    return own_id


def write_compensation(executor: Executor, business_id: str, compensation: Compensation) -> str | None:
    """`compensate` without waking the relay."""
    # as the first statement it makes SQLite's transaction a writer; in both databases it locks the row
    locked = update(OUTBOX).where(ROW.business_id == business_id).values(status=ROW.status)
    message = executor.execute(locked.returning(ROW.id, ROW.kind, ROW.settles, ROW.properties, ROW.created_at)).first()
    if message is None:
        return None
    if message.settles is not None:
        raise ValueError(f"{business_id!r} is a {message.kind} itself; name the message that it is for")
    own_id = compensating_id(business_id, compensation)
    status = BEING_SETTLED[compensation]
    if not _write(executor, message, business_id, own_id, compensation):
        status = _take_up(executor, business_id, own_id, compensation)
    executor.execute(update(OUTBOX).where(ROW.id == message.id).values(status=status, due_at=None))
    return own_id


def settled_status(kind: str) -> str:
    """The status of a message after the receipt of its confirmation or reversal."""
    return "done" if kind == CONFIRMATION else "reversed"


def _write(executor: Executor, message: Row[Any], business_id: str, own_id: str, compensation: Compensation) -> bool:
    """Whether the row was written; if not, it exists. The database copies the shared columns."""
    kind = COMPENSATIONS[compensation]
    properties = stored_properties(message.properties)
    properties.headers = {**(properties.headers or {}), KIND_HEADER: kind, SETTLES_HEADER: business_id}
    if message.created_at is not None:
        properties.headers[WRITTEN_HEADER] = Timestamp(int(message.created_at.timestamp()))
    own = {
        "business_id": literal(own_id),
        "kind": literal(kind),
        "settles": literal(business_id),
        "wants_receipt": true(),
        "properties": literal(properties_text(properties)),
        "created_at": database_time(),
    }
    copied = select(*own.values(), *(ROW[name] for name in COPIED)).where(ROW.id == message.id)
    row = insert_into(executor, OUTBOX).from_select([*own, *COPIED], copied)
    written = row.on_conflict_do_nothing(index_elements=[ROW.business_id]).returning(ROW.id)
    return executor.execute(written).first() is not None


def _take_up(executor: Executor, business_id: str, own_id: str, compensation: Compensation) -> str:
    """The status of a message whose compensating row exists."""
    there = executor.execute(select(ROW.id, ROW.settles, ROW.status).where(ROW.business_id == own_id)).one()
    if there.settles != business_id:
        raise CannotConvert(f"the outbox has another message with business id {own_id!r}")
    if there.status == "done":
        return SETTLED[compensation]
    if there.status in ("failed", "refused"):
        executor.execute(update(OUTBOX).where(ROW.id == there.id).values(AS_NEW))
    return BEING_SETTLED[compensation]
