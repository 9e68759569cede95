"""The planted faults: which orders have one, and which status a reconciliation must find for them, and for no others.

Faults are planted by order number, so that every run has the same ones, spread over the whole day.

Not here: causing the faults (`shop`, `till`).
"""

from dataclasses import dataclass

MISTYPED = "the shop mistypes the routing key: the order is in no queue"
REFUSED = "the till cannot read the order and rejects it: it is dead-lettered"
FORGOTTEN = "the till acks the order and forgets to have it paid"
TWICE = "the till has the order paid twice"
WRONG_AMOUNT = "the till has a wrong amount paid"
NEVER_ORDERED = "the till has something paid that nobody ordered"

FOUND_AS = {
    MISTYPED: "missing",
    REFUSED: "missing",
    FORGOTTEN: "missing",
    TWICE: "duplicated",
    WRONG_AMOUNT: "differs",
    NEVER_ORDERED: "unexpected",
}
"""The status of each fault when the bank's ledger is compared with the shop's, which is the authority."""

EACH = 3
"""How many orders have each fault."""


@dataclass(frozen=True)
class Planted:
    """A run's faults, by order."""

    by_order: dict[str, str]

    def with_fault(self, *faults: str) -> set[str]:
        return {order for order, fault in self.by_order.items() if fault in faults}

    def fault_of(self, order: str) -> str:
        """The fault of an order; empty if it has none."""
        return self.by_order.get(order, "")

    def as_found(self) -> dict[str, str]:
        """The status that a reconciliation must find, by order."""
        return {order: FOUND_AS[fault] for order, fault in sorted(self.by_order.items())}


def order_id(number: int) -> str:
    return f"O-{number:07}"


def planted(order_count: int) -> Planted:
    """The faults of a day with `order_count` orders."""
    kinds = list(FOUND_AS)
    stride = order_count // (EACH * len(kinds) + 1)
    by_order = {}
    for place in range(EACH * len(kinds)):
        fault = kinds[place % len(kinds)]
        number = (place + 1) * stride
        by_order[f"X-{number:07}" if fault == NEVER_ORDERED else order_id(number)] = fault
    return Planted(by_order)
