"""The paths there are, each with the resource that answers for it.

Whoever writes resources names their paths in a function `routes(station)` of their module and adds it to `_FAMILIES`.

Not here: what a resource does (`admin.resources`).
"""

from collections.abc import Callable

from warren.admin.http.router import Resource, Router
from warren.admin.resources import access, bindings, connections, definitions, exchanges, health, node, policies, queues
from warren.admin.station import Station

Routes = dict[str, Resource]

_FAMILIES: list[Callable[[Station], Routes]] = [
    access.routes,
    bindings.routes,
    connections.routes,
    definitions.routes,
    exchanges.routes,
    health.routes,
    node.routes,
    policies.routes,
    queues.routes,
]


def router_of(station: Station) -> Router:
    router = Router()
    for family in _FAMILIES:
        for template, resource in family(station).items():
            router.add(template, resource)
    return router
