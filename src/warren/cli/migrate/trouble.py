"""Why a move cannot go on: a sentence for the operator.

Not here: options that make no sense, which are a `ConfigError`.
"""

from warren.errors import WarrenError


class MoveFailed(WarrenError):
    """One of the brokers refused something, or what is there does not allow the move."""


class Away(MoveFailed):
    """One of the brokers does not answer; it may, later."""
