"""The paths there are, each with the resource that answers for it.

Whoever writes resources names their paths in a function `routes(station)` of their module and adds it to `_FAMILIES`.

Not here: what a resource does (`admin.resources`).
"""

from collections.abc import Callable

from warren.admin.changes import connections as connection_changes
from warren.admin.changes import definitions as definition_changes
from warren.admin.changes import federation as federation_changes
from warren.admin.changes import messages, moving, service, topology, users, vhosts
from warren.admin.changes import policies as policy_changes
from warren.admin.changes import shovels as shovel_changes
from warren.admin.http.answers import Answer
from warren.admin.http.call import Call
from warren.admin.http.router import Resource, Router
from warren.admin.openapi.description import PATH, described
from warren.admin.resources import (
    access,
    bindings,
    connections,
    control,
    definitions,
    exchanges,
    federation,
    health,
    membership,
    node,
    policies,
    queues,
    shovels,
    streams,
)
from warren.admin.static import page_routes
from warren.admin.station import Station
from warren.admin.tracing import resources as tracing

Routes = dict[str, Resource]

_FAMILIES: list[Callable[[Station], Routes]] = [
    access.routes,
    bindings.routes,
    connections.routes,
    control.routes,
    definitions.routes,
    exchanges.routes,
    federation.routes,
    health.routes,
    membership.routes,
    node.routes,
    policies.routes,
    queues.routes,
    shovels.routes,
    streams.routes,
    definition_changes.routes,
    connection_changes.routes,
    federation_changes.routes,
    messages.routes,
    moving.routes,
    service.routes,
    policy_changes.routes,
    shovel_changes.routes,
    topology.routes,
    users.routes,
    vhosts.routes,
    tracing.routes,
]


async def to_the_pages(call: Call) -> Answer:
    """Whoever opens the API itself in a browser."""
    return Answer(301, headers={"location": "/"})


def router_of(station: Station) -> Router:
    router = Router()
    for path, page in page_routes().items():
        router.add(path, page)
    router.add("/api", Resource(None, {"GET": to_the_pages}))
    for family in _FAMILIES:
        for template, resource in family(station).items():
            router.add(template, resource)
    router.add(PATH, Resource(None, {"GET": described(router)}))
    return router
