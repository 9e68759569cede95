"""The virtual host the recorded conversations are about: a few things of each kind, made by a client.

Not here: the commands about them (`conversations/`).
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pika
import pika.exceptions

VHOST = "ctl-shop"


@contextmanager
def open_shop(port: int) -> Iterator[pika.BlockingConnection]:
    """Make everything, and keep the connection and its consumer."""
    parameters = pika.ConnectionParameters(
        "127.0.0.1", port, VHOST, heartbeat=600, client_properties={"connection_name": "the shop"}
    )
    connection = pika.BlockingConnection(parameters)
    try:
        _furnish(connection)
        yield connection
    finally:
        with suppress(pika.exceptions.AMQPError):
            connection.close()


def _furnish(connection: pika.BlockingConnection) -> None:
    channel = connection.channel()
    channel.confirm_delivery()
    channel.basic_qos(prefetch_count=7)
    channel.exchange_declare("ex.direct", "direct", durable=True)
    channel.exchange_declare("ex.topic", "topic", arguments={"alternate-exchange": "ex.direct"})
    channel.exchange_declare("ex.inner", "fanout", internal=True, auto_delete=True)
    channel.queue_declare("orders", durable=True)
    channel.queue_declare("a/b %é", arguments={"x-max-priority": 5, "x-message-ttl": 60000, "x-queue-mode": "lazy"})
    channel.queue_declare("used")
    channel.queue_bind("orders", "ex.direct", "new", {"x": 1, "y": "z"})
    channel.queue_bind("a/b %é", "ex.topic", "a.*.#")
    channel.exchange_bind("ex.inner", "ex.topic", "#.inner")
    for number in range(3):
        channel.basic_publish("", "orders", f"order {number}".encode(), pika.BasicProperties(delivery_mode=2))
    channel.basic_consume("used", lambda *delivery: None, consumer_tag="till")
