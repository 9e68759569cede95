"""Starting nodes until they are ready, and ending them: in good order, or not.

A node is ready when it prints its `ready` line, which is looked for in its log behind what was there before. Nodes that
were members before are started together, because a majority of them must be there before any is ready; new ones
join one after another. Whatever goes wrong, what a command began is ended before the command ends.

Not here: which nodes there are (`cli.cluster.layout`).
"""

import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import Final, final

from warren.cli.cluster.etcd_members import end_members, member_pid
from warren.cli.cluster.processes import NodeProcess
from warren.errors import ConfigError, WarrenError

READY_DEADLINE_S: Final = 120.0
STOP_DEADLINE_S: Final = 30.0
KILL_DEADLINE_S: Final = 10.0
LOG_LINES_SHOWN: Final = 12
_POLL_S: Final = 0.05
_ENDING_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Told = Callable[[str], None]


class StartFailed(WarrenError):
    """A node ended before it was ready, or took too long; the last lines of its log were shown."""


class Launch:
    """Nodes that are started together; `progress` is told whom it waits for, `ready` of each one that is there."""

    def __init__(
        self,
        nodes: Sequence[NodeProcess],
        progress: Told,
        ready: Callable[[NodeProcess], None],
        interruption: "Interruption",
    ) -> None:
        self._nodes = nodes
        self._progress = progress
        self._ready = ready
        self._interruption = interruption

    def run(self, begun: list[NodeProcess]) -> None:
        """Returns when all are ready; adds to `begun` whatever has to be ended if that fails."""
        waiting: dict[str, tuple[NodeProcess, int]] = {}
        for node in self._nodes:
            log_bytes = node.log.stat().st_size if node.log.exists() else 0
            try:
                node.begin()
            except OSError as error:
                raise ConfigError(f"{node.node.name} cannot be started: {error.strerror}") from error
            begun.append(node)
            waiting[node.node.name] = (node, log_bytes)
        deadline = time.monotonic() + READY_DEADLINE_S
        while waiting:
            self._interruption.check()
            self._progress(f"waiting for {', '.join(waiting)}")
            for name, (node, log_bytes) in list(waiting.items()):
                # in this order, so that the last words of a node that ended are not missed
                alive = node.pid() is not None
                if _is_ready(node, log_bytes):
                    del waiting[name]
                    self._ready(node)
                elif not alive or time.monotonic() > deadline:
                    raise _failure(node, log_bytes, alive)
            time.sleep(_POLL_S)


def start(nodes: Sequence[NodeProcess], progress: Told, ready: Callable[[NodeProcess], None]) -> None:
    """Start nodes that do not run; all of them, or none."""
    members = [node for node in nodes if node.data.exists()]
    launches = [members, *([node] for node in nodes if node not in members)]
    begun: list[NodeProcess] = []
    members_before = [member_pid(node.data) for node in nodes]
    with Interruption() as interruption:
        try:
            for together in launches:
                Launch(together, progress, ready, interruption).run(begun)
            interruption.check()
        except BaseException:
            end(begun)
            end_members([node.data for node in begun], [pid for pid in members_before if pid is not None])
            raise


def end(nodes: Sequence[NodeProcess]) -> list[NodeProcess]:
    """Stop nodes in good order, all at once; those that took too long were killed, and are returned."""
    running = [node for node in nodes if node.pid() is not None]
    for node in running:
        ask_to_stop(node)
    deadline = time.monotonic() + STOP_DEADLINE_S
    overdue = [node for node in running if not node.ended_within(deadline - time.monotonic())]
    for node in overdue:
        kill(node)
    for node in nodes:
        if node.pid() is None:
            node.forget()
    return overdue


def take_down(nodes: Sequence[NodeProcess]) -> list[NodeProcess]:
    """`end` all nodes of a cluster, and then their etcd members, which they need until they have ended."""
    overdue = end(nodes)
    end_members([node.data for node in nodes])
    return overdue


def ask_to_stop(node: NodeProcess) -> bool:
    """Whether it ran; a paused node hears of it only when it goes on."""
    return node.signal(signal.SIGTERM, signal.SIGCONT)


def kill(node: NodeProcess) -> bool:
    """It has no time for anything; whether it ran."""
    if not node.signal(signal.SIGKILL):
        return False
    if not node.ended_within(KILL_DEADLINE_S):
        raise WarrenError(f"{node.node.name} (pid {node.pid()}) does not end, although it was killed")
    node.forget()
    return True


def _is_ready(node: NodeProcess, log_bytes: int) -> bool:
    return any(line.startswith(f"ready name={node.node.full_name} ") for line in _log_lines(node, log_bytes))


def _failure(node: NodeProcess, log_bytes: int, alive: bool) -> StartFailed:
    lines = _log_lines(node, log_bytes)[-LOG_LINES_SHOWN:]
    print("".join(f"{node.node.name}: {line}\n" for line in lines), end="", file=sys.stderr, flush=True)
    what = f"was not ready within {READY_DEADLINE_S:.0f} s" if alive else "ended before it was ready"
    return StartFailed(f"{node.node.full_name} {what}; all it said is in {node.log}")


def _log_lines(node: NodeProcess, log_bytes: int) -> list[str]:
    """What it said since; only whole lines."""
    try:
        with node.log.open("rb") as log:
            log.seek(log_bytes)
            return log.read().decode(errors="replace").split("\n")[:-1]
    except FileNotFoundError:
        return []


@final
class Interruption:
    """Whoever is told to end must end its nodes first: a signal is noted, and heeded where nothing is half done."""

    def __init__(self) -> None:
        self._came = False

    def __enter__(self) -> "Interruption":
        self._before = {number: signal.signal(number, self._note) for number in _ENDING_SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def check(self) -> None:
        if self._came:
            raise KeyboardInterrupt

    def _note(self, *_: object) -> None:
        self._came = True
