"""A method that needs an answer from another node.

Its frame waits at the head of the connection's input, and all that follows waits behind it. When the answer is there
the frame is handled again from its start, finds the answer, and goes on. So a channel has one question at a time; if
the frame comes to another end meanwhile, or its channel does, the answer is abandoned and what it brings goes back.

Not here: the questions (`broker.model.remote_queue`), methods that other nodes must agree to
(`broker.sessions.declares`).

What a publish comes to when a queue of it lives on another node, or may be about to go.

It is confirmed when the homes of all of them have said so, and nacked if one refuses, or is lost first. If none of them
can be reached it counts as unroutable, so that a mandatory one returns; unlike what finds no queue it is nacked, for
its queues are still to be expected back. And when too much is on its way there, the publisher waits.

Not here: the road of a publish (`broker.sessions.publishes`), which numbers wait for whom (`broker.sessions.confirms`).
"""

from mypy_extensions import i64

from warren.broker.model.ports import CONGESTED, PENDING, ConsumerPort, QueuePort
from warren.broker.model.remote_queue import (
    CANCEL,
    COUNT,
    IF_EMPTY,
    IF_UNUSED,
    PURGE,
    REMOVE,
    QueueAnswer,
    RemoteQueuePort,
)
from warren.broker.sessions.connection import Channel, Connection
from warren.broker.sessions.counters import PublishCounter


def answer_from_home(
    channel: Channel, queue: RemoteQueuePort, question: i64, consumer: ConsumerPort | None = None
) -> QueueAnswer | None:
    """What the queue's home says, a fault if it says so; None if the frame at hand waits for it."""
    known = answer_to(channel, queue, question)
    if known is None:
        channel.drop_question()
        channel.asked = queue.ask(question, channel.connection, consumer)
    elif known.done:
        channel.asked = None
        known.check()
        return known
    channel.connection.await_again()
    return None


def answer_to(channel: Channel, queue: RemoteQueuePort, question: i64) -> QueueAnswer | None:
    """What became of this question, if it is the one that the frame at hand asked before."""
    known = channel.asked
    return known if known is not None and known.queue is queue and known.question == question else None


def has_current_counts(channel: Channel, queue: QueuePort) -> bool:
    """Whether the queue's counts are those of this moment; if not, the frame at hand waits for them."""
    return not isinstance(queue, RemoteQueuePort) or answer_from_home(channel, queue, COUNT) is not None


def purged_count(channel: Channel, queue: QueuePort) -> int:
    """Purge a queue; how many messages went, or -1 if the frame at hand waits to know."""
    if not isinstance(queue, RemoteQueuePort):
        return queue.purge()
    answer = answer_from_home(channel, queue, PURGE)
    return -1 if answer is None else int(answer.ready)


def consumer_removed(channel: Channel, queue: QueuePort, consumer: ConsumerPort) -> bool:
    """Let a consumer go; False if the frame at hand waits for its home to know. One that is lost has let it go."""
    if not isinstance(queue, RemoteQueuePort):
        queue.remove_consumer(consumer)
        return True
    known = answer_to(channel, queue, CANCEL)
    if known is None and not queue.reachable():
        return True
    if known is not None and known.done:
        channel.asked = None
        return True
    return answer_from_home(channel, queue, CANCEL, consumer) is not None


def waits_for_removal(channel: Channel, queue: QueuePort) -> bool:
    """Whether the frame at hand waits because it is not decided whether the queue goes."""
    if queue.held_publishes is None or not queue.held_publishes.await_end(channel.connection):
        return False
    channel.connection.await_again()
    return True


def request_removal(channel: Channel, queue: RemoteQueuePort, if_empty: bool, if_unused: bool) -> None:
    """Have the home delete a queue if that is as it should be, since only the home can keep it so; the frame waits."""
    question: i64 = REMOVE
    if if_empty:
        question += IF_EMPTY
    if if_unused:
        question += IF_UNUSED
    channel.drop_question()
    channel.asked = queue.ask(question, channel.connection, None)
    channel.connection.await_again()


def removed_count(channel: Channel) -> int:
    """How many messages went with the queue whose removal the frame at hand asked for; -1 if it asked for none."""
    known = channel.asked
    if known is None or known.question < REMOVE or not known.done:
        return -1
    channel.asked = None
    known.check()
    return int(known.ready)


def any_accepts(queues: list[QueuePort]) -> bool:
    """Whether one of these queues can be given anything."""
    return any(not isinstance(queue, RemoteQueuePort) or queue.reachable() for queue in queues)


def hold_if_links_full(connection: Connection, queues: list[QueuePort], outcome: i64) -> None:
    """A connection that fills the links between nodes is not read until there is room again."""
    if outcome & CONGESTED == 0:
        return
    held = False
    for queue in queues:
        if isinstance(queue, RemoteQueuePort) and queue.await_room(connection):
            held = True
    if held:
        connection.await_answer()


def await_home_nodes(channel: Channel, queues: list[QueuePort], outcome: i64, counter: PublishCounter) -> None:
    """The next confirm waits for the homes of these queues, and for the disk if it must."""
    confirms = channel.confirms
    in_batch = outcome & PENDING != 0
    if len(queues) == 1 and not in_batch:
        confirms.remote(queues[0], channel, counter)
        return
    if in_batch:
        channel.await_batch()
    confirms.remote_to_all(queues_awaited(queues), in_batch, channel, counter)


def queues_awaited(queues: list[QueuePort]) -> list[QueuePort]:
    """Those among the queues of a publish that will tell what became of it."""
    return [queue for queue in queues if queue.answers_later()]
