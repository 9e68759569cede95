"""The bindings of a federated exchange, as its upstream has to have them. Pure.

Bindings with the same key and arguments are one there, however many queues have them here.

Not here: making them (`federation.upstream_end`).
"""

from collections.abc import Iterable

from warren.bridges.federation.exchange_plan import ExchangePlan
from warren.bridges.federation.hops import bound_from
from warren.bridges.host import LocalBinding
from warren.wire.field_tables import encode_table
from warren.wire.values import Table

Binding = tuple[str, Table]
Wanted = dict[tuple[str, bytes], Binding]


def wanted_upstream(bindings: Iterable[LocalBinding], plan: ExchangePlan, upstream_name: str, suffix: str) -> Wanted:
    """Of those here, the ones that go so far, with the arguments they have there."""
    here: Table = {
        "cluster-name": plan.cluster_name,
        "vhost": plan.vhost,
        "exchange": f"{plan.vhost}:{plan.name} {suffix}",
    }
    found: Wanted = {}
    for binding in bindings:
        arguments = bound_from(binding.arguments, plan.upstream.max_hops, upstream_name, plan.upstream_vhost, here)
        if arguments is not None:
            found[binding.routing_key, encode_table(arguments)] = (binding.routing_key, arguments)
    return found


def differences(made: Wanted, wanted: Wanted) -> tuple[list[Binding], list[Binding]]:
    """What is missing, and what is too much."""
    missing = [binding for key, binding in wanted.items() if key not in made]
    surplus = [binding for key, binding in made.items() if key not in wanted]
    return missing, surplus
