"""The messages of a queue, taken by a blocking client."""

from warren.client import Delivery, blocking


def taken(channel: blocking.Channel, queue: str, count: int | None = None) -> list[Delivery]:
    """All ready messages of a queue; they must be `count`, if that is given."""
    ready = channel.declare_queue(queue, passive=True).messages
    assert count in (None, ready)
    consumer = channel.consume(queue, no_ack=True)
    found: list[Delivery] = []
    while len(found) < ready:
        batch = consumer.batch(10.0)
        assert batch
        found += batch
    consumer.cancel()
    return found
