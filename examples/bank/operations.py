"""What the two services tell each other: an operation on an account, and the names of the queues it goes through.

An operation has an id, under which it is sent however often, and a number that counts the operations of its account:
whoever books them can tell whether they came in order.

Not here: what a teller (`teller`) and the bank (`core_bank`) do about one.
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
    """Money that comes in or goes out, in the teller's hands."""

    id: str
    account: str
    number: int
    kind: Kind
    amount: Decimal

    @property
    def signed(self) -> Decimal:
        """By how much the account has more."""
        return self.amount if self.kind == "deposit" else -self.amount

    def message(self) -> Message:
        body = json.dumps(asdict(self) | {"amount": str(self.amount)}).encode()
        return Message(body, Properties(content_type="application/json", type=self.kind, reply_to=RECEIPTS))

    @classmethod
    def read(cls, body: bytes) -> Self:
        told = json.loads(body)
        return cls(**told | {"amount": Decimal(told["amount"])})
