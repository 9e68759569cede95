"""Whether exchange.declare of an exchange that exists asks for the one that exists.

Not here: whether a new exchange's arguments are acceptable (`routing.types`).
"""

from warren.model.equivalence import compare_argument, compare_flag, inequivalent, quoted
from warren.routing.exchange import Exchange
from warren.wire.methods import ExchangeDeclare


def check_exchange_equivalent(exchange: Exchange, vhost: str, method: ExchangeDeclare) -> None:
    """Refuse a redeclare that differs, naming the first difference as RabbitMQ does."""
    where = f"exchange '{exchange.name}' in vhost '{vhost}'"
    if exchange.type != method.type:
        raise inequivalent("type", where, quoted(method.type), quoted(exchange.type))
    compare_flag("durable", method.durable, exchange.durable, where)
    compare_flag("auto_delete", method.auto_delete, exchange.auto_delete, where)
    compare_flag("internal", method.internal, exchange.internal, where)
    for name in ("alternate-exchange", "x-delayed-type"):
        compare_argument(name, method.arguments, exchange.arguments, where)
