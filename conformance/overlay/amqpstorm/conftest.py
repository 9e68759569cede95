"""Cleans up after each test over AMQP, where the suite would use the HTTP API: the jail holds AMQP alone."""

from amqpstorm import AMQPChannelError, Connection
from amqpstorm.tests import HOST, PASSWORD, USERNAME
from amqpstorm.tests.functional import utility


def clean(names: list[str], queue: bool = False, exchange: bool = False) -> None:
    if not queue and not exchange:
        return
    with Connection(HOST, USERNAME, PASSWORD) as connection:
        for name in names:
            # A channel for each: a queue exclusive to the test's connection costs the channel, and goes with the test.
            channel = connection.channel()
            try:
                if queue:
                    channel.queue.delete(name)
                if exchange:
                    channel.exchange.delete(name)
            except AMQPChannelError:
                pass


utility.clean = clean
