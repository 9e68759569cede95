"""The demo's own output: a line for each step, with the time since the start.

Not here: the output of the commands it runs.
"""

import time


class Narrator:
    """Prints one step a line."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def say(self, sentence: str) -> None:
        print(f"[{time.monotonic() - self._began:6.1f} s] {sentence}", flush=True)

    def add(self, sentence: str) -> None:
        """Print a detail of the last step."""
        print(f"{'':11}{sentence}", flush=True)
