"""A client whose messages cost much to route: others are served meanwhile.

Not here: the routes themselves (`tests/property/test_routing_topic.py`).
"""

import random

import pika

from tests.hostile.bystanders import Bystanders
from tests.support.node_process import NodeProcess

BINDINGS = 200
MESSAGES = 5
KEYS = 256


def test_messages_with_many_keys_through_many_wildcards_cost_others_nothing(node: NodeProcess) -> None:
    draw = random.Random(19)
    host, port = node.amqp
    with (
        Bystanders(node) as pair,
        pika.BlockingConnection(pika.ConnectionParameters(host, port)) as connection,
    ):
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("wide")
        for _ in range(BINDINGS):
            words = [draw.choice(["a", "*", "#"]) for _ in range(125)]
            channel.queue_bind("wide", "amq.topic", ".".join(["#", *words, "z"]))
        copies = [".".join(["a"] * 120) + f".{number}" for number in range(KEYS)]
        properties = pika.BasicProperties(headers={"CC": copies})
        for _ in range(MESSAGES):
            channel.basic_publish("amq.topic", "none", b"", properties)
        pair.wait_for_rounds(20)
