"""Messages written into the outbox table, in the transaction of the event that they report.

Invariants: if the caller's transaction fails there is no row; if it commits there is one, even after failures of the
processes or the broker. A business id exists once: adding it again with the same content does nothing; with another
content it is a `ValueError`, because a receiver takes two messages with one id for one.

Kinds of rows:

    message        an event
    confirmation   of a message without a receipt: it is to be handled, unless it was
    reversal       of such a message: it is to be undone, or never done
    receipt        for a received message

**Properties** are stored as JSON text, which people can read and any language can write. A value that JSON does not
have is an object with one name that begins with `$`:

| value                   | text                              |
|-------------------------|-----------------------------------|
| bytes                   | `{"$bytes": "aGVsbG8="}`          |
| `Decimal`               | `{"$decimal": "12.50"}`           |
| `Timestamp`             | `{"$timestamp": 1767225600}`      |
| `Long`                  | `{"$long": 7}`                    |
| a table that looks so   | `{"$table": {"$bytes": "plain"}}` |

A value is read as it was written. A value that AMQP cannot carry raises `CannotConvert` before it is written.

Not here: publishing, and the headers that the relay adds (`outbox.publisher`), compensations (`client.receipts`).
"""

import base64
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

import orjson
from sqlalchemy import select, text, update

from warren.client.errors import CannotConvert
from warren.client.machine.publishes import Message
from warren.client.tables import OUTBOX, Executor, database_time
from warren.client.tables.columns import check_length, check_money, utf8_bytes
from warren.client.tables.connections import dialect_of, insert_into
from warren.wire.field_tables import Long, Table, Timestamp
from warren.wire.properties import Properties, encode_header_payload

MESSAGE: Final = "message"
CONFIRMATION: Final = "confirmation"
REVERSAL: Final = "reversal"
RECEIPT: Final = "receipt"

KIND_HEADER: Final = "x-kind"
SETTLES_HEADER: Final = "x-settles"
WRITTEN_HEADER: Final = "x-written-at"
"""When the message, or the one it confirms or reverses, was written: the receiver may have pruned its row."""

COMPENSATIONS: Final = {"confirm": CONFIRMATION, "reverse": REVERSAL}
"""The compensations if no receipt comes, and the kinds of their rows."""


def properties_text(properties: Properties) -> str:
    """All present properties but the `message_id`."""
    present = {name: value for name, value in properties.fields() if value is not None}
    present.pop("message_id", None)
    try:
        encode_header_payload(properties, 0)
        if properties.headers is not None:
            present["headers"] = {name: _plain(value) for name, value in properties.headers.items()}
        return orjson.dumps(present).decode()
    except (TypeError, ValueError) as trouble:
        raise CannotConvert(f"the message's properties cannot be sent: {trouble}") from trouble


def stored_properties(text: str) -> Properties:
    """Parse stored properties; `CannotConvert` if the text is invalid."""
    try:
        found = orjson.loads(text)
        headers = found.pop("headers", {})
        properties = Properties(**found, headers={name: _value(plain) for name, plain in headers.items()})
        encode_header_payload(properties, 0)
    except (AttributeError, TypeError, ValueError, ArithmeticError) as trouble:
        raise CannotConvert(f"the row's properties cannot be read: {trouble}") from trouble
    return properties


def _plain(value: object) -> object:
    if isinstance(value, dict):
        plain: Table = {name: _plain(inner) for name, inner in value.items()}
        return {"$table": plain} if _looks_marked(plain) else plain
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    for kind, mark, write in WRITTEN:
        if isinstance(value, kind):
            return {mark: write(value)}
    return value


def _value(plain: object) -> object:
    if isinstance(plain, list):
        return [_value(inner) for inner in plain]
    if not isinstance(plain, dict):
        return plain
    if not _looks_marked(plain):
        return {name: _value(inner) for name, inner in plain.items()}
    [(mark, inner)] = plain.items()
    if mark not in READ:
        raise ValueError(f"{mark} marks no kind of value")
    return READ[mark](inner)


def _looks_marked(table: Table) -> bool:
    return len(table) == 1 and next(iter(table)).startswith("$")


def _table(inner: Table) -> Table:
    return {name: _value(each) for name, each in inner.items()}


WRITTEN: tuple[tuple[type, str, Callable[..., object]], ...] = (
    (bytes, "$bytes", lambda value: base64.b64encode(value).decode()),
    (Decimal, "$decimal", str),
    (Timestamp, "$timestamp", lambda value: value.seconds),
    (Long, "$long", lambda value: value.value),
)

READ: dict[str, Callable[..., object]] = {
    "$bytes": base64.b64decode,
    "$decimal": Decimal,
    "$timestamp": Timestamp,
    "$long": Long,
    "$table": _table,
}


CHANNEL = "warren_outbox"
"""The channel on which PostgreSQL notifies the relay of committed rows."""

PERSISTENT = 2
TEXT_BYTES_MAX = 255
KIND_CHARACTERS_MAX = 20

AS_NEW: dict[str, Any] = {"status": "pending", "due_at": None, "resends": 0, "refused_at": None}
"""The columns of a row that is to be sent again."""

NEVER_SENT: dict[str, Any] = {"sent_at": None, "done_at": None, "refusals": 0, "last_error": None}
"""The columns of a row that was never sent."""


class Outbox:
    """Writes messages; the exchange and routing key are defaults for messages without their own."""

    def __init__(self, *, exchange: str = "", routing_key: str = "") -> None:
        self._exchange = exchange
        self._routing_key = routing_key

    @property
    def has_address(self) -> bool:
        """Whether it has a default destination."""
        return bool(self._exchange or self._routing_key)

    def add(
        self,
        executor: Executor,
        message: Message | bytes,
        *,
        business_id: str | None = None,
        exchange: str | None = None,
        routing_key: str | None = None,
        ordering_key: str = "",
        kind: str = "message",
        wants_receipt: bool = False,
        compensation: str = "",
        amount: Decimal | None = None,
        currency: str | None = None,
        replace: bool = False,
    ) -> str:
        """Write a message in the caller's transaction; returns its business id.

        The id is `business_id`, or the message's `message_id`, or a random one. The message is persistent unless its
        `delivery_mode` says otherwise. `compensation` is what is done if a receipt is wanted and none comes: `confirm`
        or `reverse`. `amount` and `currency` are for the ledgers. With `replace` a row with that id is overwritten and
        sent again. A value that does not fit the table is a `ValueError`, also in a database that would take it.
        """
        whole = message if isinstance(message, Message) else Message(message)
        properties = _persistent(whole.properties or Properties())
        content = {
            "kind": kind,
            "ordering_key": ordering_key,
            "exchange": self._exchange if exchange is None else exchange,
            "routing_key": _chosen(routing_key, whole.routing_key, self._routing_key),
            "properties": properties_text(properties),
            "body": whole.body,
            "wants_receipt": wants_receipt,
            "compensation": compensation,
            "amount": amount,
            "currency": currency,
        }
        known = business_id or properties.message_id or uuid.uuid4().hex
        _check_texts(business_id=known, **content)
        check_length("kind", kind, KIND_CHARACTERS_MAX)
        check_money(amount, currency)
        _check_compensation(compensation, wants_receipt)
        if replace:
            _write_over(executor, known, content)
        else:
            _write(executor, known, content)
        return known

    def resend(self, executor: Executor, business_id: str) -> bool:
        """Publish a row once more, with any status, in the caller's transaction; whether it exists.

        The same as changing its status to `pending` by hand, but the relay is notified.
        """
        row = update(OUTBOX).where(OUTBOX.c.business_id == business_id).values(AS_NEW)
        found = executor.execute(row.returning(OUTBOX.c.id)).first() is not None
        if found:
            notify_relay(executor)
        return found


def _chosen(*choices: str | None) -> str:
    return next(choice for choice in choices if choice is not None)


def _persistent(properties: Properties) -> Properties:
    """A copy with a delivery mode, if it has none."""
    if properties.delivery_mode is not None:
        return properties
    fields: dict[str, Any] = dict(properties.fields())
    return Properties(**fields | {"delivery_mode": PERSISTENT})


def _check_texts(**values: Any) -> None:
    for name in ("business_id", "ordering_key", "exchange", "routing_key"):
        size = len(utf8_bytes(name, values[name]))
        if size > TEXT_BYTES_MAX:
            raise CannotConvert(f"the {name} has {size} bytes, and {TEXT_BYTES_MAX} are the most that can be sent")


def _check_compensation(compensation: str, wants_receipt: bool) -> None:
    if compensation and compensation not in COMPENSATIONS:
        raise ValueError(f"a compensation is {' or '.join(COMPENSATIONS)}, or empty, not {compensation!r}")
    if compensation and not wants_receipt:
        raise ValueError(f"to {compensation} if no receipt comes, a receipt must be wanted: say wants_receipt=True")


def _write(executor: Executor, business_id: str, content: dict[str, Any]) -> None:
    row = insert_into(executor, OUTBOX).values(business_id=business_id, created_at=database_time(), **content)
    written = row.on_conflict_do_nothing(index_elements=[OUTBOX.c.business_id]).returning(OUTBOX.c.id)
    if executor.execute(written).first() is None:
        _check_same(executor, business_id, content)
    else:
        notify_relay(executor)


def _write_over(executor: Executor, business_id: str, content: dict[str, Any]) -> None:
    row = insert_into(executor, OUTBOX).values(business_id=business_id, created_at=database_time(), **content)
    # with a new id: a relay that has published the old content marks the old id
    other = {"id": row.excluded.id, "created_at": row.excluded.created_at, **content, **AS_NEW, **NEVER_SENT}
    executor.execute(row.on_conflict_do_update(index_elements=[OUTBOX.c.business_id], set_=other))
    notify_relay(executor)


def notify_relay(executor: Executor) -> None:
    """Notify the relay when the transaction commits, once for all rows."""
    if dialect_of(executor) == "postgresql":
        executor.execute(text(f"NOTIFY {CHANNEL}"))


def _check_same(executor: Executor, business_id: str, content: dict[str, Any]) -> None:
    columns = [OUTBOX.c[name] for name in content]
    found = executor.execute(select(*columns).where(OUTBOX.c.business_id == business_id)).one()
    different = [name for name, value in content.items() if getattr(found, name) != value]
    if different:
        raise ValueError(
            f"the outbox has another message with business id {business_id!r}, with another {', '.join(different)};"
            " give this one an id of its own"
        )
