"""The shop: publishes the day's orders with confirms, and writes each into its own ledger.

A publish is done when it is confirmed: then all three nodes have it on disk. When a connection is lost, the shop
publishes the unconfirmed orders again over the next one. It need not know whether they arrived the first time: each
order has a publishing id, and a queue drops duplicates.

Not here: handling an order (`till`, `bank`).
"""

import csv
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from faults import MISTYPED, NEVER_ORDERED, Planted, order_id

from warren.client import ClientError, Message, Properties, PublishFailed, blocking

DAY = datetime(2026, 3, 2, tzinfo=UTC)
EXCHANGE = "orders"
KEY = "order.new"
MISTYPED_KEY = "order.nwe"
BATCH = 100

Order = dict[str, str]


class Shop:
    """Publishes the orders of one day."""

    def __init__(self, url: str, order_count: int, planted: Planted) -> None:
        self.confirmed_count = 0
        self.reconnect_count = 0
        self._url = url
        self._order_count = order_count
        self._planted = planted

    def orders(self) -> Iterator[Order]:
        """The orders of the day, the same in every run."""
        every = timedelta(days=1) / self._order_count
        for number in range(self._order_count):
            cents = 100 + number * 7919 % 50_000
            yield {
                "order": order_id(number),
                "amount": f"{cents // 100}.{cents % 100:02}",
                "currency": "EUR",
                "at": (DAY + number * every).isoformat(timespec="milliseconds"),
            }

    def publish_all(self, underway: Callable[[int], None]) -> None:
        """Returns when every order is confirmed, however often the broker was lost meanwhile.

        Each time that some are sent and not confirmed yet, `underway` is told how many are.
        """
        waiting = [self._message(order) for order in self.orders()]
        while waiting:
            try:
                with blocking.connect(self._url, name="shop") as connection:
                    self._publish(connection.channel(confirms=True), waiting, underway)
            except PublishFailed as failed:
                if failed.returned:
                    raise
            except ClientError as error:
                if not error.retriable:
                    raise
                self.reconnect_count += 1

    def _publish(self, channel: blocking.Channel, waiting: list[Message], underway: Callable[[int], None]) -> None:
        """Publish the waiting orders, and remove each batch when it is confirmed."""
        while waiting:
            batch = waiting[:BATCH]
            channel.send_many(batch, exchange=EXCHANGE, routing_key=KEY)
            underway(self.confirmed_count)
            channel.wait_for_confirms()
            del waiting[: len(batch)]
            self.confirmed_count += len(batch)

    def _message(self, order: Order) -> Message:
        fault = self._planted.fault_of(order["order"])
        properties = Properties(
            content_type="application/json",
            delivery_mode=2,
            message_id=order["order"],
            app_id="shop",
            headers={"x-warren-publisher": "shop", "x-warren-publishing-id": order["order"]},
        )
        return Message(json.dumps(order).encode(), properties, MISTYPED_KEY if fault == MISTYPED else KEY)

    def write_ledger(self, path: Path) -> None:
        """Write the shop's ledger: all orders."""
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, ["order", "amount", "currency", "at"])
            writer.writeheader()
            writer.writerows(self.orders())

    def routable(self) -> set[str]:
        """The orders that must reach the till."""
        nowhere = self._planted.with_fault(MISTYPED, NEVER_ORDERED)
        return {order["order"] for order in self.orders()} - nowhere
