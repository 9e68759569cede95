"""The bank: books payments into its ledger, and mends the ledger by corrections.

A payment is booked once, by its id, however often it comes. It is booked ten minutes after its order, so the last
payments of a day are booked on the next day. One payment in a hundred has a cent more or less, because of rounding.
Neither is a fault: `ledgers.toml` allows for both.

Not here: sending corrections (`warren pipeline compensate`).
"""

import csv
import json
import threading
from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from services import Service
from shop import Order

from warren.client import Delivery, blocking

BOOKED_AFTER = timedelta(minutes=10)
CENT = Decimal("0.01")
ROUNDED = 100


class Books:
    """The booked payments, by id; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: dict[str, Order] = {}

    def book(self, payment: str, row: Order) -> None:
        """Book a payment, unless it is booked already."""
        with self._lock:
            self._rows.setdefault(payment, {**row, "payment": payment})

    def strike(self, order: str, row_count: int | None = None) -> None:
        """Take back the last `row_count` payments of an order; all of them without a count."""
        with self._lock:
            payments = sorted(payment for payment, row in self._rows.items() if row["reference"] == order)
            for payment in payments[-row_count:] if row_count else payments:
                del self._rows[payment]

    def payments(self) -> set[str]:
        with self._lock:
            return set(self._rows)

    def write_ledger(self, path: Path) -> None:
        with self._lock, path.open("w", newline="") as file:
            writer = csv.DictWriter(file, ["reference", "amount", "currency", "booked_at", "payment"])
            writer.writeheader()
            writer.writerows(self._rows[payment] for payment in sorted(self._rows))


class Bank(Service):
    """Consumes `payments`."""

    def __init__(self, url: str, books: Books) -> None:
        super().__init__("bank", url, "payments")
        self._books = books

    def handle(self, channel: blocking.Channel, deliveries: Sequence[Delivery]) -> None:
        for delivery in deliveries:
            payment: Order = json.loads(delivery.body)
            booked_at = (datetime.fromisoformat(payment["at"]) + BOOKED_AFTER).isoformat(timespec="milliseconds")
            amount = Decimal(payment["amount"])
            if int(payment["order"][2:]) % ROUNDED == 1:
                amount += CENT
            row = {"reference": payment["order"], "amount": str(amount), "currency": payment["currency"]}
            self._books.book(payment["payment"], {**row, "booked_at": booked_at})
            channel.ack(delivery)


class Corrections(Service):
    """Consumes `corrections`, and applies each correction of the reconciliation once."""

    def __init__(self, url: str, books: Books) -> None:
        super().__init__("corrections", url, "corrections")
        # the ids of the applied corrections
        self.made: set[str] = set()
        self._books = books

    def handle(self, channel: blocking.Channel, deliveries: Sequence[Delivery]) -> None:
        for delivery in deliveries:
            name = str(delivery.headers["compensation_id"])
            if name not in self.made:
                self._mend(str(delivery.headers["action"]), json.loads(delivery.body))
                self.made.add(name)
            channel.ack(delivery)

    def _mend(self, action: str, told: dict[str, Any]) -> None:
        match action:
            case "resend":
                self._pay(told)
            case "reverse":
                self._books.strike(told["key"], told["rows"])
            case "correct":
                self._books.strike(told["key"])
                self._pay(told["right"])

    def _pay(self, order: Order) -> None:
        """Book the shop's amount, at the time of the order."""
        row = {"reference": order["order"], "amount": order["amount"], "currency": order["currency"]}
        self._books.book(f"C-{order['order']}", {**row, "booked_at": order["at"]})
