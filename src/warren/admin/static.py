"""The pages' files, served from memory.

They are read once, when the node starts, and each has its own path. A path that is not one of theirs leads nowhere, so
there is nothing to climb out of. Browsers keep what they have and ask whether it is still the same.

Not here: the pages (`admin/pages`), what a browser may do with them (`http.application`).
"""

import hashlib
from pathlib import Path

from warren.admin.http.answers import Answer
from warren.admin.http.call import Call
from warren.admin.http.router import Handler, Resource

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

    async def serve(call: Call) -> Answer:
        if _names(call.header("if-none-match"), tag):
            return Answer(304, headers={"etag": tag})
        return Answer(200, body, content_type, {"etag": tag})

    return serve


def _names(header: str, tag: str) -> bool:
    """Whether a list of tags has this one; whoever stands between and packs bodies marks it as a weak one."""
    return tag in [named.strip().removeprefix("W/") for named in header.split(",")]
