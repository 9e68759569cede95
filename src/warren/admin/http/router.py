"""From the path of a request to the resource that answers for it.

The path is taken apart as it came, and its segments are decoded one by one, so that a name may hold whatever it
likes: `%2F` is a slash inside a name, `.` and `..` are names like any other, and bytes that are not UTF-8 become lone
surrogates, as everywhere in the node. One slash at the end counts for nothing.

A template is a path with names in braces, `/api/queues/{vhost}/{name}`. Where a literal segment and a name both fit,
the literal goes first.

Not here: who may use a resource (`http.levels`), what it does (`admin.resources`).

What a resource demands of whoever asks: each level answers with the reason for a refusal, or nothing.

A virtual host that does not exist is nobody's secret: the resource answers 404.

Not here: the tags (`http.visitor`), permissions on single queues and exchanges, which the broker checks.
"""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

from warren.admin.http.request import ApiRequest
from warren.admin.http.schemas import Schema

if TYPE_CHECKING:
    from warren.admin.http.responses import ApiResponse


Handler = Callable[["ApiRequest"], Awaitable["ApiResponse"]]

_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")

METHODS = ("GET", "PUT", "POST", "DELETE")
"""In the order in which they are told to whoever asks."""


@dataclass(frozen=True)
class Endpoint:
    """One method of a resource: who may come in, and who answers. `level` of None: everybody."""

    level: "AccessLevel | None"
    handler: Handler
    # the schema of the request's body, if the method takes one
    body: Schema | None = None


class Resource:
    """The methods of one path. `body` is the schema of what a PUT or POST carries."""

    def __init__(self, level: "AccessLevel | None", handlers: dict[str, Handler], body: Schema | None = None) -> None:
        self.endpoints: dict[str, Endpoint] = {}
        self.also(level, handlers, body)

    def also(self, level: "AccessLevel | None", handlers: dict[str, Handler], body: Schema | None = None) -> "Resource":
        """Add methods that demand another level."""
        for method, handler in handlers.items():
            assert method not in self.endpoints
            self.endpoints[method] = Endpoint(level, handler, body if method in ("PUT", "POST") else None)
        return self

    def allowed(self) -> str:
        """The methods, as the header `allow` has them."""
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
    """All the paths there are."""

    def __init__(self) -> None:
        self._root = _Node()
        # by template, for whoever describes the API
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
        """The resource of a path, and what the names in its template stand for."""
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
    """The decoded segments of a path as it stood in the request; None if a percent sign escapes nothing."""
    if _BAD_ESCAPE.search(raw_path):
        return None
    parts = raw_path.removeprefix(b"/").removesuffix(b"/").split(b"/")
    return [unquote_to_bytes(part).decode("utf-8", "surrogateescape") for part in parts]


AccessLevel = Callable[[ApiRequest], str]

_NO_VHOST = "User not authorised to access virtual host"
_NO_OBJECT = "User not authorised to access object"


def manager(call: ApiRequest) -> str:
    """Any of the tags that open the API."""
    return ""


def monitor(call: ApiRequest) -> str:
    return "" if call.api_user.is_monitor else "Not monitor user"


def administrator(call: ApiRequest) -> str:
    return "" if call.api_user.is_administrator else "Not administrator user"


def in_vhost(call: ApiRequest) -> str:
    """An administrator, or somebody with permissions in the virtual host of the path, if it names one."""
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
    """For what belongs to no virtual host."""
    return "" if call.api_user.is_policymaker else _NO_OBJECT


def _enters_vhost(call: ApiRequest) -> bool:
    name = call.params.get("vhost")
    return name is None or name in call.api_user.vhosts or name not in call.context.broker.vhosts
