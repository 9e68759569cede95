"""From which level on events are logged: for each category its own, changed while the node runs.

The categories are RabbitMQ's. An event belongs to one by its noun: `connection.opened` to `connection`. What has no
category of its own is `default`. Setting `default` sets them all.

Not here: what a line looks like (`node.logs`).
"""

from collections.abc import Mapping

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
        """Those that are chosen; every other has that of `default`, which is `info` unless it is among them."""
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
        """From here on; `default` goes first, so that others may differ from it."""
        if DEFAULT in chosen:
            self._levels = dict.fromkeys(CATEGORIES, chosen[DEFAULT])
        self._levels |= chosen
        self._thresholds.clear()
