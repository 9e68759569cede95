"""A consumer's word that a message was done, or refused: what it looks like, and how it is sent for certain.

    type             `warren.receipt`
    correlation_id   the business id of the message, also as header `x-receipt-for`
    x-outcome        `done` or `refused`
    x-reason         why, if it was refused

It goes to the message's `reply_to`. Written into the consumer's own outbox, in the transaction that handled the
message, it is there if and only if the work is. A duplicate has its receipt sent again, because the first may be what
was lost. If the message has come to something else since, as by a reversal, or asks for its receipt elsewhere, another
receipt takes the place of that one: what is sent is what is so, and not what once was.

Not here: what the sender makes of it (`client.receipts`).
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
    """Raised by a handler that will not do what a message asks for, today or ever; the reason goes to the sender."""


def receipt_for(incoming: Incoming, outcome: ReceiptOutcome = "done", reason: str = "") -> Message:
    """What its sender waits for; its routing key is the message's `reply_to`, for the default exchange."""
    asked = incoming.properties
    business_id = asked.message_id or ""
    headers: Table = {RECEIPT_FOR: business_id, OUTCOME: outcome}
    if outcome == "refused":
        headers[REASON] = storable_text(reason, REASON_CHARACTERS_MAX)
    properties = Properties(type=RECEIPT, correlation_id=business_id, headers=headers, delivery_mode=PERSISTENT)
    return Message(b"", properties, asked.reply_to or None)


def receipt_id(consumer: str, business_id: str) -> str:
    """The receipt's own business id: one for each consumer of a message, however often it is sent."""
    plain = f"{business_id}/receipt/{consumer}"
    return plain if len(plain.encode()) <= ID_BYTES_MAX else f"{hashlib.sha256(plain.encode()).hexdigest()}/receipt"


class ReceiptWriter:
    """Writes one consumer's receipts into an outbox: to a message's `reply_to`, else to where the outbox goes."""

    def __init__(self, outbox: Outbox, consumer: str) -> None:
        self._outbox = outbox
        self._consumer = consumer

    def reaches(self, asked: Properties) -> bool:
        """Whether there is somewhere for a receipt to go."""
        return bool(asked.reply_to) or self._outbox.has_address

    def write(self, executor: Executor, incoming: Incoming, outcome: ReceiptOutcome, reason: str = "") -> None:
        """It is handled for the first time, as far as this inbox knows."""
        self._put(executor, receipt_for(incoming, outcome, reason))

    def write_again(self, executor: Executor, incoming: Incoming, outcome: ReceiptOutcome, reason: str) -> None:
        """It was handled before: the same receipt, unless that is gone or says something else."""
        receipt = receipt_for(incoming, outcome, reason)
        if not self._says_the_same(executor, receipt) or not self._outbox.resend(executor, self._id(receipt)):
            self._put(executor, receipt)

    def write_apart(self, executor: Executor, incoming: Incoming, digest: str, reason: str) -> None:
        """It is refused for its id, which another message has: the receipt of that one stays as it is."""
        self._put(executor, receipt_for(incoming, "refused", reason), digest)

    def _says_the_same(self, executor: Executor, receipt: Message) -> bool:
        """Whether the one that is there has this outcome, and goes to the same place; its reason may be the better."""
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
