"""How fast contents are carried, and how long the rest will take.

The rate is that of the last seconds, so that a shovel that stands still is seen to.

Not here: showing it (`cli.migrate.progress`).
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

OVER_S: Final = 10.0


@dataclass
class Pace:
    """What was done by when."""

    _points: deque[tuple[float, int]] = field(default_factory=deque)

    def reach(self, now_s: float, done: int) -> None:
        self._points.append((now_s, done))
        while len(self._points) > 2 and self._points[1][0] <= now_s - OVER_S:
            self._points.popleft()

    @property
    def rate(self) -> float:
        """Messages a second."""
        if len(self._points) < 2:
            return 0.0
        (since_s, before), (now_s, done) = self._points[0], self._points[-1]
        return max(0.0, (done - before) / (now_s - since_s)) if now_s > since_s else 0.0

    def left_s(self, remaining: int) -> float | None:
        """Seconds until the rest is done at this rate; None while nothing moves."""
        rate = self.rate
        return remaining / rate if rate > 0 else None


def in_words(seconds: float | None) -> str:
    """A time as an operator reads it."""
    if seconds is None:
        return "unknown time"
    whole = round(seconds)
    if whole < 90:
        return f"{whole} s"
    minutes = round(whole / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
