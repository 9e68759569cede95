"""A publisher and a consumer of numbers, each in a thread, at the broker that the test names.

Not here: when they are switched over.
"""

import threading
from abc import ABC, abstractmethod
from typing import final

from warren.client import Message, Properties, blocking

PREFETCH = 200
DIGITS = 12
"""The most digits of a number; padding may follow them in a body."""


class Worker(ABC):
    """A client of one broker at a time, in a thread."""

    def __init__(self, queue: str) -> None:
        self._queue = queue
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, url: str) -> None:
        self._stop.clear()
        self._thread = threading.Thread(target=self._work, args=(url,))
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        assert self._thread is not None
        self._thread.join()

    @abstractmethod
    def _work(self, url: str) -> None:
        """Use the broker until `_stop` is set."""


@final
class Publisher(Worker):
    """Sends numbers, each confirmed before it counts as sent; `sent` is the next one."""

    def __init__(self, queue: str, sent: int) -> None:
        super().__init__(queue)
        self.sent = sent

    def _work(self, url: str) -> None:
        with blocking.connect(url) as connection:
            channel = connection.channel(confirms=True)
            while not self._stop.is_set():
                message = Message(b"%d" % self.sent, Properties(delivery_mode=2))
                channel.publish(message, "", self._queue, mandatory=True)
                self.sent += 1


@final
class Consumer(Worker):
    """Keeps the numbers it has acked, in order."""

    def __init__(self, queue: str) -> None:
        super().__init__(queue)
        self.taken: list[int] = []

    def await_number(self, number: int) -> None:
        """Until it has come."""
        assert self._thread is not None
        while not self.taken or self.taken[-1] < number:
            assert self._thread.is_alive()
            self._stop.wait(0.01)

    def _work(self, url: str) -> None:
        with blocking.connect(url) as connection:
            channel = connection.channel()
            channel.prefetch(PREFETCH)
            consumer = channel.consume(self._queue)
            while not self._stop.is_set():
                if batch := consumer.batch(0.1):
                    channel.ack(batch[-1], multiple=True)
                    self.taken += [int(delivery.body[:DIGITS]) for delivery in batch]
