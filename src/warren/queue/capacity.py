"""How much of the time a queue's consumers could have taken more: RabbitMQ's consumer capacity.

After every round of handing out it is known whether something is left that no consumer could take. The times in
between are averaged, the more recent ones with more weight, so that a change shows after a second or two. It costs a
comparison a round; times are those of turns, in milliseconds.

Not here: handing out (`queue.handing`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.model.turn import Turn

MEMORY_MS: Final = 1000.0


@final
class Capacity:
    """The share of time, between 0 and 1, in which whatever came could go out at once."""

    def __init__(self, turn: Turn) -> None:
        # something is ready that no consumer can take
        self.behind: bool = False
        self._turn: Turn = turn
        self._since_ms: i64 = turn.now_ms
        self._share: float = 1.0

    def turned(self, behind: bool) -> None:
        """From here on it is the other way round."""
        self._share = self.share()
        self._since_ms = self._turn.now_ms
        self.behind = behind

    def share(self) -> float:
        passed_ms = float(int(self._turn.now_ms - self._since_ms))
        weight = MEMORY_MS / (MEMORY_MS + passed_ms)
        return self._share * weight + (0.0 if self.behind else 1.0 - weight)
