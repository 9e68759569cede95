"""What a policy and an operator policy say together.

Each may say what the other does not. Where both speak, the lower number counts: an operator policy limits, it never
allows more. All its keys are numbers.

Not here: which policies those are (`policy.policies`), how a queue's own arguments join in (`queue.settings`).
"""

from warren.policy.policy import Policy
from warren.wire.values import Table


def merged(policy: Policy | None, operator_policy: Policy | None) -> Table:
    """The definition in force, in the order of its keys."""
    if operator_policy is None:
        return {} if policy is None else policy.definition
    if policy is None:
        return operator_policy.definition
    limits = operator_policy.definition
    both: Table = {**policy.definition, **limits}
    for key in limits:
        if key in policy.definition:
            both[key] = _lower(policy.definition[key], limits[key])
    return {key: both[key] for key in sorted(both)}


def _lower(one: object, limit: object) -> object:
    return one if isinstance(one, int) and isinstance(limit, int) and one < limit else limit
