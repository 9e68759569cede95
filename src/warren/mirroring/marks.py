"""How much of what each origin sent is held: an origin is one run of a node, which counts its publishes to a queue.

Of a node only its latest run matters: an earlier one sends nothing any more, and asks nothing.

Not here: who asks (`broker.mirrors`).
"""

from typing import final

from mypy_extensions import i64

from warren.mirroring.steps import ORIGIN, STORE, Step, StepReader


@final
class Marks:
    """The highest count of each origin."""

    def __init__(self, runs: dict[str, tuple[int, int]] | None = None, complete: bool = True) -> None:
        # by node: its incarnation, and how far its count was heard
        self.runs: dict[str, tuple[int, int]] = {} if runs is None else runs
        # nothing was ever forgotten: of an origin that is not here nothing is held
        self.complete: bool = complete

    def of(self, name: str, incarnation: int) -> int:
        """How much of it is here."""
        run = self.runs.get(name)
        return run[1] if run is not None and run[0] == incarnation else 0

    def knows(self, name: str, incarnation: int) -> bool:
        """Whether it can be told how much of it is here."""
        run = self.runs.get(name)
        return self.complete or (run is not None and run[0] == incarnation)

    def heard(self, name: str, incarnation: int, count: i64) -> None:
        run = self.runs.get(name)
        if run is None or run[0] < incarnation or (run[0] == incarnation and run[1] < count):
            self.runs[name] = (incarnation, int(count))

    def without(self, steps: list[Step]) -> "Marks":
        """As they were before these steps, which are the last that were read."""
        before = self.copy()
        for step in steps:
            reader = StepReader(step.data)
            name, incarnation = "", 0
            while reader.next():
                if reader.kind == ORIGIN:
                    name, incarnation = reader.name(), int(reader.word(0))
                elif reader.kind == STORE and 0 < reader.word(2) <= before.of(name, incarnation):
                    before.runs[name] = (incarnation, int(reader.word(2)) - 1)
        return before

    def copy(self) -> "Marks":
        return Marks(dict(self.runs), self.complete)

    def read(self, step: Step) -> None:
        """Everything that a step stored was heard of."""
        reader = StepReader(step.data)
        name, incarnation = "", 0
        count: i64 = 0
        while reader.next():
            if reader.kind == STORE:
                count = max(count, reader.word(2))
            elif reader.kind == ORIGIN:
                if count:
                    self.heard(name, incarnation, count)
                    count = 0
                name, incarnation = reader.name(), int(reader.word(0))
        if count:
            self.heard(name, incarnation, count)
