"""An exchange from which nothing is lost: what none of its bindings wants goes to an alternate exchange.

    EXCHANGE ──▶ its bindings
        └──────▶ EXCHANGE's alternate (fanout) ──▶ a queue that catches all

The names follow the convention where the exchange's does: A_TO_B_EXCHANGE has A_TO_B_UNROUTED_EXCHANGE and
A_TO_B_UNROUTED_QUEUE; any other, say orders, has orders.unrouted twice.

A message that went that way was routed: it is confirmed, and a mandatory one does not come back.

Not here: telling the sender instead (`mandatory`, which all templates begin with).
"""

from dataclasses import replace

from warren.client.settings.naming import ENDINGS
from warren.client.transport import BindingLayout, ExchangeLayout, Layout, QueueLayout

ARGUMENT = "alternate-exchange"


def with_alternate(exchange: ExchangeLayout) -> Layout:
    """The exchange, its alternate, and the queue behind it; in the order in which they are declared."""
    alternate, queue = _unrouted_names(exchange.name)
    catching = ExchangeLayout(alternate, "fanout", exchange.durable)
    guarded = replace(exchange, arguments={**exchange.arguments, ARGUMENT: alternate})
    return Layout(
        (catching, guarded), (QueueLayout(queue, durable=exchange.durable),), (BindingLayout(alternate, queue),)
    )


def _unrouted_names(exchange: str) -> tuple[str, str]:
    stem = exchange.removesuffix(ENDINGS["exchange"])
    if stem == exchange:
        return f"{exchange}.unrouted", f"{exchange}.unrouted"
    return f"{stem}_UNROUTED{ENDINGS['exchange']}", f"{stem}_UNROUTED{ENDINGS['queue']}"
