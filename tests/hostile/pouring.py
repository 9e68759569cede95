"""Publishing faster than a node can accept.

Not here: the tests that use it (`test_greed`, `test_hoarding`).
"""

import time

from tests.hostile.observing import DEADLINE_S, MEGABYTE
from tests.support.amqp_client import Connection
from tests.support.amqp_frames import BODY, HEADER, METHOD, frame
from tests.support.amqp_methods import write_method
from tests.support.node_process import NodeProcess

WATERMARK_BYTES = 150 * MEGABYTE
BODY_BYTES = 100_000


def publish_frames(queue: str, body: bytes, mandatory: bool = False) -> bytes:
    method = write_method("basic.publish", {"routing_key": queue, "mandatory": mandatory})
    header = b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + b"\x00\x00"
    return frame(METHOD, 1, method) + frame(HEADER, 1, header) + frame(BODY, 1, body)


def is_alarmed(node: NodeProcess) -> bool:
    return " event=alarm.raised" in node.log()


def pour(node: NodeProcess, connection: Connection, message: bytes, count: int) -> None:
    """Publish until the node, short of memory, stops reading for two seconds."""
    deadline = time.monotonic() + DEADLINE_S
    with connection.socket.dup() as sender:
        sender.settimeout(2)
        for _ in range(count):
            rest = memoryview(message)
            while rest:
                try:
                    rest = rest[sender.send(rest) :]
                except TimeoutError:
                    # a node that has not raised the alarm only waits for the processor
                    if is_alarmed(node) or time.monotonic() > deadline:
                        return
