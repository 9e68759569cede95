"""A publisher repeats all unconfirmed messages with the same ids, on a node that is killed again and again: each
message is in its queues once, and none is missing.

`WARREN_KILLS` sets how often the node is killed.
"""

import os
import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import pytest

from tests.durability.repeating import Repeater
from tests.durability.siege import SMALL_SEGMENT_BYTES, altered_node
from tests.durability.visiting import DEADLINE_S, bodies, taken, visit
from tests.support.amqp_client import Connection, ServerHungUp
from tests.support.node_process import NodeProcess

KILLS = int(os.environ.get("WARREN_KILLS", "2"))
KEPT, TAKEN, STREAM = "kept", "taken", "stream"


class Taker(threading.Thread):
    """Acks every delivery, and counts those that are not redelivered."""

    def __init__(self, node: NodeProcess, fresh: Counter[bytes]) -> None:
        super().__init__(daemon=True)
        self._address = node.amqp
        self._fresh = fresh

    def run(self) -> None:
        # the node may be killed before it has ever answered
        with suppress(OSError, ServerHungUp):
            connection = Connection(self._address, DEADLINE_S)
            try:
                self._take(connection)
            finally:
                connection.cut()

    def _take(self, connection: Connection) -> NoReturn:
        connection.shake_hands("/")
        channel = connection.channel()
        channel.call("basic.qos", prefetch_count=50)
        channel.consume(TAKEN)
        while True:
            delivery = channel.expect("basic.deliver", DEADLINE_S)
            if not delivery.redelivered:
                self._fresh[delivery.body] += 1
            channel.ack(delivery.delivery_tag)


def in_stream(node: NodeProcess, count: int) -> Iterator[bytes]:
    """The first so many, and no more."""
    with visit(node) as channel:
        channel.call("basic.qos", prefetch_count=1_000)
        channel.consume(STREAM, arguments={"x-stream-offset": "first"})
        for _ in range(count):
            delivery = channel.expect("basic.deliver", DEADLINE_S)
            yield delivery.body
            channel.ack(delivery.delivery_tag)
    with visit(node) as channel:
        assert channel.counts(STREAM) == (count, 0)


def declare(node: NodeProcess) -> None:
    with visit(node) as channel:
        channel.call("exchange.declare", exchange="all", type="fanout", durable=True)
        for queue in (KEPT, TAKEN, STREAM):
            arguments = {"x-queue-type": "stream"} if queue == STREAM else {}
            channel.call("queue.declare", queue=queue, durable=True, arguments=arguments)
            channel.call("queue.bind", queue=queue, exchange="all")


@pytest.mark.timeout(240 + 10 * KILLS)
def test_a_publisher_that_repeats_unconfirmed_messages_publishes_exactly_once(tmp_path: Path) -> None:
    chance = random.Random(KILLS)
    node = altered_node(tmp_path, SMALL_SEGMENT_BYTES)
    fresh: Counter[bytes] = Counter()
    repeater = Repeater("p", "all", "", KILLS)
    try:
        declare(node)
        kills = 0
        # on a busy machine the node may die before it has confirmed anything
        while kills < KILLS or not repeater.repeated:
            kills += 1
            taker = Taker(node, fresh)
            taker.start()
            killer = threading.Timer(chance.uniform(0.1, 1.0), node.kill)
            killer.start()
            repeater.live(node.amqp)
            killer.join()
            taker.join()
            node.start()
        repeater.finish(node.amqp)
        wanted = [b"%d" % number for number in range(repeater.next_id)]
        assert sorted(bodies(node, KEPT)) == sorted(wanted)
        assert sorted(in_stream(node, len(wanted))) == sorted(wanted)
        fresh.update(message.body for message in taken(node, TAKEN) if not message.redelivered)
        assert [body for body, times in fresh.items() if times > 1] == []
        # only the ids of the taken messages are known
        repeater.unsure = dict.fromkeys(range(repeater.next_id))
        repeater.finish(node.amqp)
        assert bodies(node, TAKEN) == bodies(node, KEPT) == []
    except BaseException:
        node.kill()
        raise
    node.stop()
    assert repeater.repeated > repeater.next_id
