"""Exports of RabbitMQ 3.10.8: one with definitions of every kind, and one of a new Warren."""

from typing import Any

GUEST = {
    "name": "guest",
    "password_hash": "KKfJe3WXVHKM/HQpryYD01/JTS6cwfkxH/tMRtHvYN2ZTIiw",
    "hashing_algorithm": "rabbit_password_hashing_sha256",
    "tags": ["administrator"],
    "limits": {},
}
ANNA = {
    "name": "anna",
    "password_hash": "Lqi8wtS4LXdGN8GjNDY3ymJQ6lpq8mo1OYSb2UI6R7YtJnz4",
    "hashing_algorithm": "rabbit_password_hashing_sha256",
    "tags": ["management"],
    "limits": {"max-channels": 10},
}


def permission(user: str, vhost: str) -> dict[str, Any]:
    return {"user": user, "vhost": vhost, "configure": ".*", "write": ".*", "read": ".*"}


def queue(name: str, vhost: str = "shop", durable: bool = True, **arguments: Any) -> dict[str, Any]:
    given = {word.replace("_", "-"): value for word, value in arguments.items()}
    return {"name": name, "vhost": vhost, "durable": durable, "auto_delete": False, "arguments": given}


def exchange(name: str, type: str, vhost: str = "shop") -> dict[str, Any]:
    facts = {"durable": True, "auto_delete": False, "internal": False, "arguments": {}}
    return {"name": name, "vhost": vhost, "type": type, **facts}


def binding(source: str, destination: str, routing_key: str = "", kind: str = "queue") -> dict[str, Any]:
    ends = {"source": source, "vhost": "shop", "destination": destination, "destination_type": kind}
    return {**ends, "routing_key": routing_key, "arguments": {}}


def parameter(component: str, name: str, value: dict[str, Any]) -> dict[str, Any]:
    return {"value": value, "vhost": "shop", "component": component, "name": name}


def policy(name: str, definition: dict[str, Any], pattern: str = "^ha") -> dict[str, Any]:
    facts = {"pattern": pattern, "apply-to": "queues", "definition": definition, "priority": 0}
    return {"vhost": "shop", "name": name, **facts}


def rabbitmq_export() -> dict[str, Any]:
    limit = {"pattern": ".*", "definition": {"max-length": 1000000}, "priority": 0, "apply-to": "queues"}
    return {
        "rabbit_version": "3.10.8",
        "users": [GUEST, ANNA],
        "vhosts": [{"name": "shop"}, {"name": "/"}],
        "permissions": [permission("guest", "/"), permission("anna", "shop"), permission("guest", "shop")],
        "topic_permissions": [
            {"user": "anna", "vhost": "shop", "exchange": "amq.topic", "write": "a", "read": "b"},
        ],
        "parameters": [
            parameter("operator_policy", "op", limit),
            parameter("shovel", "sh", {"src-uri": "amqp://", "src-queue": "a", "dest-uri": "amqp://x"}),
            parameter("vhost-limits", "limits", {"max-connections": 50}),
            parameter("federation-upstream", "up", {"uri": "amqp://nowhere.invalid"}),
        ],
        "global_parameters": [{"name": "internal_cluster_id", "value": "rabbitmq-cluster-id-Rm7kxXPZxOtRoTRZAicZPw"}],
        "policies": [policy("mirrored", {"ha-mode": "all", "ha-sync-mode": "automatic"})],
        "queues": [queue("plain"), queue("ha.one", x_max_priority=5), queue("transient", durable=False)],
        "exchanges": [exchange("rnd", "x-random"), exchange("ch", "x-consistent-hash")],
        "bindings": [binding("ch", "plain", "3"), binding("rnd", "plain"), binding("amq.topic", "ha.one", "#")],
    }


def fresh_warren() -> dict[str, Any]:
    return {
        "users": [{**GUEST, "password_hash": "DggB", "hashing_algorithm": "warren_password_hashing_scrypt"}],
        "vhosts": [{"name": "/"}],
        "permissions": [permission("guest", "/")],
        "global_parameters": [{"name": "internal_cluster_id", "value": "warren-1"}],
    }
