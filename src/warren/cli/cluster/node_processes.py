"""The processes of a local cluster: start, find, signal, wait, stop; also the etcd members.

*Identity.* A pid is not enough: the process may have ended and the number may be reused. So `NAME.started` stores the
start time of the process in ticks since boot, and the boot. A process belongs to a node if these and its arguments
match. Signals go through a pidfd that was opened before the check, so they cannot reach another process.

*Starting.* A node is ready when its log has a new `ready` line. Former members start together, because none is ready
before a majority is up; new nodes join one after another. If anything fails, the command stops what it started.

*etcd.* A member outlives its node on purpose, so taking a cluster down also stops the members. A member is found by its
`--data-dir`, which is below its node's data directory.

*Progress.* A bar on a terminal, and a line for each ready node.

Not here: the layout (`cli.cluster.local_cluster`), running a member (`node.etcd`).
"""

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Final, final

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from warren.cli.cluster.local_cluster import HOST, LocalCluster, LocalNode, write_atomically
from warren.errors import ConfigError, WarrenError

RUNNING: Final = "running"
PAUSED: Final = "paused"
STOPPED: Final = "stopped"
SIGNAL_DEADLINE_S: Final = 5.0
_POLL_S: Final = 0.005
_LOG_MODE: Final = 0o640


@final
class NodeProcess:
    """The process of one node, if it runs."""

    def __init__(self, layout: LocalCluster, node: LocalNode) -> None:
        self.node = node
        self.data = layout.directory / node.name
        self.log = layout.directory / f"{node.name}.log"
        self._environment = layout.environment()
        self._pid_file = layout.directory / f"{node.name}.pid"
        self._proof_file = layout.directory / f"{node.name}.started"

    def begin(self) -> None:
        """Start it, detached from this terminal; its output is appended to its log."""
        # -P: a folder named warren in the working directory is not this program
        command = [sys.executable, "-P", "-m", "warren.cli.main", *self.node.arguments]
        log_flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        pid = os.posix_spawn(
            sys.executable,
            command,
            {**_inherited(), **self._environment},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(self.log), log_flags, _LOG_MODE),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
        )
        _await_arguments(pid)
        began = _stat(pid)
        write_atomically(self._proof_file, f"{_boot()} {began[1] if began else 0}\n")
        write_atomically(self._pid_file, f"{pid}\n")

    def pid(self) -> int | None:
        """The pid if the process is alive."""
        with self._opened() as (pid, _):
            return pid

    def state(self) -> str:
        with self._opened() as (pid, _):
            found = _stat(pid) if pid is not None else None
        if found is None:
            return STOPPED
        return PAUSED if found[0] in "Tt" else RUNNING

    def signal(self, *numbers: signal.Signals) -> bool:
        """Send signals in order; False if the node does not run."""
        with self._opened() as (_, descriptor):
            for number in numbers if descriptor >= 0 else ():
                # the previous signal may have ended it
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(descriptor, number)
            return descriptor >= 0

    def ended_within(self, patience_s: float) -> bool:
        """Wait until it has ended."""
        with self._opened() as (_, descriptor):
            if descriptor < 0:
                return True
            waiting = select.poll()
            waiting.register(descriptor, select.POLLIN)
            return bool(waiting.poll(max(0.0, patience_s) * 1000))

    def reached_within(self, state: str, patience_s: float = SIGNAL_DEADLINE_S) -> bool:
        """Wait until it is in a state; a signal takes effect with a delay."""
        deadline = time.monotonic() + patience_s
        while self.state() != state:
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        return True

    def forget(self) -> None:
        """Delete the stored pid of a process that is gone."""
        self._pid_file.unlink(missing_ok=True)
        self._proof_file.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[tuple[int | None, int]]:
        """The pid and a pidfd for signals and waiting; None and -1 if it does not run."""
        pid, descriptor = self._written_pid(), -1
        try:
            if pid is not None:
                with contextlib.suppress(ProcessLookupError):
                    descriptor = os.pidfd_open(pid)
            if pid is not None and descriptor >= 0 and self._is_ours(pid):
                yield pid, descriptor
            else:
                yield None, -1
        finally:
            if descriptor >= 0:
                os.close(descriptor)

    def _written_pid(self) -> int | None:
        try:
            written = int(self._pid_file.read_text())
        except (OSError, ValueError):
            return None
        return written if written > 0 else None

    def _is_ours(self, pid: int) -> bool:
        found = _stat(pid)
        try:
            proof = self._proof_file.read_text()
        except OSError:
            return False
        expected = self.node.arguments
        return (
            found is not None and proof == f"{_boot()} {found[1]}\n" and _arguments(pid)[-len(expected) :] == expected
        )


def _inherited() -> dict[str, str]:
    """The environment without settings that are specific to one node, like the node to join."""
    return {
        name: value for name, value in os.environ.items() if name not in ("WARREN_JOIN", "WARREN_RAM", "WARREN_WITNESS")
    }


def _stat(pid: int) -> tuple[str, int] | None:
    """The state of a live process and its start time in ticks."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else (fields[0], int(fields[19]))


def _arguments(pid: int) -> list[str]:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return []
    return words.removesuffix("\0").split("\0") if words else []


def _await_arguments(pid: int) -> None:
    """A process shows no arguments for a moment after its start."""
    deadline = time.monotonic() + SIGNAL_DEADLINE_S
    while _stat(pid) is not None and not _arguments(pid) and time.monotonic() < deadline:
        time.sleep(_POLL_S)


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


MEMBER_STOP_DEADLINE_S: Final = 10.0
MEMBER_KILL_DEADLINE_S: Final = 10.0
_OPTION: Final = "--data-dir="


def member_pid(data: Path) -> int | None:
    """The etcd member of the node with this data directory, if it runs."""
    return next(_members_of([data]), None)


def end_members(directories: Sequence[Path], spared: Collection[int] = ()) -> None:
    """Stop the etcd members of these data directories in parallel; kill those that take too long."""
    with contextlib.ExitStack() as opened:
        members = []
        for pid in _members_of(directories):
            with contextlib.suppress(ProcessLookupError):
                descriptor = os.pidfd_open(pid)
                opened.callback(os.close, descriptor)
                # check again: with the pidfd open the pid cannot be reused
                if pid not in spared and _is_member_of(pid, directories):
                    members.append(descriptor)
        _signal(members, signal.SIGTERM)
        left = _left_after(members, MEMBER_STOP_DEADLINE_S)
        _signal(left, signal.SIGKILL)
        _left_after(left, MEMBER_KILL_DEADLINE_S)


def _members_of(directories: Sequence[Path]) -> Iterator[int]:
    for entry in os.listdir("/proc"):
        if entry.isdigit() and _is_member_of(int(entry), directories):
            yield int(entry)


def _is_member_of(pid: int, directories: Sequence[Path]) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")
    except OSError:
        return False
    kept_in = [Path(word.removeprefix(_OPTION)) for word in words if word.startswith(_OPTION)]
    return any(directory in path.parents for path in kept_in for directory in directories)


def _signal(descriptors: Sequence[int], number: signal.Signals) -> None:
    for descriptor in descriptors:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(descriptor, number)


def _left_after(descriptors: Sequence[int], patience_s: float) -> list[int]:
    """The processes that have not ended in time."""
    deadline = time.monotonic() + patience_s
    left = []
    for descriptor in descriptors:
        waiting = select.poll()
        waiting.register(descriptor, select.POLLIN)
        if not waiting.poll(max(0.0, deadline - time.monotonic()) * 1000):
            left.append(descriptor)
    return left


READY_DEADLINE_S: Final = 120.0
STOP_DEADLINE_S: Final = 30.0
KILL_DEADLINE_S: Final = 10.0
LOG_LINES_SHOWN: Final = 12
_READY_POLL_S: Final = 0.05
_ENDING_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

ProgressCallback = Callable[[str], None]


class StartFailed(WarrenError):
    """A node ended before it was ready, or took too long. The last lines of its log have been shown."""


class Launch:
    """Nodes that start together. `progress` gets the nodes that are awaited, `ready` each node that is ready."""

    def __init__(
        self,
        nodes: Sequence[NodeProcess],
        progress: ProgressCallback,
        ready: Callable[[NodeProcess], None],
        interruption: "Interruption",
    ) -> None:
        self._nodes = nodes
        self._progress = progress
        self._ready = ready
        self._interruption = interruption

    def run(self, begun: list[NodeProcess]) -> None:
        """Returns when all are ready; adds to `begun` what must be stopped if the start fails."""
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
                # in this order, so that the last lines of a node that ended are not missed
                alive = node.pid() is not None
                if _is_ready(node, log_bytes):
                    del waiting[name]
                    self._ready(node)
                elif not alive or time.monotonic() > deadline:
                    raise _failure(node, log_bytes, alive)
            time.sleep(_READY_POLL_S)


def start_nodes(nodes: Sequence[NodeProcess], progress: ProgressCallback, ready: Callable[[NodeProcess], None]) -> None:
    """Start nodes that do not run: all, or none."""
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
            end_nodes(begun)
            end_members([node.data for node in begun], [pid for pid in members_before if pid is not None])
            raise


def end_nodes(nodes: Sequence[NodeProcess]) -> list[NodeProcess]:
    """Stop nodes in parallel; returns those that took too long and were killed."""
    running = [node for node in nodes if node.pid() is not None]
    for node in running:
        ask_to_stop(node)
    deadline = time.monotonic() + STOP_DEADLINE_S
    overdue = [node for node in running if not node.ended_within(deadline - time.monotonic())]
    for node in overdue:
        kill_node(node)
    for node in nodes:
        if node.pid() is None:
            node.forget()
    return overdue


def take_down(nodes: Sequence[NodeProcess]) -> list[NodeProcess]:
    """Stop all nodes, then their etcd members, which the nodes need until they have ended."""
    overdue = end_nodes(nodes)
    end_members([node.data for node in nodes])
    return overdue


def ask_to_stop(node: NodeProcess) -> bool:
    """False if it does not run. A paused node reacts when it is resumed."""
    return node.signal(signal.SIGTERM, signal.SIGCONT)


def kill_node(node: NodeProcess) -> bool:
    """Send SIGKILL; False if it does not run."""
    if not node.signal(signal.SIGKILL):
        return False
    if not node.ended_within(KILL_DEADLINE_S):
        raise WarrenError(f"{node.node.name} (pid {node.pid()}) does not end after SIGKILL")
    node.forget()
    return True


def _is_ready(node: NodeProcess, log_bytes: int) -> bool:
    return any(line.startswith(f"ready name={node.node.full_name} ") for line in _log_lines(node, log_bytes))


def _failure(node: NodeProcess, log_bytes: int, alive: bool) -> StartFailed:
    lines = _log_lines(node, log_bytes)[-LOG_LINES_SHOWN:]
    print("".join(f"{node.node.name}: {line}\n" for line in lines), end="", file=sys.stderr, flush=True)
    what = f"was not ready within {READY_DEADLINE_S:.0f} s" if alive else "ended before it was ready"
    return StartFailed(f"{node.node.full_name} {what}; its log is {node.log}")


def _log_lines(node: NodeProcess, log_bytes: int) -> list[str]:
    """The whole lines logged since that position."""
    try:
        with node.log.open("rb") as log:
            log.seek(log_bytes)
            return log.read().decode(errors="replace").split("\n")[:-1]
    except FileNotFoundError:
        return []


@final
class Interruption:
    """A command that is told to end must stop its nodes first: signals are noted and checked at safe points."""

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


@final
class StartProgress:
    """A bar on standard error, which is removed at the end, and lines on standard output."""

    def __init__(self, total: int) -> None:
        self._columns = Progress(
            TextColumn("{task.completed}/{task.total}"),
            BarColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.description}"),
            console=Console(stderr=True),
            transient=True,
            disable=not sys.stderr.isatty(),
        )
        self._task = self._columns.add_task("", total=total)

    def __enter__(self) -> "StartProgress":
        self._columns.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._columns.stop()

    def show(self, words: str) -> None:
        self._columns.update(self._task, description=words)

    def ready(self, process: NodeProcess) -> None:
        node = process.node
        self._columns.advance(self._task)
        print(
            f"{node.full_name} is ready: pid {process.pid()}, AMQP {HOST}:{node.amqp}, http://{HOST}:{node.http}/",
            flush=True,
        )
