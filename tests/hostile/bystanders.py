"""A well-behaved publisher and consumer, each on a connection of its own, that hostile clients must not disturb.

They exchange one message after another on a thread while the test's attackers are at work. Each message must arrive,
be the one that was sent, be confirmed, and do all that within `LATENCY_MAX_S`, of which the node may have worked for
`WORK_MAX_S`.

Not here: the hostile clients.
"""

import threading
import time

from tests.hostile.observing import cpu_s
from tests.support.amqp_client import Channel, Connection
from tests.support.node_process import NodeProcess

WORK_MAX_S = 3.0
"""Generous; a node that does all of an attacker's work first takes longer."""

LATENCY_MAX_S = 10.0
"""The same, with the delays of a busy machine."""

PAUSE_S = 0.005


class Bystanders:
    """A context manager: a failure of the pair is raised at its end."""

    def __init__(self, node: NodeProcess) -> None:
        self.rounds = 0
        self.slowest_s = 0.0
        self.most_work_s = 0.0
        self._node = node
        self._ended = threading.Event()
        self._started = threading.Event()
        self._trouble: BaseException | None = None
        self._thread = threading.Thread(target=self._exchange)

    def __enter__(self) -> "Bystanders":
        self._thread.start()
        self._started.wait(30)
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
        assert self.most_work_s < WORK_MAX_S, (
            f"the node worked for {self.most_work_s:.1f} s during a message of the pair"
        )

    def wait_for_rounds(self, count: int) -> None:
        """Until the pair has exchanged so many more messages."""
        wanted, deadline = self.rounds + count, time.monotonic() + 30
        while self.rounds < wanted and self._trouble is None:
            assert time.monotonic() < deadline, f"the pair exchanged no {count} messages in 30 s"
            time.sleep(0.005)

    def _exchange(self) -> None:
        try:
            with_publisher, with_consumer = Connection.opened(self._node.amqp), Connection.opened(self._node.amqp)
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
        started_s, worked_s = time.monotonic(), cpu_s(self._node)
        body = f"message {self.rounds + 1}".encode()
        publisher.publish("", queue, body)
        delivery = consumer.expect("basic.deliver")
        assert delivery.body == body
        consumer.ack(delivery.delivery_tag)
        publisher.confirms([self.rounds + 1])
        self.slowest_s = max(self.slowest_s, time.monotonic() - started_s)
        self.most_work_s = max(self.most_work_s, cpu_s(self._node) - worked_s)
        self.rounds += 1
