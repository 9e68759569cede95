"""What requests carry: for each path that takes a body, its fields.

Fields that are not named here are ignored by the API, as RabbitMQ does, so no schema forbids them.

Not here: what becomes of the fields (`admin.changes`), paths and parameters (`openapi.description`).
"""

from typing import Any

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
