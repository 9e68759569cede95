"""What becomes of a transport's connections, for logs and for whoever watches.

Every notice is logged under `warren.client.recovering`, with its facts in `extra`, and handed to the observer that was
given to `open`, if one was.

Not here: whether the broker takes publishes at the moment (`RecoveringTransport.blocked_reason`).
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from warren.client.errors import ClientError

LOGGER: Final = logging.getLogger("warren.client.recovering")


@dataclass(frozen=True)
class Notice:
    """Something that happened; `role` is the connection's, `publishing` or `consuming`."""

    role: str


@dataclass(frozen=True)
class ConnectionDown(Notice):
    """A connection has ended, and is made again."""

    address: str
    error: ClientError


@dataclass(frozen=True)
class ConnectionUp(Notice):
    """A connection is there again: to which host, and how long it was not."""

    address: str
    after_s: float


@dataclass(frozen=True)
class ReconnectFailed(Notice):
    """No host could be reached; it is tried again after the delay."""

    error: ClientError
    delay_s: float


@dataclass(frozen=True)
class GivenUp(Notice):
    """For a minute no broker has let this user in, or an error came that nobody foresaw; nothing is tried again."""

    error: ClientError


@dataclass(frozen=True)
class LayoutRefused(Notice):
    """Something that was declared before is refused when it is declared again."""

    name: str
    error: ClientError


@dataclass(frozen=True)
class SubscriptionDown(Notice):
    """A subscription was ended by the broker, and is taken up again if the connection holds."""

    queue: str
    error: ClientError


@dataclass(frozen=True)
class SubscriptionUp(Notice):
    """A subscription gets messages again."""

    queue: str


Observer = Callable[[Notice], None]

_WORDS: Final[dict[type[Notice], tuple[int, str]]] = {
    ConnectionDown: (logging.WARNING, "the {role} connection to {address} has ended: {error}"),
    ConnectionUp: (logging.INFO, "the {role} connection is there again, to {address}, after {after_s:.2f} s"),
    ReconnectFailed: (logging.WARNING, "the {role} connection is tried again in {delay_s:.2f} s: {error}"),
    GivenUp: (logging.ERROR, "the {role} connection is given up: {error}"),
    LayoutRefused: (logging.ERROR, "{name} could not be declared again: {error}"),
    SubscriptionDown: (logging.WARNING, "the subscription to {queue} has ended: {error}"),
    SubscriptionUp: (logging.INFO, "the subscription to {queue} is taken up again"),
}


class Bulletin:
    """Where notices go."""

    def __init__(self, observer: Observer | None) -> None:
        self._observer = observer

    def tell(self, notice: Notice) -> None:
        level, words = _WORDS[type(notice)]
        facts = {field: getattr(notice, field) for field in notice.__dataclass_fields__}
        # `name` is taken by the logger itself
        LOGGER.log(level, words.format(**facts), extra={f"warren_{field}": str(fact) for field, fact in facts.items()})
        if self._observer is not None:
            try:
                self._observer(notice)
            except Exception:
                LOGGER.exception("the observer of a transport failed")
