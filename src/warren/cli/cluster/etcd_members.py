"""The etcd members of a local cluster: found, and ended with the cluster.

A member outlives its node on purpose, so nobody else ends it when a cluster is taken down. It is known by its
`--data-dir`, which is below its node's data directory: no two etcds can have the same.

Not here: starting and looking after a member (`node.etcd`).
"""

import contextlib
import os
import select
import signal
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Final

STOP_DEADLINE_S: Final = 10.0
KILL_DEADLINE_S: Final = 10.0
_OPTION: Final = "--data-dir="


def member_pid(data: Path) -> int | None:
    """The member of the node with this data directory, if it runs."""
    return next(_members_of([data]), None)


def end_members(directories: Sequence[Path], spared: Collection[int] = ()) -> None:
    """End the members of nodes with these data directories, all at once; those that take too long are killed."""
    with contextlib.ExitStack() as opened:
        members = []
        for pid in _members_of(directories):
            with contextlib.suppress(ProcessLookupError):
                descriptor = os.pidfd_open(pid)
                opened.callback(os.close, descriptor)
                # looked at again, now that the number cannot become another's
                if pid not in spared and _is_member_of(pid, directories):
                    members.append(descriptor)
        _signal(members, signal.SIGTERM)
        left = _left_after(members, STOP_DEADLINE_S)
        _signal(left, signal.SIGKILL)
        _left_after(left, KILL_DEADLINE_S)


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
    """Those that have not ended when the time is up."""
    deadline = time.monotonic() + patience_s
    left = []
    for descriptor in descriptors:
        waiting = select.poll()
        waiting.register(descriptor, select.POLLIN)
        if not waiting.poll(max(0.0, deadline - time.monotonic()) * 1000):
            left.append(descriptor)
    return left
