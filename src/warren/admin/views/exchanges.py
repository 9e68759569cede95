"""An exchange as a row, and the types there are.

Not here: its bindings (`views.bindings`).
"""

from typing import Any

from warren.admin.history_port import HistoryPort, Spans
from warren.admin.views import figures
from warren.admin.views.amqp_values import plain
from warren.routing.exchange import Exchange
from warren.routing.topology import PREDECLARED
from warren.routing.types import EXCHANGE_TYPES

DEFAULT_IN_PATHS = "amq.default"
"""What the exchange without a name is called where a name must stand."""

_DESCRIPTIONS = {
    "direct": "AMQP direct exchange, as per the AMQP specification",
    "fanout": "AMQP fanout exchange, as per the AMQP specification",
    "headers": "AMQP headers exchange, as per the AMQP specification",
    "topic": "AMQP topic exchange, as per the AMQP specification",
    "x-consistent-hash": "Consistent Hashing Exchange",
    "x-delayed-message": "Delayed Message Exchange.",
}
KNOWN_EVERYWHERE = frozenset(
    {"arguments", "auto_delete", "durable", "internal", "name", "policy", "type", "user_who_performed_action", "vhost"}
)
"""What is agreed about an exchange."""

_PREDECLARED_NAMES = frozenset(name for name, _, _ in PREDECLARED)


class ExchangeRows:
    """Builds rows of exchanges."""

    def __init__(self, history: HistoryPort, spans: Spans) -> None:
        self._history = history
        self._spans = spans

    def row(self, vhost: str, exchange: Exchange) -> dict[str, Any]:
        return self.bare(vhost, exchange) | self.stats(vhost, exchange)

    def stats(self, vhost: str, exchange: Exchange) -> dict[str, Any]:
        """What passed through it, if anything did."""
        row: dict[str, Any] = {}
        key = (vhost, exchange.name)
        counted = figures.of_exchange(exchange)
        figures.add_message_stats(row, self._history, "exchange", key, counted, self._spans.messages)
        return row

    def detailed(self, vhost: str, exchange: Exchange) -> dict[str, Any]:
        return {"incoming": [], "outgoing": [], **self.row(vhost, exchange)}

    def bare(self, vhost: str, exchange: Exchange) -> dict[str, Any]:
        """What an exchange is, whatever passes through it."""
        row: dict[str, Any] = {
            "arguments": plain(exchange.arguments),
            "auto_delete": exchange.auto_delete,
            "durable": exchange.durable,
            "internal": exchange.internal,
            "name": exchange.name,
            "type": exchange.type,
            "user_who_performed_action": "rmq-internal" if exchange.name in _PREDECLARED_NAMES else "unknown",
            "vhost": vhost,
        }
        if exchange.policy:
            row["policy"] = exchange.policy
        return row


def exchange_types() -> list[dict[str, Any]]:
    return [{"name": name, "description": _DESCRIPTIONS[name], "enabled": True} for name in sorted(EXCHANGE_TYPES)]
