"""The processes of this machine, by their arguments."""

from collections.abc import Callable
from pathlib import Path


def processes_with(matches: Callable[[str], bool]) -> list[int]:
    """The pids of the processes that have a matching argument."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (process / "cmdline").read_text(errors="replace").split("\0")
        except OSError:
            continue
        if any(matches(argument) for argument in arguments):
            found.append(int(process.name))
    return found
