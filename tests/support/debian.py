"""Debian's programs as tests run them: from where `make setup` unpacks packages, or from where Debian installs them.

Unpacked programs and their libraries are on no path: `environment` has both.

Not here: which packages these are (`requirements/debian-unpacked.txt`), RabbitMQ (`rabbitmq`).
"""

import os
from pathlib import Path

UNPACKED = Path(__file__).parents[2] / "build/debian"
_PROGRAMS = ("usr/sbin", "usr/bin")


def program(name: str) -> str:
    """The path of a program; it may have to be run in `environment()`."""
    for place in (UNPACKED, Path("/")):
        for folder in _PROGRAMS:
            if (place / folder / name).exists():
                return str(place / folder / name)
    raise AssertionError(f"no {name} below {UNPACKED} or /: run `make setup`")


def environment() -> dict[str, str]:
    """This process's, in which programs that are only unpacked are found and find their libraries."""
    libraries = sorted(UNPACKED.glob("usr/lib/*-linux-gnu")) + sorted(UNPACKED.glob("lib/*-linux-gnu"))
    usual = os.environ.get("LD_LIBRARY_PATH")
    path = [str(UNPACKED / folder) for folder in _PROGRAMS] + [os.environ["PATH"], "/usr/sbin", "/sbin"]
    return os.environ | {
        "PATH": os.pathsep.join(path),
        "LD_LIBRARY_PATH": os.pathsep.join([*map(str, libraries), *([usual] if usual else [])]),
    }
