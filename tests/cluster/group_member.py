"""A member of a consumer group, as a process that can be killed: it writes down its deliveries and its acks.

    python -m tests.cluster.group_member HOST PORT STREAM NAME FILE

Each line is a moment of the machine's clock, `got` or `acked`, a partition, an offset, a routing key and a body. An ack
is written down before it is sent, a delivery after it came. A cancelled member writes that down, and ends.
"""

import os
import sys
import time
from pathlib import Path

from tests.support.amqp_client import Connection, Received

PREFETCH = 5
WORK_S = 0.001
PATIENCE_S = 600.0


class Diary:
    """Lines that are there even if the process is killed after writing one."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, what: str, delivery: Received) -> None:
        place = f"{delivery.headers['x-stream-partition']} {delivery.headers['x-stream-offset']}"
        self.say(f"{what} {place} {delivery.routing_key} {delivery.body.decode()}")

    def say(self, words: str) -> None:
        os.write(self._file, f"{time.monotonic():.6f} {words}\n".encode())


def attend(address: tuple[str, int], stream: str, name: str, diary: Diary) -> None:
    connection = Connection.opened(address, capabilities={"consumer_cancel_notify": True})
    channel = connection.channel()
    channel.call("basic.qos", prefetch_count=PREFETCH)
    channel.consume(stream, arguments={"x-stream-group": "g", "x-stream-member": name})
    diary.say("attends 0 0 - -")
    while True:
        delivery = channel.next(PATIENCE_S)
        if delivery.name != "basic.deliver":
            diary.say(f"{delivery.name} 0 0 - -")
            return
        diary.write("got", delivery)
        time.sleep(WORK_S)
        diary.write("acked", delivery)
        channel.ack(delivery.delivery_tag)


if __name__ == "__main__":
    host, port, stream, name, file = sys.argv[1:]
    attend((host, int(port)), stream, name, Diary(Path(file)))
