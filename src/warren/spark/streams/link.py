"""A connection for reading streams: made when it is needed, and made again when it was lost.

Trouble that may pass is borne with until the deadline: `timeout` seconds in which nothing came. Whatever remains is a
`ReadError`, one sentence for the user.

Invariant: what is pickled with a link is where the broker is, and no connection.

Not here: what is asked (`streams.places`), chunks (`streams.feed`).
"""

import time
from dataclasses import dataclass
from typing import Final

from warren.client import CallTimeout, ChannelClosed, ClientError, blocking
from warren.spark.options import Broker
from warren.wire.values import Table

RETRY_DELAY_S: Final = 0.2
ANSWER_S: Final = 10.0
"""How long a probe may take, on a broker that is there."""

PROBE: Final = "x-stream-probe"
UNREACHABLE: Final = "is down or inaccessible"
"""What a node says of a stream whose own node is lost; it may come back, or another take over."""


class ReadError(RuntimeError):
    """Why a stream could not be read, in one sentence."""


@dataclass(frozen=True)
class Bounds:
    """The first offset there is, and the one behind the last."""

    first: int
    end: int


class Patience:
    """Bears with trouble until nothing has come for too long."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._deadline = time.monotonic() + timeout_s

    def progressed(self) -> None:
        self._deadline = time.monotonic() + self._timeout_s

    @property
    def over(self) -> bool:
        return time.monotonic() > self._deadline

    def bear(self, trouble: ClientError) -> None:
        """Returns after a while if it may be tried again."""
        if self.over or not passes(trouble):
            raise ReadError(str(trouble)) from None
        time.sleep(RETRY_DELAY_S)


def passes(trouble: ClientError) -> bool:
    if isinstance(trouble, ChannelClosed):
        return UNREACHABLE in trouble.text
    return trouble.retriable


def number_in(answer: Table, name: str) -> int:
    value = answer.get(name)
    if not isinstance(value, int):
        raise ReadError(f"the broker does not tell {name} of a stream")
    return value


def no_stream(queue: str) -> ReadError:
    return ReadError(f"{queue!r} is no stream: it cannot be asked for its offsets")


class StreamLink:
    """A connection to the broker, if there is one just now."""

    def __init__(self, broker: Broker, name: str) -> None:
        self.broker = broker
        self._name = name
        self._connection: blocking.Connection | None = None

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_connection": None}

    def channel(self) -> blocking.Channel:
        """A channel of its own, on the connection there is or on another one."""
        if self._connection is None or not self._connection.is_open:
            self.close()
            self._connection = blocking.connect(self.broker.url, name=self._name)
        return self._connection.channel()

    def probe(self, queue: str, arguments: Table | None = None) -> Table:
        """What the broker says of a stream; these arguments ask for more than where it begins and ends."""
        with self.channel() as channel:
            channel.prefetch(1)
            try:
                consumer = channel.consume(queue, arguments={PROBE: True} | (arguments or {}))
            except ChannelClosed as refusal:
                raise (no_stream(queue) if PROBE in refusal.text else refusal) from None
            answers = consumer.batch(ANSWER_S)
        if not answers:
            raise CallTimeout(f"{queue!r} did not tell its offsets within {ANSWER_S:g} s, as a stream does")
        headers = answers[0].headers
        if "x-stream-end" not in headers and "x-stream-partitions" not in headers:
            # a broker that knows no probes
            raise no_stream(queue)
        return headers

    def bounds(self, queue: str) -> Bounds:
        answer = self.probe(queue)
        return Bounds(number_in(answer, "x-stream-first"), number_in(answer, "x-stream-end"))

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
