"""A well-behaved publisher and consumer, each on a connection of its own, that hostile clients must not disturb.

They exchange one message after another on a thread while the test's attackers are at work. Each message must arrive,
be the one that was sent, and be confirmed. Two times are kept of each: how long it took, and how long the node's event
loop used the processor meanwhile. The second is the node's part of the first, so it is the same on a busy machine.

A message that takes long keeps the pair from sending others, which would have been late too. `percentile` counts these
as well, as if a message were sent every `PAUSE_S`.

Not here: the hostile clients (`tests.hostile.scenes`), the bounds (`tests.hostile.rule`).
"""

import threading
import time

from tests.hostile import rule
from tests.hostile.observing import loop_cpu_s
from tests.support.amqp_client import Channel, Connection
from tests.support.node_process import NodeProcess

LATENCY_MAX_S = 10.0
"""Of any message, with the delays of a busy machine."""

PAUSE_S = 0.005


class Bystanders:
    """A context manager: a failure of the pair is raised at its end."""

    def __init__(self, node: NodeProcess) -> None:
        # of each message
        self.times_s: list[float] = []
        self.work_s: list[float] = []
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
        assert self.times_s
        assert max(self.times_s) < LATENCY_MAX_S, f"a message of the pair took {max(self.times_s):.1f} s"
        rule.check_work(percentile(self.work_s, 0.99))

    @property
    def most_work_s(self) -> float:
        return max(self.work_s)

    def wait_for_rounds(self, count: int) -> None:
        """Until the pair has exchanged so many more messages."""
        wanted, deadline = len(self.times_s) + count, time.monotonic() + 30
        while len(self.times_s) < wanted and self._trouble is None:
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
        started_s, worked_s = time.monotonic(), loop_cpu_s(self._node)
        number = len(self.times_s) + 1
        body = f"message {number}".encode()
        publisher.publish("", queue, body)
        delivery = consumer.expect("basic.deliver")
        assert delivery.body == body
        consumer.ack(delivery.delivery_tag)
        publisher.confirms([number])
        self.work_s.append(loop_cpu_s(self._node) - worked_s)
        self.times_s.append(time.monotonic() - started_s)


def percentile(times_s: list[float], share: float) -> float:
    """The time within which this share of messages was done, had the pair sent one every `PAUSE_S` all the time."""
    due = sorted(time_s - late * PAUSE_S for time_s in times_s for late in range(int(time_s / PAUSE_S) + 1))
    return due[min(int(len(due) * share), len(due) - 1)]
