"""How far contents have come: a bar with rate and estimate on a terminal, a plain line every few seconds elsewhere.

Both are on standard error. A word in between stands on a line of its own.

Not here: the rate itself (`migrating.pace`).
"""

import sys
import time
from typing import Self, final

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from warren.migrating.pace import Pace, in_words

LINE_EVERY_S = 5.0


@final
class CarryingProgress:
    """Of all queues together."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._terminal = sys.stderr.isatty()
        self._bar = Progress(
            TextColumn("contents"),
            BarColumn(),
            TextColumn("{task.description}"),
            console=self._console,
            transient=True,
            disable=not self._terminal,
        )
        self._task = self._bar.add_task("", total=None)
        self._pace = Pace()
        self._line_at = time.monotonic()

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def reach(self, done: int, remaining: int, queues_left: int) -> None:
        now_s = time.monotonic()
        self._pace.reach(now_s, done)
        total = done + remaining
        words = (
            f"{done} of {total}, {self._pace.rate:.0f} a second, {in_words(self._pace.left_s(remaining))} left, "
            f"{queues_left} queues to go"
        )
        self._bar.update(self._task, completed=done, total=total or None, description=words)
        if not self._terminal and now_s - self._line_at >= LINE_EVERY_S:
            self._line_at = now_s
            self.tell(f"contents: {words}")

    def tell(self, sentence: str) -> None:
        self._console.print(sentence, markup=False)
