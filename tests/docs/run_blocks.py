"""Runs the Python blocks of one page, in order, in one namespace, as a process of its own.

    python run_blocks.py < blocks.json

Standard input is a JSON list of `[file, line, source]`; standard output is a JSON list with the output of each block. A
block that raises ends the run with a traceback that names the page and the line.

Connecting to a node's default ports fails: an example with a port that was not rewritten would reach another broker.
"""

import contextlib
import io
import json
import sys
from typing import Any

USUAL_PORTS = (5671, 5672, 15672)


def refuse_the_usual_ports(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "socket.connect" and isinstance(arguments[1], tuple) and arguments[1][1] in USUAL_PORTS:
        raise AssertionError("the example names no port, so it cannot be pointed at the node under test")


def main() -> None:
    sys.addaudithook(refuse_the_usual_ports)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    printed: list[str] = []
    for file, line, source in json.load(sys.stdin):
        output = io.StringIO()
        # empty lines in front make the line numbers of a traceback those of the page
        code = compile("\n" * (line - 1) + source, file, "exec")
        with contextlib.redirect_stdout(output):
            exec(code, namespace)
        printed.append(output.getvalue())
    json.dump(printed, sys.stdout)


if __name__ == "__main__":
    main()
