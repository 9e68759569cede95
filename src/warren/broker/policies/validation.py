"""Validation of a policy: all its faults, worded as RabbitMQ words them.

Not here: the keys of a definition (`broker.policies.keys`), whether the virtual host exists
(`broker.commands.policies`).
"""

from typing import Final

from warren.broker.model.erlang_terms import json_term
from warren.broker.model.name_pattern import NamePattern
from warren.broker.policies.keys import definition_refusal, pattern_refusal
from warren.broker.policies.policies import ALL, EXCHANGES, QUEUES, Policy
from warren.errors import CommandRefused
from warren.wire.field_tables import Table

APPLY_TO: Final = (QUEUES, EXCHANGES, ALL)


def policy_of(
    vhost: str, name: str, pattern: object, apply_to: object, definition: object, priority: object, operator: bool
) -> Policy:
    """The policy with these values; a `CommandRefused` with all faults."""
    reasons = [
        _definition_refusal(definition, operator),
        _apply_to_refusal(apply_to),
        _pattern_refusal(pattern),
        _priority_refusal(priority),
    ]
    refuse([reason for reason in reasons if reason])
    assert isinstance(pattern, str)
    assert isinstance(apply_to, str)
    assert isinstance(definition, dict)
    assert isinstance(priority, int)
    return Policy(vhost, name, pattern, apply_to, definition, priority)


def check_policy(policy: Policy, operator: bool) -> None:
    """Raise `CommandRefused` if a policy from another source has faults."""
    policy_of(policy.vhost, policy.name, policy.pattern, policy.apply_to, policy.definition, policy.priority, operator)


def refuse(reasons: list[str]) -> None:
    """Raise `CommandRefused` with these reasons, if there are any."""
    if reasons:
        raise CommandRefused("bad_request", "Validation failed\n\n" + "\n".join(reasons) + "\n")


def _definition_refusal(definition: object, operator: bool) -> str:
    if not isinstance(definition, dict):
        return f"definition must be a dictionary: {json_term(definition)}"
    sorted_definition: Table = {key: definition[key] for key in sorted(definition)}
    return definition_refusal(sorted_definition, operator)


def _apply_to_refusal(apply_to: object) -> str:
    if isinstance(apply_to, str) and apply_to in APPLY_TO:
        return ""
    shown = apply_to if isinstance(apply_to, str) else json_term(apply_to)
    return f"apply-to '{shown}' unrecognised; should be 'queues', 'exchanges' or 'all'"


def _pattern_refusal(pattern: object) -> str:
    if not isinstance(pattern, str):
        return f"pattern should be a binary but was {json_term(pattern)}"
    return pattern_refusal(NamePattern(pattern), "pattern should be regular expression but is invalid")


def _priority_refusal(priority: object) -> str:
    if isinstance(priority, int) and not isinstance(priority, bool):
        return ""
    if isinstance(priority, float):
        return f"priority should be an integer, actually was {json_term(priority)}"
    return f"priority should be a number, actually was {json_term(priority)}"
