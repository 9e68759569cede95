"""The messages between the two services: an operation on an account, and the names of the queues.

An operation has an id, which is the same in every resend, and a number that counts the operations of its account, so
that the bank can check their order.

Not here: handling an operation, by the teller (`teller`) and the bank (`core_bank`).
"""

import json
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Literal, Self

from warren.client import Message, Properties

OPERATIONS = "bank.operations"
RECEIPTS = "bank.receipts"
QUEUES = (OPERATIONS, RECEIPTS)
CURRENCY = "EUR"

Kind = Literal["deposit", "withdrawal"]


@dataclass(frozen=True, slots=True)
class Operation:
    """A deposit or a withdrawal at the teller."""

    id: str
    account: str
    number: int
    kind: Kind
    amount: Decimal

    @property
    def signed(self) -> Decimal:
        """The change of the account's balance."""
        return self.amount if self.kind == "deposit" else -self.amount

    def message(self) -> Message:
        body = json.dumps(asdict(self) | {"amount": str(self.amount)}).encode()
        return Message(body, Properties(content_type="application/json", type=self.kind, reply_to=RECEIPTS))

    @classmethod
    def read(cls, body: bytes) -> Self:
        told = json.loads(body)
        return cls(**told | {"amount": Decimal(told["amount"])})
