"""Whether a queue may be deleted by somebody who sets a condition.

Not here: keeping the condition true while others agree (`broker.departures`), the deletion (`broker.vhost`).
"""

from warren.errors import PRECONDITION_FAILED, ChannelFault
from warren.model.ports import QueuePort


def check_removable(queue: QueuePort, if_empty: bool, if_unused: bool) -> None:
    """Raise the `ChannelFault` RabbitMQ would if the queue has messages, or consumers, and must not."""
    queue.drain()
    where = f"queue '{queue.name}' in vhost '{queue.vhost}'"
    if if_empty and queue.ready_count():
        raise ChannelFault(PRECONDITION_FAILED, f"{where} not empty")
    if if_unused and queue.consumer_count():
        raise ChannelFault(PRECONDITION_FAILED, f"{where} in use")
