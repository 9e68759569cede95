"""How far readers with a name have come is still known when the node is back."""

import time

from tests.durability.visiting import declare, store, visit
from tests.support.node_process import NodeProcess

DEADLINE_S = 60.0
WISHES = {"x-stream-consumer-name": "n", "x-stream-offset": "stored"}


def where(node: NodeProcess) -> int:
    """Where the next reader of that name would begin."""
    with visit(node) as channel:
        channel.call("basic.qos", prefetch_count=1)
        channel.consume("s", arguments={**WISHES, "x-stream-probe": True})
        offset: int = channel.expect("basic.deliver", DEADLINE_S).headers["x-stream-offset"]
        return offset


def test_a_name_is_known_after_the_node_was_gone(node: NodeProcess, again: str) -> None:
    declare(node, "s", {"x-queue-type": "stream"})
    store(node, "s", [b"%d" % number for number in range(20)])
    with visit(node) as channel:
        channel.call("basic.qos", prefetch_count=20)
        channel.consume("s", arguments=WISHES)
        got = channel.deliveries(20, DEADLINE_S)
        channel.ack(got[6].delivery_tag, multiple=True)
        channel.ack(got[9].delivery_tag)
        deadline = time.monotonic() + DEADLINE_S
        while where(node) != 7:
            assert time.monotonic() < deadline, "the offset of the last ack is not stored"
    # the offset is written down; a later confirm shows that it is flushed
    store(node, "s", [b"more"])
    getattr(node, again)()
    assert where(node) == 7
