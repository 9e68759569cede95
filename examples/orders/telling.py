"""The demo's own lines: what it does, and when, counted from its start.

Not here: what the commands it runs print.
"""

import time


class Teller:
    """Says one thing a line."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def say(self, sentence: str) -> None:
        print(f"[{time.monotonic() - self._began:6.1f} s] {sentence}", flush=True)

    def add(self, sentence: str) -> None:
        """More about the last thing said."""
        print(f"{'':11}{sentence}", flush=True)
