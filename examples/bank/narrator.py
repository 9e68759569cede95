"""The lines of a run: what it does, and when, counted from its start; and the table at its end.

Not here: what the commands it runs print.
"""

import time


class Narrator:
    """Says one thing a line; may be called by several threads."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def say(self, sentence: str) -> None:
        print(f"[{time.monotonic() - self._began:6.1f} s] {sentence}", flush=True)

    def table(self, rows: list[tuple[str, str]]) -> None:
        width = max(len(name) for name, _ in rows)
        lines = [f"{name:<{width}}  {value}" for name, value in rows]
        print("", *lines, "", sep="\n", flush=True)
