"""What exchange.declare may ask for, and whether a redeclare asks for the same.

Not here: what each type does with its arguments (`routing`).
"""

from warren.model.equivalence import compare_argument, compare_flag, inequivalent, quoted
from warren.routing.exchange import Exchange
from warren.routing.types import alternate_of, validate_exchange_type
from warren.wire.methods import ExchangeDeclare
from warren.wire.values import Table


def check_exchange_arguments(kind: str, name: str, vhost: str, arguments: Table) -> None:
    """Refuse an unknown type or an argument of the wrong kind."""
    validate_exchange_type(kind)
    alternate_of(vhost, name, arguments)


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
