"""The node's log: one line per event on standard error, `time=… level=… event=noun.verb key=value …`.

Values with anything but plain characters are written as JSON strings, so a client's bytes can neither break a line nor
control a terminal. A traceback follows its line. Alternatively each line is a JSON object of the same fields, with the
traceback in `exception`.

Levels are set per category and can change while the node runs. The categories are RabbitMQ's; an event's noun decides:
`connection.opened` belongs to `connection`. Events without a category of their own belong to `default`. Setting
`default` sets all.

A thread writes the lines, so a slow reader never blocks the node. While the reader is too slow, the newest lines are
dropped and counted. After the reader is gone, all lines are dropped and the node goes on.

Not here: which events are logged (the broker's `Note`, and the holders of a `Log`).
"""

import json
import queue
import re
import sys
import threading
from collections.abc import Callable, Mapping, MutableMapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, TextIO, cast

import structlog

LEVELS = {
    "debug": 10,
    "info": 20,
    "notice": 20,
    "warning": 30,
    "error": 40,
    "critical": 50,
    "alert": 50,
    "emergency": 50,
    "none": 100,
}
"""RabbitMQ's level names, by severity."""

DEFAULT = "default"
CATEGORIES = (DEFAULT, "connection", "channel", "queue", "mirroring", "federation", "upgrade")

_CATEGORY_OF_NOUNS = {
    "binding": "queue",
    "channel": "channel",
    "connection": "connection",
    "dead_letter": "queue",
    "exchange": "queue",
    "handshake": "connection",
    "login": "connection",
    "queue": "queue",
    "tls_handshake": "connection",
}


def category_of(event: str) -> str:
    return _CATEGORY_OF_NOUNS.get(event.partition(".")[0], DEFAULT)


class LogLevels:
    """The level of each category."""

    def __init__(self, chosen: Mapping[str, str]) -> None:
        """The chosen levels; other categories have the level of `default`, which is `info` unless chosen."""
        self._levels = dict.fromkeys(CATEGORIES, chosen.get(DEFAULT, "info")) | dict(chosen)
        # by event: there are a few dozen
        self._thresholds: dict[str, int] = {}

    def lets_pass(self, severity: int, event: str) -> bool:
        threshold = self._thresholds.get(event)
        if threshold is None:
            threshold = self._thresholds[event] = LEVELS[self._levels[category_of(event)]]
        return severity >= threshold

    def levels(self) -> dict[str, str]:
        return dict(self._levels)

    def change(self, chosen: Mapping[str, str]) -> None:
        """Change levels; `default` is applied first, so that others may differ from it."""
        if DEFAULT in chosen:
            self._levels = dict.fromkeys(CATEGORIES, chosen[DEFAULT])
        self._levels |= chosen
        self._thresholds.clear()


LINES_WAITING_MAX: Final = 10_000
PATIENCE_S: Final = 1.0


class BackgroundStream:
    """`write` puts a text on a queue, and a thread writes it."""

    def __init__(self, stream: TextIO, dropped: Callable[[int], str]) -> None:
        """`dropped` makes the line that reports how many lines were dropped."""
        self._stream = stream
        self._dropped_line = dropped
        self._texts: queue.SimpleQueue[str | threading.Event | None] = queue.SimpleQueue()
        self._dropped = 0
        self._broken = False
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def write(self, text: str) -> int:
        if self._texts.qsize() < LINES_WAITING_MAX:
            self._texts.put(text)
        else:
            self._dropped += 1
        return len(text)

    def flush(self) -> None:
        """The thread flushes."""

    def settle(self) -> None:
        """Wait, for a moment at most, until all lines so far are written."""
        out = threading.Event()
        self._texts.put(out)
        out.wait(PATIENCE_S)

    def close(self) -> None:
        """Wait a moment for the last lines."""
        self._texts.put(None)
        self._thread.join(PATIENCE_S)

    def _run(self) -> None:
        while (text := self._texts.get()) is not None:
            if isinstance(text, threading.Event):
                text.set()
                continue
            dropped, self._dropped = self._dropped, 0
            self._put(text)
            if dropped:
                self._put(f"{self._dropped_line(dropped)}\n")

    def _put(self, text: str) -> None:
        if self._broken:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            # the reader is gone
            self._broken = True


PLAINTEXT = "plaintext"
JSON = "json"
FORMATS = (PLAINTEXT, JSON)

_PLAIN = re.compile(r"[\w.,:;/@+*%()\[\]<>~^!?&|#-]+", re.ASCII)


class Log:
    """A structlog logger with the node's levels, and a method for notes whose level is a name."""

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
        """Wait until the lines so far are written, if they can be."""
        if self._background is not None:
            self._background.settle()

    def close(self) -> None:
        """Write the last lines and stop."""
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
    """The line that reports dropped lines."""
    time = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    return render(None, "", {"time": time, "level": "warning", "event": "log.dropped", "lines": lines})


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text)
