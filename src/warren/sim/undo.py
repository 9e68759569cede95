"""How to take back what a node did and then forgot: one entry for each thing it must remember, by batch.

A turn's doings are in the turn's batch. When a node dies, the disk says which batches are left; what was in the others
never happened, so the books are taken back to where they were, newest first. Changes of metadata have a mark of their
own, because they are certain before the batch they came with is.

Not here: what is taken back (`sim.history`, `sim.fabric`), which batches are left (`sim.disk`).
"""

from collections import deque
from collections.abc import Callable


class UndoLog:
    """What may have to be taken back, oldest first."""

    def __init__(self) -> None:
        # the batch of the turn under way
        self.batch_no = 0
        self._done: deque[tuple[int, bool, Callable[[], object]]] = deque()

    def did(self, undo: Callable[[], object], metadata: bool = False) -> None:
        self._done.append((self.batch_no, metadata, undo))

    def certain(self, flushed_no: int) -> None:
        """Everything up to this batch stays."""
        while self._done and self._done[0][0] <= flushed_no:
            self._done.popleft()

    def roll_back(self, survived_no: int, changed_no: int) -> None:
        """The node died: of the journal the batches up to the one number are left, of the metadata up to the other."""
        kept: deque[tuple[int, bool, Callable[[], object]]] = deque()
        while self._done:
            batch_no, metadata, undo = self._done.pop()
            if batch_no > (changed_no if metadata else survived_no):
                undo()
            elif not metadata:
                # a process was killed; what it wrote may still go with the power
                kept.appendleft((batch_no, metadata, undo))
        self._done = kept
        self.batch_no = survived_no
