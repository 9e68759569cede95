"""`warren serve`, altered: other segments, or a promise given too early. To be run as a script, in place of `warren`.

    serve_altered.py SEGMENT_BYTES HASTE_S serve ...

The journal's files grow to SEGMENT_BYTES, so that a short run fills many. With a HASTE_S above 0 the node lies: each
batch is reported as flushed at once, and written that much later.

Not here: the expected result (`test_kill_nine`).
"""

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial

from warren.broker.model.effects import AppendRecords, Effect
from warren.broker.model.events import Event, FlushCompleted
from warren.cli.main import run
from warren.node.config import settings as node_settings
from warren.node.disk import disk
from warren.node.disk.disk import TurnLoopPort


class WithoutReports:
    """A node's turns without reports of flushed batches."""

    def __init__(self, turns: TurnLoopPort) -> None:
        self.loop = turns.loop
        self.due = turns.due
        self._add = turns.add

    def add(self, event: Event) -> None:
        if type(event) is not FlushCompleted:
            self._add(event)

    add_now = add


class HastyDisk(disk.Disk):
    """A disk that calls a batch flushed before it is written."""

    __slots__ = ("_late", "_turns")
    haste_s = 0.0

    def start(self, turns: TurnLoopPort, failed: Callable[[Exception], None]) -> None:
        self._turns = turns
        self._late: deque[tuple[float, Callable[[], object]]] = deque()
        super().start(WithoutReports(turns), failed)
        threading.Thread(target=self._carry_out_late, daemon=True).start()

    def orders(self) -> dict[type[Effect], Callable[[Effect], None]]:
        return {kind: self._postponing(order) for kind, order in super().orders().items()}

    def _postponing(self, order: Callable[[Effect], None]) -> Callable[[Effect], None]:
        def postpone(effect: Effect) -> None:
            on_the_loop = partial(self._turns.loop.call_soon_threadsafe, order, effect)
            self._late.append((time.monotonic() + self.haste_s, on_the_loop))
            if isinstance(effect, AppendRecords):
                self._turns.add(FlushCompleted(effect.batch_no, effect.batch_no))

        return postpone

    def _carry_out_late(self) -> None:
        while True:
            while self._late and self._late[0][0] <= time.monotonic():
                self._late.popleft()[1]()
            time.sleep(0.001)


def main() -> int:
    segment_bytes, HastyDisk.haste_s = int(sys.argv[1]), float(sys.argv[2])
    read_settings = node_settings.read_settings

    def read_altered(flags: node_settings.NodeFlags, environment: Mapping[str, str]) -> node_settings.NodeSettings:
        settings = read_settings(flags, environment)
        settings.broker.segment_bytes = segment_bytes
        return settings

    node_settings.read_settings = read_altered
    if HastyDisk.haste_s > 0:
        from warren.node import service

        vars(service)["Disk"] = HastyDisk
    return run(sys.argv[3:])


if __name__ == "__main__":
    sys.exit(main())
