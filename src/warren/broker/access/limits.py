"""Limits on the connections, channels and queues of a user or a virtual host.

A limit of 0 allows none; a negative one allows any number, as if it were not set.

Not here: counting connections and channels (`broker.connections`) and queues (`broker.sessions.declares`).
"""

from typing import Final

from warren.broker.model.erlang_terms import json_term
from warren.errors import CommandRefused

MAX_CONNECTIONS: Final = "max-connections"
MAX_CHANNELS: Final = "max-channels"
MAX_QUEUES: Final = "max-queues"
OF_USERS: Final = (MAX_CONNECTIONS, MAX_CHANNELS)
OF_VHOSTS: Final = (MAX_CONNECTIONS, MAX_QUEUES)

UNLIMITED: Final = -1
LARGEST: Final = 2**63 - 1


def limit_of(limits: dict[str, int], name: str) -> int:
    """The limit, or `UNLIMITED`."""
    return max(limits.get(name, UNLIMITED), UNLIMITED)


def checked_user_limits(limits: dict[str, object]) -> dict[str, int]:
    """The limits, validated; else `CommandRefused`."""
    fault = _fault_in(limits, OF_USERS, "user-limits")
    if fault:
        raise CommandRefused("bad_request", fault)
    return _numbers_in(limits)


def checked_vhost_limits(limits: dict[str, object]) -> dict[str, int]:
    fault = _fault_in(limits, OF_VHOSTS, "limits")
    if fault:
        raise CommandRefused("bad_request", f"Validation failed\n\n{fault}\n")
    return _numbers_in(limits)


def limits_without(limits: dict[str, int], names: list[str] | None) -> dict[str, int]:
    """The limits without these names, or none (`names` is None)."""
    return {} if names is None else {name: limit for name, limit in limits.items() if name not in names}


def _fault_in(limits: dict[str, object], known: tuple[str, ...], where: str) -> str:
    for name in known:
        value = limits.get(name, 0)
        if isinstance(value, bool) or not isinstance(value, int):
            return f"{name} should be a number, actually was {json_term(value)}"
    strange: list[object] = [(name, value) for name, value in limits.items() if name not in known]
    return f"Unrecognised terms {json_term(strange)} in {where}" if strange else ""


def _numbers_in(limits: dict[str, object]) -> dict[str, int]:
    return {name: max(-LARGEST, min(value, LARGEST)) for name, value in limits.items() if isinstance(value, int)}
