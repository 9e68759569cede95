"""A master that another takes the place of goes on as a mirror, with all it has.

It made every step that the next master has, and keeps to what a mirror keeps to: what its steps store is in its copy,
and what they remove is there until they are settled. What it has beyond is dropped when it is told the last common
step. So whoever hands a queue over stays in sync, and what it lacks of the next epoch comes as steps.

Not here: handing over (`mirroring.master`), following (`mirroring.mirror`).
"""

from warren.mirroring.epochs import Epochs
from warren.mirroring.marks import Marks
from warren.mirroring.master import Master
from warren.mirroring.mirror import Mirror, drop_stored
from warren.mirroring.steps import REMOVE, RETURNED, STORE, Step, StepReader


def step_down(master: Master, mirror: Mirror) -> None:
    """Let a mirror that has nothing yet go on where the master is."""
    unfinished = Step(master.end + 1, master.ring.epoch, master.writer.finish())
    mirror.whole = True
    mirror.end = master.end
    mirror.settled = master.settled
    mirror.steps = list(master.steps)
    for step in mirror.steps:
        _note_later(step)
    mirror.epochs = Epochs(list(master.epochs.beginnings))
    mirror.marks = master.marks.without([*master.steps, unfinished])
    # nobody was sent that one
    drop_stored(mirror.copy, unfinished)


def _note_later(step: Step) -> None:
    """What a mirror would have noted when it took the step."""
    marks = Marks()
    marks.read(step)
    step.heard = [(name, incarnation, count) for name, (incarnation, count) in marks.runs.items()]
    step.later = []
    reader = StepReader(step)
    while reader.next():
        if reader.kind == STORE:
            step.stored_to = reader.word(0)
        elif reader.kind in (REMOVE, RETURNED):
            step.later.append((int(reader.kind), int(reader.priority), int(reader.word(0)), int(reader.word(1))))
