"""Publishing with confirms across lost connections and nodes.

Unconfirmed messages are kept. When the connection ends, a new one is made to the first host of the URL that answers,
and all of them are sent again; the broker drops those it has. The same is done when a queue refuses messages, in case
it accepts them a moment later. This goes on until the deadline: `timeout` seconds in which messages waited and none was
confirmed. The time for making rows does not count.

Invariant: `finish` returns only when every message is confirmed. An unroutable message is an error at once.

Not here: frames (`spark.encoder`), the task (`spark.sink`).
"""

import time
from collections import deque
from collections.abc import Callable
from typing import Final

from warren.client import CallTimeout, CannotConnect, ClientError, ConnectionClosed, PublishFailed, blocking
from warren.client.with_blocks import ClosedAtEnd
from warren.spark.encoder import FrameBatch
from warren.spark.options import BrokerOptions

UNCONFIRMED_BYTES_MAX: Final = 16 * 1024 * 1024
UNCONFIRMED_MAX: Final = 32_768
RETRY_DELAY_S: Final = 0.2
FRAME_OVERHEAD: Final = 8
CHANNEL: Final = 1


class SinkError(RuntimeError):
    """Why rows could not be written, in one sentence."""


class ConfirmedPublisher(ClosedAtEnd):
    """A connection that is made again when it ends, and its unconfirmed messages."""

    def __init__(self, broker: BrokerOptions, name: str) -> None:
        self._broker = broker
        self._name = name
        self._pieces: deque[FrameBatch] = deque()
        # the number of the last message of each, on the current channel
        self._numbers: deque[int] = deque()
        self._bytes = 0
        self._count = 0
        self._wait_from_now()
        self._connection, self._channel = self._connect()

    @property
    def payload_max(self) -> int:
        return self._connection.frame_max - FRAME_OVERHEAD

    def send(self, piece: FrameBatch) -> None:
        """Send messages; returns when few enough are unconfirmed."""
        if not self._pieces:
            self._wait_from_now()
        self._pieces.append(piece)
        self._bytes += len(piece.frames)
        self._count += piece.count
        self._persist(lambda: self._send(piece))
        while self._bytes > UNCONFIRMED_BYTES_MAX or self._count > UNCONFIRMED_MAX:
            self._persist(self._await_first)

    def finish(self) -> None:
        """Return when all messages are confirmed."""
        while self._pieces:
            self._persist(self._await_first)

    def close(self) -> None:
        self._connection.close()

    def _send(self, piece: FrameBatch) -> None:
        self._numbers.append(self._channel.send_encoded(piece.frames, piece.count, self._left_s()))

    def _await_first(self) -> None:
        """Wait until the oldest piece is confirmed, and drop it."""
        self._channel.wait_for_confirms(self._left_s(), up_to=self._numbers[0])
        piece = self._pieces.popleft()
        self._numbers.popleft()
        self._bytes -= len(piece.frames)
        self._count -= piece.count
        self._wait_from_now()

    def _persist(self, step: Callable[[], None]) -> None:
        """Run a step on the channel; after a transient error, resend all unconfirmed messages instead."""
        try:
            if not self._connection.is_open:
                self._send_again()
            else:
                step()
        except ClientError as trouble:
            self._judge(trouble)
            self._send_again()

    def _send_again(self) -> None:
        while True:
            self._connection.close()
            time.sleep(RETRY_DELAY_S)
            self._connection, self._channel = self._connect()
            self._numbers.clear()
            try:
                for piece in self._pieces:
                    self._send(piece)
                return
            except ClientError as trouble:
                self._judge(trouble)

    def _judge(self, trouble: ClientError) -> None:
        """Return if the error is transient; else raise."""
        if isinstance(trouble, PublishFailed) and trouble.returned:
            back = trouble.returned[0]
            where = f"exchange {back.exchange!r} with key {back.routing_key!r}"
            raise SinkError(f"no queue takes messages of {where}: {back.text}") from None
        passes = trouble.retriable or isinstance(trouble, PublishFailed | ConnectionClosed)
        if not passes or isinstance(trouble, CallTimeout) or time.monotonic() > self._deadline:
            raise SinkError(f"{self._count} messages are not confirmed: {trouble}") from None

    def _connect(self) -> tuple[blocking.Connection, blocking.Channel]:
        while True:
            try:
                connection = blocking.connect(self._broker.url, name=self._name)
                channel = connection.channel(confirms=True)
            except (CannotConnect, ConnectionClosed, CallTimeout) as trouble:
                if time.monotonic() > self._deadline or not trouble.retriable:
                    raise SinkError(str(trouble)) from None
                time.sleep(RETRY_DELAY_S)
            except ClientError as trouble:
                raise SinkError(str(trouble)) from None
            else:
                assert channel.number == CHANNEL
                return connection, channel

    def _wait_from_now(self) -> None:
        self._deadline = time.monotonic() + self._broker.timeout_s

    def _left_s(self) -> float:
        return max(self._deadline - time.monotonic(), 0.1)
