"""What trace files are called.

The file of the trace NAME is `NAME.log`. A piece that is full gets a number behind it once, `NAME.log.1` and so on
upwards, and keeps that name: whoever reads pieces as they are finished never finds the same one under two names, nor
two under one, though finished ones are deleted: the last number that was given stands in `.NAME.log.last`.

Characters of a trace's name that mean something to a file system are escaped as in an address, `a/b` as `a%2Fb.log`.

Invariant: two names of traces never give one name of a file, and no name leads out of the directory.

Not here: the files (`tracing.trace_file`, `tracing.directory`).
"""

import re

SUFFIX = ".log"
NAME_OCTETS_MAX = 240
"""Of a file; a number has to fit behind it."""

_UNSAFE = re.compile(r"^\.|[%/\\\x00-\x1f\x7f]")
_TRACE_FILE = re.compile(r"(?!\.)[^/\x00]+\.log(?:\.[1-9]\d{0,17})?")


def file_name(trace: str) -> str:
    """The file of a trace; `ValueError` if a name is none, or too long for one."""
    if not trace:
        raise ValueError("a trace must have a name")
    name = _UNSAFE.sub(lambda found: f"%{ord(found[0]):02X}", trace) + SUFFIX
    octets = len(name.encode())
    if octets > NAME_OCTETS_MAX:
        raise ValueError(f"the name of a trace's file has {octets} bytes, of {NAME_OCTETS_MAX} that are possible")
    return name


def is_trace_file(name: str) -> bool:
    return _TRACE_FILE.fullmatch(name) is not None


def piece_name(name: str, number: int) -> str:
    return f"{name}.{number}"


def number_name(name: str) -> str:
    """The file in which the number of the last finished piece stands."""
    return f".{name}.last"


def piece_number(name: str, candidate: str) -> int | None:
    """The number of a finished piece of the file `name`; None if the candidate is none."""
    number = candidate.removeprefix(f"{name}.")
    if number == candidate or not is_trace_file(candidate) or not number.isdecimal():
        return None
    return int(number)
