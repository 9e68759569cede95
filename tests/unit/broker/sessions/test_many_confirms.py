"""The cost of sending a confirm does not depend on how many others wait."""

import time

from librt.strings import BytesWriter

from tests.unit.broker.links.linked import Together
from warren.broker.model.message import Envelope, Message
from warren.broker.sessions.confirms import Confirms

FEW, MANY = 500, 20_000
MEASURED = 200


def seconds_to_confirm(waiting: int) -> float:
    """The time to send some confirms one by one, while `waiting` publishes alternate between two queues."""
    nodes = Together("here", "there")
    for name in ("a", "b"):
        nodes.place(name, "there")
    queues = [nodes["here"].remote(name) for name in ("a", "b")]
    client = nodes.client("here")
    channel = nodes["here"].connections[client.number].channels[1]
    counter = channel.counters.of_exchange(channel.vhost.topology.exchanges[""])
    confirms, message = Confirms(), Message(Envelope("", ""), b"", 1, 0, 0)
    for place in range(waiting):
        queues[place % 2].publish(message)
        confirms.remote(queues[place % 2], channel, counter)
    begun_s = time.process_time()
    for number in range(1, MEASURED + 1):
        for queue in queues:
            queue.settled_to(number, 0)
            confirms.send(BytesWriter(), 1)
    return time.process_time() - begun_s


def test_sending_a_confirm_takes_as_long_whether_few_others_wait_or_many() -> None:
    few_s = min(seconds_to_confirm(FEW) for _ in range(3))
    many_s = min(seconds_to_confirm(MANY) for _ in range(3))
    # a scan of all of them would take forty times as long
    assert many_s < 8 * few_s
