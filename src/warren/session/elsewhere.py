"""What a publish comes to when a queue of it lives on another node, or may be about to go.

It is confirmed when the homes of all of them have said so, and nacked if one refuses, or is lost first. If none of them
can be reached it counts as unroutable, so that a mandatory one returns; unlike what finds no queue it is nacked, for
its queues are still to be expected back. And when too much is on its way there, the publisher waits.

Not here: the road of a publish (`session.publishing`), which numbers wait for whom (`session.confirms`).
"""

from typing import TYPE_CHECKING

from mypy_extensions import i64

from warren.model.distant import DistantQueue
from warren.model.ports import CROWDED, PENDING, QueuePort
from warren.session.tallies import PublishTally

if TYPE_CHECKING:
    from warren.session.channel import Channel
    from warren.session.connection import Connection


def any_takes(queues: list[QueuePort]) -> bool:
    """Whether one of these queues can be given anything."""
    return any(not isinstance(queue, DistantQueue) or queue.reachable() for queue in queues)


def hold_if_crowded(connection: "Connection", queues: list[QueuePort], outcome: i64) -> None:
    """A connection that fills the links between nodes is not read until there is room again."""
    if outcome & CROWDED == 0:
        return
    held = False
    for queue in queues:
        if isinstance(queue, DistantQueue) and queue.await_room(connection):
            held = True
    if held:
        connection.await_answer()


def await_homes(channel: "Channel", queues: list[QueuePort], outcome: i64, tally: PublishTally) -> None:
    """The next confirm waits for the homes of these queues, and for the disk if it must."""
    confirms = channel.confirms
    in_batch = outcome & PENDING != 0
    if len(queues) == 1 and not in_batch:
        confirms.elsewhere(queues[0], channel, tally)
        return
    if in_batch:
        channel.await_batch()
    confirms.elsewhere_too(awaited(queues), in_batch, channel, tally)


def awaited(queues: list[QueuePort]) -> list[QueuePort]:
    """Those among the queues of a publish that will tell what became of it."""
    return [queue for queue in queues if queue.answers_later()]
