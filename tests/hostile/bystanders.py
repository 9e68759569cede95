"""A well-behaved publisher and consumer, each on a connection of its own, who must not notice what others do.

They exchange one message after another on a thread while the test's attackers are at work. Each message must arrive,
be the one that was sent, be confirmed, and do all that within `LATENCY_MAX_S`.

Not here: what the attackers do.
"""

import threading
import time

from tests.support.amqp_client import Channel, Connection

LATENCY_MAX_S = 3.0
"""Generous, because the machine may be busy; a node that does an attacker's bidding takes longer."""

PAUSE_S = 0.005


class Bystanders:
    """Use as a context: whatever went wrong for the pair is raised at its end."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.rounds = 0
        self.slowest_s = 0.0
        self._address = address
        self._ended = threading.Event()
        self._started = threading.Event()
        self._trouble: BaseException | None = None
        self._thread = threading.Thread(target=self._exchange)

    def __enter__(self) -> "Bystanders":
        self._thread.start()
        self._started.wait(10)
        return self

    def __exit__(self, *exception: object) -> None:
        self._ended.set()
        self._thread.join(30)
        if exception[0] is not None:
            return
        if self._trouble is not None:
            raise AssertionError("the well-behaved pair was disturbed") from self._trouble
        assert self.rounds > 0
        assert self.slowest_s < LATENCY_MAX_S, f"a message of the pair took {self.slowest_s:.1f} s"

    def wait_for_rounds(self, count: int) -> None:
        """Until the pair has exchanged so many more messages."""
        wanted, deadline = self.rounds + count, time.monotonic() + 30
        while self.rounds < wanted and self._trouble is None:
            assert time.monotonic() < deadline, f"the pair exchanged no {count} messages in 30 s"
            time.sleep(0.005)

    def _exchange(self) -> None:
        try:
            with_publisher, with_consumer = Connection.opened(self._address), Connection.opened(self._address)
            publisher, consumer = with_publisher.channel(), with_consumer.channel()
            queue = consumer.call("queue.declare", queue="", exclusive=True).queue
            consumer.consume(queue)
            publisher.confirm()
            self._started.set()
            while not self._ended.is_set():
                self._round(publisher, consumer, queue)
                time.sleep(PAUSE_S)
            with_publisher.close()
            with_consumer.close()
        except BaseException as trouble:
            self._trouble = trouble
        finally:
            self._started.set()

    def _round(self, publisher: Channel, consumer: Channel, queue: str) -> None:
        started_s = time.monotonic()
        body = f"message {self.rounds + 1}".encode()
        publisher.publish("", queue, body)
        delivery = consumer.expect("basic.deliver")
        assert delivery.body == body
        consumer.ack(delivery.delivery_tag)
        publisher.confirms([self.rounds + 1])
        self.slowest_s = max(self.slowest_s, time.monotonic() - started_s)
        self.rounds += 1
