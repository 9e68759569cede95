"""A service that consumes a queue in a thread of its own, and survives the loss of its broker.

A message is acked when whatever has to follow from it is confirmed. So after a failover some come again, marked as
redelivered; a service has to do the same with them again, under the same ids, and both the broker and the ledgers
know that it is the same.

Not here: what a service does with its messages (`till`, `bank`).
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from warren.client import ClientError, Delivery, blocking

PREFETCH = 1000
LOOK_UP_S = 0.25
"""How long a service waits for a message before it looks whether it is to end."""


class Service(ABC):
    """Runs within a `with`; at its end it closes its connection in good order, so that all its acks arrive."""

    def __init__(self, name: str, url: str, queue: str) -> None:
        self.reconnect_count = 0
        # what ended it, if it did not end as it should
        self.failure: Exception | None = None
        self._url = url
        self._queue = queue
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name)

    @abstractmethod
    def handle(self, channel: blocking.Channel, deliveries: Sequence[Delivery]) -> None:
        """Do what follows from these, and ack or refuse each; called in the service's thread."""

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
