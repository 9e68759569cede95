"""The fault with which bytes are refused, if any.

Not here: the bytes (`wire_strategies`).
"""

from collections.abc import Callable

from warren.errors import ConnectionFault


def fault_of(read: Callable[[], object]) -> ConnectionFault | None:
    """The fault the reading ends in, or nothing if it succeeds; anything else it raises is not caught."""
    try:
        read()
    except ConnectionFault as fault:
        return fault
    return None
