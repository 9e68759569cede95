"""What the client logs while a command runs, as the lines that a node writes: `time=… level=… event=… key=value …`.

A record of the client is an event, whose facts are in `extra`; where it is a sentence, the event is the name of its
logger, and the sentence is the fact `message`.

Not here: what a line looks like (`node.logs`), what is logged (each package of the client tells in its page).
"""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from warren.errors import ConfigError

FORMATS = ("plaintext", "json")
LOGGER = "warren.client"

LogFormat = Annotated[
    str,
    typer.Option(envvar="WARREN_CLIENT_LOG_FORMAT", metavar="FORMAT", help="Lines of the log: plaintext or json."),
]

_EVENT = re.compile(r"[a-z_]+(\.[a-z_]+)+")
_OF_EVERY_RECORD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "taskName"}


@contextmanager
def logged_lines(form: str) -> Iterator[None]:
    """Within it, what the client logs from level info on goes to standard error."""
    if form not in FORMATS:
        raise ConfigError(f"--log-format is one of {', '.join(FORMATS)}, not {form!r}")
    handler = logging.StreamHandler()
    handler.setFormatter(Lines(form))
    logger = logging.getLogger(LOGGER)
    level, propagate = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate


class Lines(logging.Formatter):
    """A record as one line, and in plain text its traceback below."""

    def __init__(self, form: str) -> None:
        super().__init__()
        from warren.node.logs import render_line, render_object

        self._render = render_object if form == "json" else render_line

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z")
        facts: dict[str, Any] = {"time": time, "level": record.levelname.lower()}
        said = record.getMessage()
        facts |= {"event": said} if _EVENT.fullmatch(said) else {"event": record.name, "message": said}
        facts |= {name: value for name, value in vars(record).items() if name not in _OF_EVERY_RECORD}
        if record.exc_info:
            facts["exception"] = self.formatException(record.exc_info)
        return self._render(None, "", facts)
