"""The till: consumes orders, and publishes a payment for each of them.

Not here: booking the payments (`bank`).
"""

import json
from collections.abc import Sequence
from decimal import Decimal

from faults import FORGOTTEN, NEVER_ORDERED, REFUSED, TWICE, WRONG_AMOUNT, Planted
from services import Service
from shop import Order

from warren.client import Delivery, Message, Properties, blocking

EXCHANGE = "payments"
KEY = "payment.card"


class Till(Service):
    """Consumes `orders`, publishes payments. Other threads may read `handled` and `payments`."""

    def __init__(self, url: str, planted: Planted) -> None:
        super().__init__("till", url, "orders")
        # the orders it has acked or rejected, and the ids of all payments it has published
        self.handled: set[str] = set()
        self.payments: set[str] = set()
        self._planted = planted
        self._strays = sorted(planted.with_fault(NEVER_ORDERED))

    def handle(self, channel: blocking.Channel, deliveries: Sequence[Delivery]) -> None:
        orders: list[Order] = [json.loads(delivery.body) for delivery in deliveries]
        payments = [payment for order in orders for payment in self._payments_for(order)]
        channel.send_many([self._message(payment) for payment in payments], exchange=EXCHANGE, routing_key=KEY)
        channel.wait_for_confirms()
        for delivery, order in zip(deliveries, orders, strict=True):
            if self._planted.fault_of(order["order"]) == REFUSED:
                channel.nack(delivery, requeue=False)
            else:
                channel.ack(delivery)
        self.payments.update(payment["payment"] for payment in payments)
        self.handled.update(order["order"] for order in orders)

    def _payments_for(self, order: Order) -> list[Order]:
        fault = self._planted.fault_of(order["order"])
        if fault in (FORGOTTEN, REFUSED):
            return []
        payment = {**order, "payment": f"P-{order['order']}"}
        if fault == WRONG_AMOUNT:
            payment["amount"] = str(Decimal(order["amount"]) + 1)
        payments = [payment]
        if fault == TWICE:
            payments.append({**payment, "payment": f"{payment['payment']}-again"})
            payments += self._something_nobody_ordered(order)
        return payments

    def _something_nobody_ordered(self, order: Order) -> list[Order]:
        """Each time that the till pays an order twice, it also makes one such payment."""
        place = sorted(self._planted.with_fault(TWICE)).index(order["order"])
        stray = self._strays[place]
        return [{**order, "order": stray, "payment": f"P-{stray}"}]

    def _message(self, payment: Order) -> Message:
        properties = Properties(
            content_type="application/json",
            delivery_mode=2,
            message_id=payment["payment"],
            correlation_id=payment["order"],
            app_id="till",
            headers={"x-warren-publisher": "till", "x-warren-publishing-id": payment["payment"]},
        )
        return Message(json.dumps(payment).encode(), properties)
