"""The output of a run: a line for each step with the time since the start, and the table at the end.

Not here: the output of the commands it runs.
"""

import time


class Narrator:
    """Prints one step a line; may be called by several threads."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def say(self, sentence: str) -> None:
        print(f"[{time.monotonic() - self._began:6.1f} s] {sentence}", flush=True)

    def table(self, rows: list[tuple[str, str]]) -> None:
        width = max(len(name) for name, _ in rows)
        lines = [f"{name:<{width}}  {value}" for name, value in rows]
        print("", *lines, "", sep="\n", flush=True)
