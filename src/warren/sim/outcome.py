"""How a run of the simulator went: what it came to, and which rules were broken.

Not here: the rules (`sim.checkers`, `sim.cluster.rules`, `sim.rings.promises`).
"""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Complaint:
    """Which rule was broken, and how."""

    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.text}"


@dataclass(frozen=True)
class Outcome:
    """How a run went."""

    seed: int
    steps: int
    complaints: tuple[Complaint, ...]
    published: int
    confirmed: int
    steps_taken: int
    # how often each kind of thing happened
    seen: Counter[str] = field(default_factory=Counter)
    # what else it takes to see the run again
    options: str = ""

    @property
    def good(self) -> bool:
        return not self.complaints

    def verdict(self) -> str:
        """What there is to say about the run, in one sentence and a line for each complaint."""
        figures = f"{self.published} published, {self.confirmed} confirmed, {self.steps_taken} steps"
        if self.good:
            return f"seed {self.seed}: good ({figures})"
        told = "\n".join(f"  {complaint}" for complaint in self.complaints)
        again = f"warren sim --seed {self.seed} --steps {self.steps} {self.options}".rstrip()
        return f"seed {self.seed}: BROKEN ({figures}); replay with {again}\n{told}"
