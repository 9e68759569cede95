"""Policies and parameters as rows.

To RabbitMQ operator policies and the limits of virtual hosts are parameters, too, and are listed among them.

Not here: what they do (`policy`).
"""

from collections.abc import Iterator
from typing import Any

from warren.admin.views.amqp_values import plain
from warren.broker.broker import Broker
from warren.policy.policy import Policy

OPERATOR_POLICY = "operator_policy"
VHOST_LIMITS = "vhost-limits"


def policy_row(policy: Policy) -> dict[str, Any]:
    return {
        "vhost": policy.vhost,
        "name": policy.name,
        "pattern": policy.pattern,
        "apply-to": policy.apply_to,
        "definition": plain(policy.definition),
        "priority": policy.priority,
    }


def parameter_rows(broker: Broker) -> Iterator[dict[str, Any]]:
    """All that RabbitMQ calls a parameter of a component."""
    for policy in broker.policies.operator_policies.values():
        row = policy_row(policy)
        value = {name: row[name] for name in ("pattern", "definition", "priority", "apply-to")}
        yield _parameter_row(policy.vhost, OPERATOR_POLICY, policy.name, value)
    for vhost in broker.vhosts.values():
        if vhost.limits:
            yield _parameter_row(vhost.name, VHOST_LIMITS, "limits", dict(vhost.limits))
    for parameter in broker.policies.parameters.values():
        yield _parameter_row(parameter.vhost, parameter.component, parameter.name, parameter.value)


def _parameter_row(vhost: str, component: str, name: str, value: object) -> dict[str, Any]:
    return {"value": value, "vhost": vhost, "component": component, "name": name}


def global_parameter_row(name: str, value: object) -> dict[str, Any]:
    return {"name": name, "value": value}
