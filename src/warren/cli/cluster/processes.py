"""The process of one node: begun, found again, signalled, waited for.

A pid alone proves nothing: the process may have ended, and its number may be another's. So `NAME.started` keeps when
the process began, in ticks since which boot of the machine; a process is this node's if that and its arguments agree.
Signals go through a descriptor that was opened before the proof, and cannot reach anybody else.

Not here: waiting until a node is ready (`cli.cluster.starting`).
"""

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, final

from warren.cli.cluster.layout import Layout, LocalNode, replace

RUNNING: Final = "running"
PAUSED: Final = "paused"
STOPPED: Final = "stopped"
SIGNAL_DEADLINE_S: Final = 5.0
_POLL_S: Final = 0.005
_LOG_MODE: Final = 0o640


@final
class NodeProcess:
    """What runs, or does not run, of one node."""

    def __init__(self, layout: Layout, node: LocalNode) -> None:
        self.node = node
        self.data = layout.directory / node.name
        self.log = layout.directory / f"{node.name}.log"
        self._environment = layout.environment()
        self._pid_file = layout.directory / f"{node.name}.pid"
        self._proof_file = layout.directory / f"{node.name}.started"

    def begin(self) -> None:
        """Start it, detached from this terminal; its output goes to the end of its log."""
        # -P: a folder named warren where the command was typed is not this program
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
        replace(self._proof_file, f"{_boot()} {began[1] if began else 0}\n")
        replace(self._pid_file, f"{pid}\n")

    def pid(self) -> int | None:
        """Its process, if that lives."""
        with self._opened() as (pid, _):
            return pid

    def state(self) -> str:
        with self._opened() as (pid, _):
            found = _stat(pid) if pid is not None else None
        if found is None:
            return STOPPED
        return PAUSED if found[0] in "Tt" else RUNNING

    def signal(self, *numbers: signal.Signals) -> bool:
        """Send signals, one after another; whether the node ran."""
        with self._opened() as (_, descriptor):
            for number in numbers if descriptor >= 0 else ():
                # it may have ended because of the one before
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
        """Wait until it is in a state; signals take effect a moment after they were sent."""
        deadline = time.monotonic() + patience_s
        while self.state() != state:
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        return True

    def forget(self) -> None:
        """Its process is gone: leave no number behind that might become another's."""
        self._pid_file.unlink(missing_ok=True)
        self._proof_file.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[tuple[int | None, int]]:
        """Its process and a descriptor of it, good for signals and for waiting; None and -1 if it does not run."""
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
    """Settings in the environment are for every node; whom to join, and as what, is for each to be told alone."""
    return {
        name: value for name, value in os.environ.items() if name not in ("WARREN_JOIN", "WARREN_RAM", "WARREN_WITNESS")
    }


def _stat(pid: int) -> tuple[str, int] | None:
    """The state of a process that lives and the ticks at which it began."""
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
    """For a moment after it was started, a process shows none."""
    deadline = time.monotonic() + SIGNAL_DEADLINE_S
    while _stat(pid) is not None and not _arguments(pid) and time.monotonic() < deadline:
        time.sleep(_POLL_S)


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
