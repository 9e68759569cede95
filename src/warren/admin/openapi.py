"""The description of the API, made from the paths there are: what is served is what is described.

The router has the paths, their methods and who answers; the first line of whoever answers is what an operation is said
to do. Bodies are a table of their own; a test holds that no path which takes one lacks its entry.

Not here: the paths (`admin.api`), the bodies (`openapi.bodies`).

What requests carry: for each path that takes a body, its fields.

Fields that are not named here are ignored by the API, as RabbitMQ does, so no schema forbids them.

Not here: what becomes of the fields (`admin.changes`), paths and parameters (`openapi.description`).
"""

import re
from typing import Any

from warren.admin.http.request import ApiRequest
from warren.admin.http.responses import ApiResponse, json_response
from warren.admin.http.router import METHODS, Endpoint, Handler, Router

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
WHOLE: Schema = {"type": "integer"}
FLAG: Schema = {"anyOf": [{"type": "boolean"}, {"enum": ["true", "false"]}]}
TABLE: Schema = {"type": "object", "additionalProperties": True}
NAMES: Schema = {"anyOf": [{"type": "string"}, {"type": "array", "items": TEXT}]}
ANYTHING: Schema = {}
PATTERN: Schema = {"type": "string", "description": "a regular expression; an empty one matches nothing"}


def an_object(required: dict[str, Schema] | None = None, **optional: Schema) -> Schema:
    """Fields that must be there, and fields that may be."""
    found: Schema = {"type": "object", "properties": {**(required or {}), **optional}}
    if required:
        found["required"] = list(required)
    return found


def one_of(*words: str) -> Schema:
    return {"type": "string", "enum": list(words)}


POLICY = an_object(
    {"pattern": PATTERN, "definition": TABLE}, priority=WHOLE, **{"apply-to": one_of("all", "queues", "exchanges")}
)
VALUE = an_object({"value": ANYTHING})
LIMIT = an_object({"value": WHOLE})
TRACE = an_object(
    {"format": one_of("json", "text"), "pattern": TEXT},
    max_payload_bytes={"type": "integer", "minimum": 0},
    tracer_connection_username=TEXT,
    tracer_connection_password=TEXT,
)
DEFINITIONS = an_object(
    users={"type": "array", "items": an_object({"name": TEXT, "tags": NAMES}, password_hash=TEXT, limits=TABLE)},
    vhosts={"type": "array", "items": an_object({"name": TEXT}, description=TEXT, tags=NAMES)},
    permissions={
        "type": "array",
        "items": an_object({"user": TEXT, "vhost": TEXT, "configure": PATTERN, "write": PATTERN, "read": PATTERN}),
    },
    topic_permissions={
        "type": "array",
        "items": an_object({"user": TEXT, "vhost": TEXT, "exchange": TEXT, "write": PATTERN, "read": PATTERN}),
    },
    parameters={
        "type": "array",
        "items": an_object({"vhost": TEXT, "component": TEXT, "name": TEXT, "value": ANYTHING}),
    },
    global_parameters={"type": "array", "items": an_object({"name": TEXT, "value": ANYTHING})},
    policies={
        "type": "array",
        "items": an_object({"vhost": TEXT, "name": TEXT, "pattern": PATTERN, "definition": TABLE}, priority=WHOLE),
    },
    exchanges={"type": "array", "items": an_object({"vhost": TEXT, "name": TEXT, "type": TEXT}, arguments=TABLE)},
    queues={"type": "array", "items": an_object({"vhost": TEXT, "name": TEXT}, durable=FLAG, arguments=TABLE)},
    bindings={
        "type": "array",
        "items": an_object(
            {
                "vhost": TEXT,
                "source": TEXT,
                "destination": TEXT,
                "destination_type": one_of("queue", "exchange"),
                "routing_key": TEXT,
            },
            arguments=TABLE,
        ),
    },
)

BODIES: dict[tuple[str, str], Schema] = {
    ("PUT", "/api/users/{user}"): an_object({"tags": NAMES}, password=TEXT, password_hash=TEXT, hashing_algorithm=TEXT),
    ("POST", "/api/users/bulk-delete"): an_object({"users": {"type": "array", "items": TEXT}}),
    ("PUT", "/api/user-limits/{user}/{name}"): LIMIT,
    ("PUT", "/api/permissions/{vhost}/{user}"): an_object({"configure": PATTERN, "write": PATTERN, "read": PATTERN}),
    ("PUT", "/api/topic-permissions/{vhost}/{user}"): an_object({"exchange": TEXT, "write": PATTERN, "read": PATTERN}),
    ("PUT", "/api/vhosts/{vhost}"): an_object(description=TEXT, tags=NAMES, tracing=FLAG),
    ("PUT", "/api/vhost-limits/{vhost}/{name}"): LIMIT,
    ("PUT", "/api/policies/{vhost}/{name}"): POLICY,
    ("PUT", "/api/operator-policies/{vhost}/{name}"): POLICY,
    ("PUT", "/api/parameters/{component}/{vhost}/{name}"): VALUE,
    ("PUT", "/api/global-parameters/{name}"): VALUE,
    ("PUT", "/api/cluster-name"): an_object({"name": TEXT}),
    ("PUT", "/api/queues/{vhost}/{name}"): an_object(durable=FLAG, auto_delete=FLAG, arguments=TABLE, node=TEXT),
    ("POST", "/api/queues/{vhost}/{name}/actions"): an_object({"action": one_of("sync", "cancel_sync")}),
    ("POST", "/api/queues/{vhost}/{name}/get"): an_object(
        {
            "count": WHOLE,
            "ackmode": one_of("ack_requeue_true", "ack_requeue_false", "reject_requeue_true", "reject_requeue_false"),
            "encoding": one_of("auto", "base64"),
        },
        truncate=WHOLE,
    ),
    ("POST", "/api/queues/{vhost}/{name}/move"): an_object({"destination": TEXT}, count=WHOLE),
    ("PUT", "/api/exchanges/{vhost}/{name}"): an_object(
        type=one_of("direct", "fanout", "topic", "headers", "x-consistent-hash"),
        durable=FLAG,
        auto_delete=FLAG,
        internal=FLAG,
        arguments=TABLE,
    ),
    ("POST", "/api/exchanges/{vhost}/{name}/publish"): an_object(
        {"routing_key": TEXT, "properties": TABLE, "payload": TEXT, "payload_encoding": one_of("string", "base64")}
    ),
    ("POST", "/api/bindings/{vhost}/e/{source}/{kind}/{destination}"): an_object(routing_key=TEXT, arguments=TABLE),
    ("POST", "/api/definitions"): DEFINITIONS,
    ("POST", "/api/all-configuration"): DEFINITIONS,
    ("POST", "/api/definitions/{vhost}"): DEFINITIONS,
    ("PUT", "/api/traces/{vhost}/{name}"): TRACE,
    ("PUT", "/api/traces/node/{node}/{vhost}/{name}"): TRACE,
    ("PUT", "/api/warren/settings/{key}"): an_object({"value": {"type": ["string", "number"]}}),
    ("PUT", "/api/warren/log-levels"): an_object({"categories": TABLE}),
    ("PUT", "/api/warren/log-levels/{category}"): an_object({"level": TEXT}),
    ("POST", "/api/warren/membership/forget_cluster_node"): an_object({"node": TEXT}, offline=FLAG),
}

WITHOUT_BODY = {
    ("PUT", "/api/feature-flags/{name}/enable"),
    ("POST", "/api/rebalance/queues"),
    ("POST", "/api/vhosts/{vhost}/start/{node}"),
    ("POST", "/api/nodes/{node}/stop"),
    ("PUT", "/api/nodes/{node}/draining"),
    ("POST", "/api/warren/membership/stop_app"),
    ("POST", "/api/warren/membership/start_app"),
    # a form, of a browser
    ("POST", "/api/login"),
}
"""Requests that need none, though their method could have one."""


VERSION = "3.1.0"
PATH = "/api/openapi.json"
_NAME = re.compile(r"\{(\w+)\}")

_SUCCESSES = {"GET": [200], "PUT": [201, 204], "POST": [200, 201, 204], "DELETE": [204]}
_OTHER_SUCCESSES = {"/api": [301], "/api/definitions": [204, 303], "/api/definitions/{vhost}": [204, 303]}
_MAY_FAIL = ("/api/health", "/api/aliveness-test", "/api/warren/fitness")
"""Checks answer 503 when they find something."""

_MEANINGS = {
    200: "what was asked for",
    201: "made",
    204: "done",
    301: "it is elsewhere",
    303: "done; a form goes on there",
    400: "the request makes no sense, or not here",
    401: "who asks is not known, or may not",
    403: "a page of another site may not change anything",
    404: "there is no such thing",
    405: "not by this method; the header allow names those there are",
    413: "the body is too large",
    503: "a check found something; or the nodes of the cluster did not agree on a change in time",
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
    """Whoever answers with the description of all that the router has."""

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
    body = BODIES.get((method, template))
    if body is not None:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
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
