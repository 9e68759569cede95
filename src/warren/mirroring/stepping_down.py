"""A master that another takes the place of goes on as a mirror, with all it has.

It made every step that the next master has, and keeps to what a mirror keeps to: what its steps store is in its copy,
and what they remove is there until they are settled. What it has beyond is dropped when it is told the last common
step. So whoever hands a queue over stays in sync, and what it lacks of the next epoch comes as steps.

Not here: handing over (`mirroring.master`), following (`mirroring.mirror`).
"""

from warren.mirroring.epochs import Epochs
from warren.mirroring.master import Master
from warren.mirroring.mirror import Mirror
from warren.mirroring.steps import STORE, Step, StepReader


def step_down(master: Master, mirror: Mirror) -> None:
    """Let a mirror that has nothing yet go on where the master is."""
    unfinished = Step(master.end + 1, master.ring.epoch, master.writer.finish())
    mirror.whole = True
    mirror.end = master.end
    mirror.settled = master.settled
    mirror.steps = list(master.steps)
    mirror.epochs = Epochs(list(master.epochs.beginnings))
    mirror.marks = master.marks.without([*master.steps, unfinished])
    # nobody was sent that one
    reader = StepReader(unfinished.data)
    while reader.next():
        if reader.kind == STORE:
            mirror.copy.drop(reader.priority, reader.word(0))
