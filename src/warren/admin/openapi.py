"""The OpenAPI description of the HTTP API, made from the router, so that it describes the paths that are served.

The first line of a handler's docstring is the summary of its operation.

Not here: the paths and the schemas of their bodies (`admin.resources`).
"""

import re
from typing import Any

from warren.admin.http.request import ApiRequest
from warren.admin.http.responses import ApiResponse, json_response
from warren.admin.http.router import METHODS, Endpoint, Handler, Router

VERSION = "3.1.0"
PATH = "/api/openapi.json"
_NAME = re.compile(r"\{(\w+)\}")

_SUCCESSES = {"GET": [200], "PUT": [201, 204], "POST": [200, 201, 204], "DELETE": [204]}
_OTHER_SUCCESSES = {"/api": [301], "/api/definitions": [204, 303], "/api/definitions/{vhost}": [204, 303]}
_MAY_FAIL = ("/api/health", "/api/aliveness-test", "/api/warren/fitness")
"""Health checks respond with 503 if they fail."""

_MEANINGS = {
    200: "the requested object or list",
    201: "created",
    204: "done",
    301: "redirect",
    303: "done; redirect of a form",
    400: "the request is invalid",
    401: "the login failed, or the user is not authorised",
    403: "pages of other sites may not change anything",
    404: "not found",
    405: "the method is not allowed; the header allow names those that are",
    413: "the body is too large",
    503: "a check failed, or the nodes of the cluster did not agree on a change in time",
}

_LISTING = {
    "page": {"type": "integer", "minimum": 1},
    "page_size": {"type": "integer", "minimum": 1, "maximum": 500},
    "name": {"type": "string"},
    "use_regex": {"enum": ["true", "false"]},
    "sort": {"type": "string"},
    "sort_reverse": {"enum": ["true", "false"]},
    "columns": {"type": "string"},
}
_PAGED = ("/api/queues", "/api/exchanges", "/api/connections", "/api/channels", "/api/vhosts")
_SPANS = ("lengths", "msg_rates", "data_rates", "node_stats")
_CONDITIONS = {"if-unused": {"enum": ["true"]}, "if-empty": {"enum": ["true"]}}


def described(router: Router) -> Handler:
    """The handler that serves the description."""

    async def describe(call: ApiRequest) -> ApiResponse:
        """This description."""
        return json_response(description(router))

    return describe


def description(router: Router) -> dict[str, Any]:
    """The document."""
    paths = {
        template: _path_item(template, resource.endpoints)
        for template, resource in sorted(router.resources.items())
        if template.startswith("/api")
    }
    return {
        "openapi": VERSION,
        "info": {"title": "Warren", "version": "1", "description": "RabbitMQ's management API, and what Warren adds."},
        "paths": paths,
        "security": [{"basic": []}],
        "components": {
            "securitySchemes": {"basic": {"type": "http", "scheme": "basic"}},
            "schemas": {"fault": _FAULT},
        },
    }


_FAULT = {
    "type": "object",
    "required": ["error", "reason"],
    "properties": {"error": {"type": "string"}, "reason": {"type": ["string", "array"]}},
}


def _path_item(template: str, endpoints: dict[str, Endpoint]) -> dict[str, Any]:
    item: dict[str, Any] = {
        method.lower(): _operation(method, template, endpoints[method]) for method in METHODS if method in endpoints
    }
    names = _NAME.findall(template)
    if names:
        item["parameters"] = [_parameter("path", name, {"type": "string", "minLength": 1}) for name in names]
    return item


def _operation(method: str, template: str, endpoint: Endpoint) -> dict[str, Any]:
    words = _NAME.sub(r"\1", template.removeprefix("/api")).strip("/").replace("/", " ") or "root"
    said = (endpoint.handler.__doc__ or f"{method} {words}").strip().splitlines()[0]
    operation: dict[str, Any] = {
        "operationId": f"{method.lower()} {words}".replace(" ", "_"),
        "summary": said,
        "tags": [words.split(" ")[0]],
        "parameters": [_parameter("query", name, schema) for name, schema in _queries(method, template).items()],
        "responses": {str(status): _response(status) for status in _statuses(method, template)},
    }
    if endpoint.level is None:
        operation["security"] = []
    if endpoint.body is not None:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": endpoint.body}}}
    return operation


def _queries(method: str, template: str) -> dict[str, Any]:
    if method == "DELETE":
        return _CONDITIONS if template in ("/api/queues/{vhost}/{name}", "/api/exchanges/{vhost}/{name}") else {}
    if method != "GET":
        return {}
    spans = {f"{span}_{part}": {"type": "integer", "minimum": 1} for span in _SPANS for part in ("age", "incr")}
    if template in _PAGED or template in (f"{path}/{{vhost}}" for path in _PAGED[:2]):
        return {**_LISTING, **spans, "disable_stats": {"enum": ["true", "false"]}}
    if template in ("/api/overview", "/api/nodes", "/api/nodes/{node}", "/api/queues/{vhost}/{name}"):
        return {"columns": _LISTING["columns"], **spans}
    return {name: _LISTING[name] for name in ("sort", "sort_reverse", "columns")}


def _statuses(method: str, template: str) -> list[int]:
    good = _OTHER_SUCCESSES.get(template, _SUCCESSES[method]) if method != "GET" or template == "/api" else [200]
    found = [*good, 400, 401, 404, 405]
    if method != "GET":
        found += [403]
    if method in ("PUT", "POST"):
        found += [413]
    if method != "GET" or template.startswith(_MAY_FAIL):
        found += [503]
    return sorted(found)


def _response(status: int) -> dict[str, Any]:
    response: dict[str, Any] = {"description": _MEANINGS[status]}
    if status == 200:
        response["content"] = {"application/json": {"schema": {}}}
    elif status >= 400 and status not in (405, 503):
        response["content"] = {"application/json": {"schema": {"$ref": "#/components/schemas/fault"}}}
    return response


def _parameter(place: str, name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": place, "required": place == "path", "schema": schema}
