"""Carrying out one conversation on both sides, step by step, until they disagree; and making a disagreement small.

A disagreement counts if it remains after long pauses, and appears again in a second run of the same steps. If the sides
differ only in how the deliveries of several consumers of a channel interleave, the conversation ends without a verdict,
because the same delivery tag then names different messages.

Not here: a side of the conversation (`party`), the command line (`bench/differential`).
"""

from dataclasses import dataclass

from bench.differing.observing import Outcome, differences, only_interleaved
from bench.differing.party import Party, fresh_prefix
from bench.differing.steps import Step

PAUSES_S = (0.02, 0.1, 0.4)
Address = tuple[str, int]


@dataclass
class Disagreement:
    """`steps` ends with the step after which the sides differed."""

    steps: list[Step]
    where: list[str]
    judge: Outcome
    tested: Outcome

    def signature(self) -> str:
        """A short name of the disagreement: the last step's method, and where the sides differed."""
        last = self.steps[-1]
        where = sorted({place.partition(" ")[2] or place for place in self.where})
        kinds = [" ".join(place.split()[:1]) for place in where]
        return f"{last.method or last.kind}: {', '.join(kinds)}"


@dataclass
class Result:
    steps_done: int
    ambiguous: bool = False
    disagreement: Disagreement | None = None


def run(judge_address: Address, tested_address: Address, steps: list[Step]) -> Result:
    prefix = fresh_prefix()
    judge, tested = Party(judge_address, prefix), Party(tested_address, prefix)
    try:
        for number, step in enumerate(steps, start=1):
            judge.say(step)
            tested.say(step)
            judge.settle(step.rest_ms)
            tested.settle(0)
            seen = _agreed(judge, tested)
            if only_interleaved(*seen) or _cut_short(step, *seen) or _regrouped(step, *seen):
                return Result(number, ambiguous=True)
            if where := differences(*seen):
                return Result(number, disagreement=Disagreement(steps[:number], where, *seen))
    finally:
        judge.end()
        tested.end()
    return Result(len(steps))


def _cut_short(step: Step, judge: Outcome, tested: Outcome) -> bool:
    """The same fault ended a channel or a connection on both sides. Two things then depend on timing: the outcome of
    the publishes sent with it in one write, and the last deliveries on the other channels of a closing connection."""
    connection, channel = (f"{step.place[0]}.{number} replies" for number in (0, step.place[1]))
    burst = len(step.publishes) > 1 and _same_close(judge, tested, channel)
    found = differences(judge, tested)
    handed = any(where.startswith(f"{step.place[0]}.") and " deliveries " in where for where in found)
    leaving = step.kind == "leave" and handed
    return (burst or leaving or _same_close(judge, tested, connection)) and bool(found)


def _regrouped(step: Step, judge: Outcome, tested: Outcome) -> bool:
    """RabbitMQ requeues messages consumer by consumer, so messages of several consumers come in a different order."""
    gives_back = step.method in ("basic.recover", "basic.recover-async", "tx.commit") or (
        step.fields.get("multiple") and step.fields.get("requeue")
    )
    found = differences(judge, tested)
    moved = [where for where in found if " deliveries " in where]
    return bool(gives_back) and len(moved) > 1 and all(" deliveries " in one or " order" in one for one in found)


def _same_close(judge: Outcome, tested: Outcome, where: str) -> bool:
    return judge.get(where) == tested.get(where) and ".close " in str(judge.get(where))


def _agreed(judge: Party, tested: Party) -> tuple[Outcome, Outcome]:
    """The outcomes of both sides, asked again after ever longer pauses while they disagree."""
    seen = judge.outcome(), tested.outcome()
    for pause_s in PAUSES_S:
        if not differences(*seen):
            break
        judge.linger(pause_s)
        tested.linger(0)
        seen = judge.outcome(), tested.outcome()
    return seen


def shrunk(judge: Address, tested: Address, found: Disagreement, runs_max: int = 120) -> Disagreement:
    """The smallest conversation found in which the sides differ in the same way: drop ever smaller runs of steps."""
    size = max(len(found.steps) // 2, 1)
    runs = 0
    while size >= 1:
        start = 0
        while start < len(found.steps) and runs < runs_max:
            fewer = found.steps[:start] + found.steps[start + size :]
            runs += 1
            smaller = run(judge, tested, fewer).disagreement if fewer else None
            if smaller is not None and smaller.signature() == found.signature():
                found = smaller
            else:
                start += size
        size //= 2
    return found
