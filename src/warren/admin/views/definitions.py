"""Everything that was declared, as one document that RabbitMQ can take over, and that can come from it.

Left out is what is there anyway (the exchanges every virtual host begins with) and what belongs to a connection
(exclusive queues). The document of one virtual host does not name it, so that it fits any other.

Not here: taking a document over.
"""

from typing import Any

from warren.admin.views import bindings
from warren.admin.views.access import permission_row, topic_permission_row, user_row
from warren.admin.views.amqp_values import plain
from warren.admin.views.policies import global_parameter_row, parameter_rows, policy_row
from warren.broker.broker import Broker
from warren.broker.vhost import Vhost
from warren.session.handshake import COMPATIBLE_VERSION


def whole(broker: Broker) -> dict[str, Any]:
    """The document of a node."""
    access, policies = broker.access, broker.policies
    vhosts = [broker.vhosts[name] for name in sorted(broker.vhosts)]
    return {
        "rabbit_version": COMPATIBLE_VERSION,
        "rabbitmq_version": COMPATIBLE_VERSION,
        "product_name": "RabbitMQ",
        "product_version": COMPATIBLE_VERSION,
        "users": [user_row(access.users[name]) for name in sorted(access.users)],
        "vhosts": [_vhost(vhost) for vhost in vhosts],
        "permissions": [permission_row(access.permissions[key]) for key in sorted(access.permissions)],
        "topic_permissions": [
            topic_permission_row(access.topic_permissions[key]) for key in sorted(access.topic_permissions)
        ],
        "parameters": list(parameter_rows(broker)),
        "global_parameters": [
            global_parameter_row(name, value) for name, value in sorted(policies.global_parameters.items())
        ],
        "policies": [policy_row(policies.policies[key]) for key in sorted(policies.policies)],
        "queues": [row for vhost in vhosts for row in _queues(vhost)],
        "exchanges": [row for vhost in vhosts for row in _exchanges(vhost)],
        "bindings": [row for vhost in vhosts for row in _bindings(vhost)],
    }


def of_vhost(broker: Broker, vhost: Vhost) -> dict[str, Any]:
    """The document of one virtual host."""
    policies = broker.policies.policies
    return {
        "rabbit_version": COMPATIBLE_VERSION,
        "parameters": [row for row in parameter_rows(broker) if row["vhost"] == vhost.name],
        "policies": [policy_row(policies[key]) for key in sorted(policies) if key[0] == vhost.name],
        "queues": [_nameless(row) for row in _queues(vhost)],
        "exchanges": [_nameless(row) for row in _exchanges(vhost)],
        "bindings": [_nameless(row) for row in _bindings(vhost)],
    }


def _nameless(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "vhost"}


def _vhost(vhost: Vhost) -> dict[str, Any]:
    """RabbitMQ exports the name alone, and imports the rest as well."""
    described = {"description": vhost.description, "tags": vhost.tags}
    return {"name": vhost.name} | {name: value for name, value in described.items() if value}


def _queues(vhost: Vhost) -> list[dict[str, Any]]:
    return [
        {
            "name": queue.name,
            "vhost": vhost.name,
            "durable": queue.durable,
            "auto_delete": queue.auto_delete,
            "arguments": plain(queue.arguments),
        }
        for queue in vhost.topology.queues.values()
        if not queue.exclusive
    ]


def _exchanges(vhost: Vhost) -> list[dict[str, Any]]:
    return [
        {
            "name": exchange.name,
            "vhost": vhost.name,
            "type": exchange.type,
            "durable": exchange.durable,
            "auto_delete": exchange.auto_delete,
            "internal": exchange.internal,
            "arguments": plain(exchange.arguments),
        }
        for exchange in vhost.topology.exchanges.values()
        if exchange.name and not exchange.name.startswith("amq.")
    ]


def _bindings(vhost: Vhost) -> list[dict[str, Any]]:
    topology = vhost.topology
    rows = []
    for exchange in topology.exchanges.values():
        for binding in exchange.outgoing:
            facts = bindings.of_binding(vhost.name, binding)
            queue = topology.queues.get(facts.destination) if facts.destination_type == "queue" else None
            if queue is None or not queue.exclusive:
                row = bindings.binding_row(facts)
                del row["properties_key"]
                rows.append(row)
    return rows
