"""Printing text that others have chosen: names of queues, users and messages, reasons, errors.

A control character in a name could move the cursor of a terminal, hide a line, or rename the window. So a terminal gets
such characters escaped, and those that change the direction of writing too. A pipe gets every character unchanged, as
scripts expect.

Not here: tables, whose cells use `visible` (`cli.ctl.output`, `cli.journal_report`), the log (`node.logs`).
"""

import re
import sys
from typing import Final, TextIO

# own headings are bold
_KEPT: Final = re.compile("(\x1b\\[[01]m|[\n\t])")


def visible(text: str) -> str:
    """The text in printable characters alone."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def say(text: str, stream: TextIO | None = None, flush: bool = False) -> None:
    """Print to standard output, or to this stream."""
    stream = stream or sys.stdout
    if stream.isatty():
        text = "".join(part if _KEPT.fullmatch(part) else visible(part) for part in _KEPT.split(text))
    print(text, file=stream, flush=flush)
