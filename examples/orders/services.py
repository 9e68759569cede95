"""A service that consumes a queue in a thread of its own, and survives the loss of its broker.

A message is acked when every message published because of it is confirmed. So after a failover some messages come
again, with `redelivered`. A service handles them again under the same ids, so that the broker and the ledgers drop the
repetitions.

Not here: handling the messages (`till`, `bank`).
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from warren.client import ClientError, Delivery, blocking

PREFETCH = 1000
LOOK_UP_S = 0.25
"""How long a service waits for a message before it checks whether to end."""


class Service(ABC):
    """A context manager; its end closes the connection with the AMQP handshake, so that all acks arrive."""

    def __init__(self, name: str, url: str, queue: str) -> None:
        self.reconnect_count = 0
        # the exception that ended it, if any
        self.failure: Exception | None = None
        self._url = url
        self._queue = queue
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name)

    @abstractmethod
    def handle(self, channel: blocking.Channel, deliveries: Sequence[Delivery]) -> None:
        """Handle these messages, and ack or reject each; called in the service's thread."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._leaving.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._leaving.is_set():
            try:
                with blocking.connect(self._url, name=self._thread.name) as connection:
                    self._serve(connection.channel(confirms=True))
            except ClientError as error:
                if not error.retriable:
                    self.failure = error
                    return
                self.reconnect_count += 1

    def _serve(self, channel: blocking.Channel) -> None:
        channel.prefetch(PREFETCH)
        consumer = channel.consume(self._queue)
        while not self._leaving.is_set():
            deliveries = consumer.batch(timeout_s=LOOK_UP_S)
            if deliveries:
                self.handle(channel, deliveries)
