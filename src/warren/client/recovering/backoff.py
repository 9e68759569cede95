"""How long to wait before something is tried again: longer each time, and never as long as others wait.

After an outage every client of a broker comes back. Delays double up to a limit, and each is cut at random to between
half and all of it, so that clients who lost their connections together do not return together.

A success is one if it lasted longer than the delay before it; else the delays go on where they were, and a broker that
lets everyone in and then falls over is not asked without a pause.

Not here: what is tried.
"""

import random
from collections.abc import Callable
from typing import Final

FIRST_S: Final = 0.1
MOST_S: Final = 5.0


class Backoff:
    """The delays of one thing that is tried again and again; `chance` is a number from 0 up to 1."""

    def __init__(
        self, first_s: float = FIRST_S, most_s: float = MOST_S, chance: Callable[[], float] = random.random
    ) -> None:
        self._first_s = first_s
        self._most_s = most_s
        self._chance = chance
        self._last_s = 0.0

    def next_s(self) -> float:
        """The delay before the next try."""
        self._last_s = min(max(self._first_s, 2 * self._last_s), self._most_s)
        return self._last_s * (0.5 + 0.5 * self._chance())

    def succeeded(self, lasted_s: float) -> None:
        if lasted_s > self._last_s:
            self._last_s = 0.0
