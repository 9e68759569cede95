"""The node's log: one line an event on standard error, `time=… level=… event=noun.verb key=value …`.

Values that hold anything but plain characters are written as JSON strings, so a client's bytes can neither break a
line nor drive a terminal. A traceback follows its line as it is. For machines that read the log, each line can be a
JSON object of the same fields instead, with the traceback in `exception`.

Not here: what is worth a line (the core's `Note`, and whoever holds a `Log`), the levels (`node.log_levels`).
"""

import json
import re
import sys
from collections.abc import Callable, Mapping, MutableMapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, TextIO, cast

import structlog

from warren.node.log_levels import LEVELS, LogLevels
from warren.node.log_stream import BackgroundStream

PLAINTEXT = "plaintext"
JSON = "json"
FORMATS = (PLAINTEXT, JSON)

_PLAIN = re.compile(r"[\w.,:;/@+*%()\[\]<>~^!?&|#-]+", re.ASCII)


class Log:
    """A structlog logger with the node's levels, and a door for notes whose level is a name."""

    __slots__ = ("_background", "_logger", "levels")

    def __init__(self, levels: LogLevels, form: str = PLAINTEXT, stream: TextIO | None = None) -> None:
        """`form` is one of `FORMATS`."""
        self.levels = levels
        render = render_object if form == JSON else render_line
        self._background = BackgroundStream(sys.stderr, partial(_dropped, render)) if stream is None else None
        self._logger: Any = structlog.wrap_logger(
            structlog.WriteLogger(stream or cast(TextIO, self._background)),
            processors=[
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
                structlog.processors.ExceptionRenderer(),
                render,
            ],
            wrapper_class=structlog.make_filtering_bound_logger(0),
        ).bind()

    def write(self, level: str, event: str, fields: Mapping[str, object]) -> None:
        severity = LEVELS[level]
        if self.levels.lets_pass(severity, event):
            self._logger.log(severity, event, **fields)

    def settle(self) -> None:
        """The lines so far are out, unless nobody takes them."""
        if self._background is not None:
            self._background.settle()

    def close(self) -> None:
        """No more lines; the last ones get out."""
        if self._background is not None:
            self._background.close()

    def info(self, event: str, **fields: object) -> None:
        self.write("info", event, fields)

    def warning(self, event: str, **fields: object) -> None:
        self.write("warning", event, fields)

    def error(self, event: str, **fields: object) -> None:
        self.write("error", event, fields)

    def critical(self, event: str, **fields: object) -> None:
        self.write("critical", event, fields)


def render_line(logger: object, method: str, event: MutableMapping[str, Any]) -> str:
    """The event as one line of `key=value`, and its traceback below."""
    traceback = event.pop("exception", None)
    head = f"time={event.pop('time')} level={event.pop('level')} event={event.pop('event')}"
    line = " ".join([head, *(f"{key}={_value(value)}" for key, value in event.items())])
    return f"{line}\n{traceback}" if traceback else line


def render_object(logger: object, method: str, event: MutableMapping[str, Any]) -> str:
    """The event as one line of JSON."""
    head = {name: event.pop(name) for name in ("time", "level", "event") if name in event}
    rest = {key: value if isinstance(value, int | float) else str(value) for key, value in event.items()}
    return json.dumps(head | rest)


def _dropped(render: Callable[[object, str, MutableMapping[str, Any]], str], lines: int) -> str:
    """What is said of lines that nobody was quick enough to take."""
    time = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    return render(None, "", {"time": time, "level": "warning", "event": "log.dropped", "lines": lines})


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text)
