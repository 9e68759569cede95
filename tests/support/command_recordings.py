"""Recorded conversations with a command line: `$` is a command, `!` a line on standard error, `=` the exit code."""

from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class RecordedCommand:
    """A command line, its output and its exit code."""

    command: str
    out: list[str] = field(default_factory=list)
    err: list[str] = field(default_factory=list)
    code: int = 0


def recorded_commands(path: Path) -> list[RecordedCommand]:
    found: list[RecordedCommand] = []
    for line in path.read_text().splitlines():
        if line.startswith("$ "):
            found.append(RecordedCommand(line[2:]))
        elif line.startswith("!"):
            found[-1].err.append(line[2:])
        elif line.startswith("= "):
            found[-1].code = int(line[2:])
        else:
            found[-1].out.append(line)
    return found
