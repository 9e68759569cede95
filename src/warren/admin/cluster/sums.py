"""What several nodes counted of one thing, as one: figures add up, and so do their rates and samples.

`X_details` has a rate, and perhaps averages and samples. Nodes take samples at the same moments, those of the clock,
but one may be a step ahead of another: samples are added by their moments, and where a node has none, it had what it
had before.

Not here: the figures of one node (`admin.history`).
"""

from typing import Any

Stats = dict[str, Any]


def sum_of(parts: list[Any]) -> Any:
    """Of what several nodes say under one name; the parts are left as they are."""
    total: Any = {}
    for part in parts:
        total = added(total, part)
    return total


def added(one: Any, other: Any) -> Any:
    """Both together: numbers are added, what is in objects is, and what only one has is as it has it."""
    if not other:
        return one or other
    if not one:
        return other
    if isinstance(one, dict) and isinstance(other, dict):
        return {**one, **{name: _added_at(name, one, value) for name, value in other.items()}}
    if _is_number(one) and _is_number(other):
        return one + other
    return one


def _added_at(name: str, one: Stats, value: Any) -> Any:
    if name not in one:
        return value
    if name == "samples":
        return _added_samples(one[name], value)
    return added(one[name], value)


def _added_samples(one: list[Stats], other: list[Stats]) -> list[Stats]:
    """Newest first, at the moments of the first."""
    found = []
    at = 0
    for sample in one:
        while at < len(other) - 1 and other[at]["timestamp"] > sample["timestamp"]:
            at += 1
        more = other[at]["sample"] if other else 0
        found.append({"sample": sample["sample"] + more, "timestamp": sample["timestamp"]})
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
