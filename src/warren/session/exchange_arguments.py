"""What exchange.declare may ask for, and whether a redeclare asks for the same.

Not here: what each type does with its arguments (`routing`).
"""

from warren.model.arguments import check_same_argument, inequivalent, shown
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
        raise inequivalent("type", where, f"'{method.type}'", f"'{exchange.type}'")
    flags = [
        ("durable", method.durable, exchange.durable),
        ("auto_delete", method.auto_delete, exchange.auto_delete),
        ("internal", method.internal, exchange.internal),
    ]
    for name, received, current in flags:
        if received != current:
            raise inequivalent(name, where, f"'{shown(received)}'", f"'{shown(current)}'")
    for name in ("alternate-exchange", "x-delayed-type"):
        check_same_argument(name, where, exchange.arguments, method.arguments)
