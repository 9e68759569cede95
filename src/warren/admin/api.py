"""The paths there are, each with the resource that answers for it.

Whoever writes resources names their paths in a function `routes(station)` of their module and adds it to `_FAMILIES`.

Not here: what a resource does (`admin.resources`).

The pages' files, served from memory.

They are read once, when the node starts, and each has its own path. A path that is not one of theirs leads nowhere, so
there is nothing to climb out of. Browsers keep what they have and ask whether it is still the same.

Not here: the pages (`admin/pages`), what a browser may do with them (`http.application`).
"""

import hashlib
from collections.abc import Callable
from pathlib import Path

from warren.admin.context import AdminContext
from warren.admin.http.request import ApiRequest
from warren.admin.http.responses import ApiResponse
from warren.admin.http.router import Handler, Resource, Router
from warren.admin.openapi import PATH, described
from warren.admin.resources import (
    access,
    connections,
    declarations,
    definitions,
    exchanges,
    federation,
    health,
    maintenance,
    messages,
    nodes,
    policies,
    queues,
    shovels,
    streams,
)
from warren.admin.resources import connections as connection_changes
from warren.admin.resources import definitions as definition_changes
from warren.admin.resources import federation as federation_changes
from warren.admin.resources import policies as policy_changes
from warren.admin.resources import shovels as shovel_changes
from warren.admin.resources import traces as tracing

PAGES = Path(__file__).parent / "pages"
_INDEX = "index.html"
_CONTENT_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


def page_routes(folder: Path = PAGES) -> dict[str, Resource]:
    """Every file below a folder by its path; the index also by that of the folder itself."""
    routes = {}
    for file in sorted(folder.rglob("*")):
        if file.suffix in _CONTENT_TYPES:
            resource = Resource(None, {"GET": _handler(file.read_bytes(), _CONTENT_TYPES[file.suffix])})
            routes[f"/{file.relative_to(folder).as_posix()}"] = resource
    if f"/{_INDEX}" in routes:
        routes["/"] = routes[f"/{_INDEX}"]
    return routes


def _handler(body: bytes, content_type: str) -> Handler:
    tag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'

    async def serve(call: ApiRequest) -> ApiResponse:
        if _names(call.header("if-none-match"), tag):
            return ApiResponse(304, headers={"etag": tag})
        return ApiResponse(200, body, content_type, {"etag": tag})

    return serve


def _names(header: str, tag: str) -> bool:
    """Whether a list of tags has this one; whoever stands between and packs bodies marks it as a weak one."""
    return tag in [named.strip().removeprefix("W/") for named in header.split(",")]


Routes = dict[str, Resource]

_ROUTE_TABLES: list[Callable[[AdminContext], Routes]] = [
    access.routes,
    exchanges.binding_routes,
    connections.routes,
    maintenance.routes,
    definitions.routes,
    exchanges.routes,
    federation.routes,
    health.routes,
    maintenance.membership_routes,
    nodes.routes,
    policies.routes,
    queues.routes,
    shovels.routes,
    streams.routes,
    definition_changes.import_routes,
    connection_changes.change_routes,
    federation_changes.change_routes,
    messages.routes,
    messages.move_routes,
    maintenance.service_routes,
    policy_changes.change_routes,
    shovel_changes.change_routes,
    declarations.routes,
    access.user_change_routes,
    access.vhost_change_routes,
    tracing.routes,
]


async def redirect_to_pages(call: ApiRequest) -> ApiResponse:
    """Whoever opens the API itself in a browser."""
    return ApiResponse(301, headers={"location": "/"})


def router_of(context: AdminContext) -> Router:
    router = Router()
    for path, page in page_routes().items():
        router.add(path, page)
    router.add("/api", Resource(None, {"GET": redirect_to_pages}))
    for family in _ROUTE_TABLES:
        for template, resource in family(context).items():
            router.add(template, resource)
    router.add(PATH, Resource(None, {"GET": described(router)}))
    return router
