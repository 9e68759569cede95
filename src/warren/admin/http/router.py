"""From the path of a request to its resource, and the access levels of resources.

The raw path is split first and its segments are decoded one by one, so a name may contain any character: `%2F` is a
slash inside a name, `.` and `..` are ordinary names, and bytes that are not UTF-8 become lone surrogates. A trailing
slash is ignored.

A template is a path with names in braces, `/api/queues/{vhost}/{name}`. A literal segment wins over a name.

An access level is a function that returns the reason for a refusal, or an empty text. A virtual host that does not
exist is not refused: the handler responds with 404.

Not here: tags of users (`http.authentication`), permissions on single queues and exchanges (`broker.access`).
"""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

from warren.admin.http.request import ApiRequest
from warren.admin.http.schemas import Schema
from warren.admin.http.settings import DOCUMENT_BYTES_MAX, LOGIN_BYTES_MAX

if TYPE_CHECKING:
    from warren.admin.http.responses import ApiResponse


Handler = Callable[["ApiRequest"], Awaitable["ApiResponse"]]

_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")

METHODS = ("GET", "PUT", "POST", "DELETE")
"""In the order of the header `allow`."""


@dataclass(frozen=True)
class Endpoint:
    """One method of a resource. A `level` of None needs no login."""

    level: "AccessLevel | None"
    handler: Handler
    # the schema of the request's body, if the method takes one
    body: Schema | None = None
    # whether the body may be as large as the configuration allows
    large: bool = False

    def body_bytes_max(self, configured_bytes_max: int) -> int:
        if self.large:
            return configured_bytes_max
        return min(configured_bytes_max, LOGIN_BYTES_MAX if self.level is None else DOCUMENT_BYTES_MAX)


class Resource:
    """The methods of one path. `body` is the schema of the body of a PUT or POST, which is small unless `large`."""

    def __init__(
        self,
        level: "AccessLevel | None",
        handlers: dict[str, Handler],
        body: Schema | None = None,
        large: bool = False,
    ) -> None:
        assert not large or level is not None, "an endpoint without a login takes no large body"
        self.endpoints: dict[str, Endpoint] = {}
        self._add(level, handlers, body, large)

    def also(self, level: "AccessLevel | None", handlers: dict[str, Handler], body: Schema | None = None) -> "Resource":
        """Add methods that require another access level."""
        self._add(level, handlers, body, False)
        return self

    def _add(self, level: "AccessLevel | None", handlers: dict[str, Handler], body: Schema | None, large: bool) -> None:
        for method, handler in handlers.items():
            assert method not in self.endpoints
            takes_body = method in ("PUT", "POST")
            self.endpoints[method] = Endpoint(level, handler, body if takes_body else None, large and takes_body)

    def allowed(self) -> str:
        """The value of the header `allow`."""
        known = self.methods()
        return ", ".join([*(["HEAD"] if "GET" in known else []), *known, "OPTIONS"])

    def methods(self) -> list[str]:
        return [method for method in METHODS if method in self.endpoints]

    def endpoint(self, method: str) -> Endpoint | None:
        return self.endpoints.get("GET" if method == "HEAD" else method)


Routes = dict[str, Resource]
"""Resources by the template of their path."""


@dataclass
class _Node:
    literals: "dict[str, _Node]" = field(default_factory=dict)
    name: str = ""
    named: "_Node | None" = None
    resource: Resource | None = None


class Router:
    """All paths."""

    def __init__(self) -> None:
        self._root = _Node()
        # by template, for the OpenAPI description
        self.resources: dict[str, Resource] = {}

    def add(self, template: str, resource: Resource) -> None:
        node = self._root
        for part in template.strip("/").split("/"):
            if part.startswith("{"):
                name = part.strip("{}")
                if node.named is None:
                    node.name, node.named = name, _Node()
                assert node.name == name, f"{template} calls {node.name} {name}"
                node = node.named
            else:
                node = node.literals.setdefault(part, _Node())
        assert node.resource is None, f"{template} is there already"
        node.resource = self.resources[template] = resource

    def find(self, segments: list[str]) -> tuple[Resource, dict[str, str]] | None:
        """The resource of a path and the values of the names in its template."""
        return _find(self._root, segments, 0)


def _find(node: _Node, segments: list[str], at: int) -> tuple[Resource, dict[str, str]] | None:
    if at == len(segments):
        return None if node.resource is None else (node.resource, {})
    literal = node.literals.get(segments[at])
    if literal is not None:
        found = _find(literal, segments, at + 1)
        if found is not None:
            return found
    if node.named is None:
        return None
    found = _find(node.named, segments, at + 1)
    if found is not None:
        found[1][node.name] = segments[at]
    return found


def segments_of(raw_path: bytes) -> list[str] | None:
    """The decoded segments of a raw path; None if a percent sign is not an escape."""
    if _BAD_ESCAPE.search(raw_path):
        return None
    parts = raw_path.removeprefix(b"/").removesuffix(b"/").split(b"/")
    return [unquote_to_bytes(part).decode("utf-8", "surrogateescape") for part in parts]


AccessLevel = Callable[[ApiRequest], str]

_NO_VHOST = "User not authorised to access virtual host"
_NO_OBJECT = "User not authorised to access object"


def manager(call: ApiRequest) -> str:
    """Any user with a tag that allows use of the API."""
    return ""


def monitor(call: ApiRequest) -> str:
    return "" if call.api_user.is_monitor else "Not monitor user"


def administrator(call: ApiRequest) -> str:
    return "" if call.api_user.is_administrator else "Not administrator user"


def in_vhost(call: ApiRequest) -> str:
    """An administrator, or a user with permissions in the virtual host of the path, if there is one."""
    return "" if call.api_user.is_administrator or _enters_vhost(call) else _NO_VHOST


def in_vhost_or_monitor(call: ApiRequest) -> str:
    return "" if call.api_user.is_monitor or _enters_vhost(call) else _NO_VHOST


def policymaker(call: ApiRequest) -> str:
    """A policymaker in the virtual host of the path, or an administrator."""
    api_user = call.api_user
    if api_user.is_administrator or (api_user.is_policymaker and _enters_vhost(call)):
        return ""
    return _NO_OBJECT


def any_policymaker(call: ApiRequest) -> str:
    """For objects outside any virtual host."""
    return "" if call.api_user.is_policymaker else _NO_OBJECT


def _enters_vhost(call: ApiRequest) -> bool:
    name = call.params.get("vhost")
    return name is None or name in call.api_user.vhosts or name not in call.context.broker.vhosts
