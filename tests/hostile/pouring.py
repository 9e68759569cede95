"""Publishing faster than a node can like.

Not here: who it is for (`test_greed`, `test_hoarding`).
"""

import contextlib

from tests.hostile.observing import MEGABYTE
from tests.support.amqp_client import Connection
from tests.support.amqp_frames import BODY, HEADER, METHOD, frame
from tests.support.amqp_methods import write_method

WATERMARK_BYTES = 150 * MEGABYTE
BODY_BYTES = 100_000


def publish_frames(queue: str, body: bytes, mandatory: bool = False) -> bytes:
    method = write_method("basic.publish", {"routing_key": queue, "mandatory": mandatory})
    header = b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + b"\x00\x00"
    return frame(METHOD, 1, method) + frame(HEADER, 1, header) + frame(BODY, 1, body)


def pour(connection: Connection, message: bytes, count: int) -> None:
    """Publish until the node stops reading for two seconds."""
    sender = connection.socket.dup()
    sender.settimeout(2)
    with contextlib.suppress(TimeoutError):
        for _ in range(count):
            sender.sendall(message)
    sender.close()
