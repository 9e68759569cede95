"""Consumers that a queue had before it was mirrored go on with its seat when the master is another node.

Not here: those that came later (`remote.seated_consumer`).
"""

from warren.model.own_queue import OwnQueue
from warren.remote.seat import Seat
from warren.session.consumer import ChannelConsumer


def move_consumers(queue: OwnQueue, seat: Seat) -> None:
    """The queue of this node's is about to close, and lives elsewhere."""
    places = {consumer: queue.begins_at(consumer) for consumer, _served in queue.consumers()}
    for consumer in queue.dismiss():
        if isinstance(consumer, ChannelConsumer):
            seat.take_over(consumer, places.get(consumer, -1))
        else:
            consumer.cancelled()
