"""Receipts: a consumer's report that a message was done or refused, and how it is sent reliably.

    type             `warren.receipt`
    correlation_id   the business id of the message, also as header `x-receipt-for`
    x-outcome        `done` or `refused`
    x-reason         why, if it was refused

A receipt goes to the message's `reply_to`. It is written into the consumer's outbox in the transaction that handles the
message, so it exists if and only if the work does. A duplicate causes the receipt to be sent again, because the first
may be lost. If the outcome has changed since, for example by a reversal, or if the duplicate names another `reply_to`,
a new receipt replaces the old one.

Not here: the sender's side (`client.receipts`).
"""

import hashlib
from typing import Final, Literal

from sqlalchemy import select

from warren.client.errors import CannotConvert
from warren.client.machine.publishes import Message
from warren.client.outbox import Outbox
from warren.client.outbox import outbox as kinds
from warren.client.outbox.outbox import stored_properties
from warren.client.tables import OUTBOX, Executor
from warren.client.tables.columns import storable_text
from warren.client.transport import Incoming
from warren.wire.field_tables import Table
from warren.wire.properties import Properties

ReceiptOutcome = Literal["done", "refused"]

RECEIPT: Final = "warren.receipt"
RECEIPT_FOR: Final = "x-receipt-for"
OUTCOME: Final = "x-outcome"
REASON: Final = "x-reason"
REASON_CHARACTERS_MAX: Final = 1000
ID_BYTES_MAX: Final = 255
PERSISTENT: Final = 2


class Refused(Exception):
    """Raised by a handler that refuses a message for good; the reason goes to the sender."""


def receipt_for(incoming: Incoming, outcome: ReceiptOutcome = "done", reason: str = "") -> Message:
    """The receipt of a message; its routing key is the message's `reply_to`, for the default exchange."""
    asked = incoming.properties
    business_id = asked.message_id or ""
    headers: Table = {RECEIPT_FOR: business_id, OUTCOME: outcome}
    if outcome == "refused":
        headers[REASON] = storable_text(reason, REASON_CHARACTERS_MAX)
    properties = Properties(type=RECEIPT, correlation_id=business_id, headers=headers, delivery_mode=PERSISTENT)
    return Message(b"", properties, asked.reply_to or None)


def receipt_id(consumer: str, business_id: str) -> str:
    """The business id of the receipt: one for each consumer of a message, however often it is sent."""
    plain = f"{business_id}/receipt/{consumer}"
    return plain if len(plain.encode()) <= ID_BYTES_MAX else f"{hashlib.sha256(plain.encode()).hexdigest()}/receipt"


class ReceiptWriter:
    """Writes one consumer's receipts into an outbox: to a message's `reply_to`, else to the outbox's destination."""

    def __init__(self, outbox: Outbox, consumer: str) -> None:
        self._outbox = outbox
        self._consumer = consumer

    def reaches(self, asked: Properties) -> bool:
        """Whether the receipt has a destination."""
        return bool(asked.reply_to) or self._outbox.has_address

    def write(self, executor: Executor, incoming: Incoming, outcome: ReceiptOutcome, reason: str = "") -> None:
        """Write the receipt of a message that is handled for the first time."""
        self._put(executor, receipt_for(incoming, outcome, reason))

    def write_again(self, executor: Executor, incoming: Incoming, outcome: ReceiptOutcome, reason: str) -> None:
        """Write the receipt of a duplicate: send the same again, or replace it if it is gone or differs."""
        receipt = receipt_for(incoming, outcome, reason)
        if not self._has_same_outcome(executor, receipt) or not self._outbox.resend(executor, self._id(receipt)):
            self._put(executor, receipt)

    def write_apart(self, executor: Executor, incoming: Incoming, digest: str, reason: str) -> None:
        """Write the refusal of a message whose id another message has; the receipt of that one stays."""
        self._put(executor, receipt_for(incoming, "refused", reason), digest)

    def _has_same_outcome(self, executor: Executor, receipt: Message) -> bool:
        """Whether the existing receipt has this outcome and destination; its reason may be the better one."""
        row = select(OUTBOX.c.properties, OUTBOX.c.routing_key).where(OUTBOX.c.business_id == self._id(receipt))
        found = executor.execute(row).first()
        if found is None or (receipt.routing_key and found.routing_key != receipt.routing_key):
            return False
        try:
            stored = stored_properties(found.properties)
        except CannotConvert:
            return False
        assert receipt.properties is not None
        return (stored.headers or {}).get(OUTCOME) == (receipt.properties.headers or {}).get(OUTCOME)

    def _put(self, executor: Executor, receipt: Message, digest: str = "") -> None:
        if receipt.routing_key or self._outbox.has_address:
            exchange = "" if receipt.routing_key else None
            own_id = self._id(receipt, digest)
            self._outbox.add(executor, receipt, business_id=own_id, exchange=exchange, kind=kinds.RECEIPT, replace=True)

    def _id(self, receipt: Message, digest: str = "") -> str:
        assert receipt.properties is not None
        consumer = f"{self._consumer}/{digest}" if digest else self._consumer
        return receipt_id(consumer, receipt.properties.correlation_id or "")
