"""The router of the HTTP API and the pages.

Each module in `_RESOURCES` has a function `routes` with its paths. The files of the pages are read when the node starts
and served from memory. Each file has a path of its own, so no path can leave the folder. Browsers revalidate cached
files by their tag.

Not here: handlers (`admin.resources`), the pages (`admin/pages`), headers that restrict them (`http.application`).
"""

import hashlib
from pathlib import Path

from warren.admin.http.request import ApiRequest
from warren.admin.http.responses import ApiResponse
from warren.admin.http.router import Handler, Resource, Router, Routes
from warren.admin.openapi import PATH, described
from warren.admin.resources import (
    bindings,
    connections,
    definitions,
    exchanges,
    federation,
    health,
    logins,
    messages,
    nodes,
    overview,
    permissions,
    policies,
    queues,
    shovels,
    streams,
    traces,
    users,
    vhosts,
)

PAGES = Path(__file__).parent / "pages"
_INDEX = "index.html"
_CONTENT_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


def page_routes(folder: Path = PAGES) -> Routes:
    """Every file below a folder by its path; the index also by `/`."""
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
    """Whether the list of tags contains this one. A proxy that compresses bodies marks the tag as weak."""
    return tag in [named.strip().removeprefix("W/") for named in header.split(",")]


_RESOURCES = (
    bindings,
    connections,
    definitions,
    exchanges,
    federation,
    health,
    logins,
    messages,
    nodes,
    overview,
    permissions,
    policies,
    queues,
    shovels,
    streams,
    traces,
    users,
    vhosts,
)


async def redirect_to_pages(call: ApiRequest) -> ApiResponse:
    """Open the pages."""
    return ApiResponse(301, headers={"location": "/"})


def api_router() -> Router:
    router = Router()
    for path, page in page_routes().items():
        router.add(path, page)
    router.add("/api", Resource(None, {"GET": redirect_to_pages}))
    for module in _RESOURCES:
        for template, resource in module.routes().items():
            router.add(template, resource)
    router.add(PATH, Resource(None, {"GET": described(router)}))
    return router
