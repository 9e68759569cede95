"""Outbox rows for tests."""

from warren.client.outbox.publisher import PendingRow


def row(number: int, key: str = "", properties: str = "{}", attempt: int = 0) -> PendingRow:
    return PendingRow(number, f"id {number}", key, "", "orders", properties, f"{number}".encode(), attempt, 0)
