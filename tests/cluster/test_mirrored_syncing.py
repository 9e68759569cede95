"""The backfill of a mirror that was down: the master may be killed meanwhile, and publishers go on meanwhile.

Three nodes serve all tests; each test leaves them as it found them. RabbitMQ 3.10.8 loses everything but the last
message in the first test, and makes publishers wait until the mirror is in sync in the last.
"""

import re
import signal
import time
from datetime import datetime

import pytest

from tests.cluster.mirrored import await_in_sync, mirror_everything, standing
from tests.cluster.promises import PERSISTENT
from tests.cluster.trio import Trio, declare
from tests.support.amqp_client import Channel
from tests.support.deadlines import eventually
from tests.support.node_process import NodeProcess

pytestmark = pytest.mark.timeout(240)

BACKLOG = 10_000
SIZE_BYTES = 1024
WINDOW = 500
CONFIRMED_S_MAX = 2.0
"""The limit on a busy machine; docs/reliability.md has the figure of a quiet one."""


def body(number: int) -> bytes:
    return f"{number:08} ".encode().ljust(SIZE_BYTES, b"x")


class Writer:
    """Publishes numbered messages and waits for their confirms."""

    def __init__(self, channel: Channel, queue: str, number: int = 0) -> None:
        self._channel = channel
        self._queue = queue
        self._sent = 0
        self.number = number
        channel.confirm()

    def write(self, count: int) -> None:
        for first in range(0, count, WINDOW):
            tags = range(self._sent + 1, self._sent + 1 + min(WINDOW, count - first))
            for _ in tags:
                self._channel.publish("", self._queue, body(self.number), PERSISTENT)
                self.number += 1
            self._sent = tags[-1]
            self._channel.confirms(tags)

    def write_one(self) -> float:
        """The seconds until it was confirmed."""
        began = time.monotonic()
        self.write(1)
        return time.monotonic() - began


def see_everything(channel: Channel, queue: str, count: int) -> None:
    """Check that the queue has all messages, in order, and no others."""
    channel.call("basic.qos", prefetch_count=WINDOW)
    channel.consume(queue)
    for number in range(count):
        delivery = channel.expect("basic.deliver")
        assert delivery.body == body(number), (number, delivery.body[:9])
        if number % 100 == 99 or number == count - 1:
            channel.ack(delivery.delivery_tag, multiple=True)
    channel.expect_silence(queue)


def joined(master: NodeProcess, queue: str, mirror: NodeProcess) -> list[float]:
    """The time at which the mirror joined this master."""
    return _times(master, "mirror.joined", queue, mirror)


def _times(master: NodeProcess, event: str, queue: str, mirror: NodeProcess) -> list[float]:
    line = re.compile(rf'^time=(\S+) .*event={re.escape(event)} .*queue="{queue}" .*node={mirror.name} ', re.MULTILINE)
    return [datetime.fromisoformat(at).timestamp() for at in line.findall(master.log())]


def freeze_when_it_has_come(master: NodeProcess, queue: str, mirror: NodeProcess) -> None:
    """Start a mirror that was down, and suspend it during the backfill."""
    before = len(joined(master, queue, mirror))
    mirror.spawn()
    deadline = time.monotonic() + 60.0
    while len(joined(master, queue, mirror)) == before:
        assert time.monotonic() < deadline
    mirror.process.send_signal(signal.SIGSTOP)


def test_a_master_is_killed_while_one_of_two_mirrors_catches_up(trio: Trio) -> None:
    n1, n2, n3 = trio.nodes
    queue = "mirrored by three"
    mirror_everything(trio)
    declare(trio.channel(n1), queue, durable=True)
    await_in_sync(trio, [queue])
    writer = Writer(trio.channel(n2), queue)
    n3.kill()
    writer.write(BACKLOG)
    freeze_when_it_has_come(n1, queue, n3)
    n1.kill()
    assert n3.name not in standing(trio, queue).in_sync
    n3.process.send_signal(signal.SIGCONT)
    writer.write(100)
    n3.await_ready()
    n1.start()
    await_in_sync(trio, [queue])
    see_everything(trio.channel(n3), queue, writer.number)
    trio.channel(n1).call("queue.delete", queue=queue)


def test_a_master_is_killed_while_its_only_mirror_catches_up(trio: Trio) -> None:
    n1, n2, n3 = trio.nodes
    queue = "paired by two"
    wish = {"ha-mode": "nodes", "ha-params": [n1.name, n2.name], "ha-sync-mode": "automatic"}
    mirror_everything(trio, "^paired ", **wish)
    declare(trio.channel(n1), queue, durable=True)
    await_in_sync(trio, [queue], 2)
    writer = Writer(trio.channel(n3), queue)
    n2.kill()
    writer.write(BACKLOG)
    freeze_when_it_has_come(n1, queue, n2)
    n1.kill()
    n2.process.send_signal(signal.SIGCONT)
    n2.await_ready()
    n1.start()
    await_in_sync(trio, [queue], 2)
    # half a copy was not made the master
    assert standing(trio, queue).master == n1.name
    writer = Writer(trio.channel(n3), queue, writer.number)
    writer.write(100)
    see_everything(trio.channel(n2), queue, writer.number)
    trio.channel(n1).call("queue.delete", queue=queue)


def test_publishers_do_not_wait_for_a_mirror_that_catches_up(trio: Trio) -> None:
    n1, n2, n3 = trio.nodes
    queue = "mirrored and busy"
    mirror_everything(trio)
    declare(trio.channel(n1), queue, durable=True)
    await_in_sync(trio, [queue])
    n3.kill()
    writer = Writer(trio.channel(n1), queue)
    writer.write(BACKLOG)
    n3.spawn()
    confirms: list[tuple[float, float]] = []
    while not (came := _times(n1, "mirror.in_sync", queue, n3)[1:]):
        confirms += [(writer.write_one(), time.time()) for _ in range(20)]
    began, ended = joined(n1, queue, n3)[-1], came[-1]
    during = [took_s for took_s, at in confirms if at > began and at - took_s < ended]
    print(f"caught up in {ended - began:.2f} s; the slowest of {len(during)} confirms took {max(during):.3f} s")
    assert max(during) < CONFIRMED_S_MAX
    n3.await_ready()
    eventually(trio.is_whole, "all nodes reach one another")
    see_everything(trio.channel(n3), queue, writer.number)
    trio.channel(n2).call("queue.delete", queue=queue)
