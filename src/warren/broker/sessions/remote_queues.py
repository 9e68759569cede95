"""Methods and publishes that need a queue of another node.

A method that needs an answer from the queue's home node waits: its frame stays at the head of the connection's input,
and all that follows waits behind it. When the answer is there, the frame is handled again from its start and finds the
answer. So a channel has one question at a time. If the frame ends otherwise, or the channel is closed, the answer is
abandoned, and an entry in it is requeued.

A publish is confirmed when the home nodes of all its queues have settled it, and nacked if one rejects it or is lost
first. If no home node can be reached the publish counts as unroutable, so that a mandatory one is returned. It is
nacked nevertheless, because its queues will come back. When the links are full the publisher waits.

Not here: the questions (`broker.model.remote_queue`), methods that wait for a metadata transaction
(`broker.sessions.declares`), which confirms wait for which queue (`broker.sessions.confirms`).
"""

from mypy_extensions import i64

from warren.broker.model.ports import PENDING, ConsumerPort, QueuePort
from warren.broker.model.remote_queue import (
    CANCEL,
    COUNT,
    GET_NO_ACK,
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
    """The answer of the queue's home node, or its fault; None if the current frame waits for it."""
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
    """The question and its answer, if the current frame asked it before."""
    known = channel.asked
    if known is None or known.question != question:
        return None
    return known if known.queue is queue or _went_to_predecessor(known, queue) else None


def _went_to_predecessor(known: QueueAnswer, queue: RemoteQueuePort) -> bool:
    """Whether this purge or get without acks went to the proxy from before the queue was mirrored.

    It is not asked again, because the home removes the messages before its answer is here.
    """
    removes = known.question in (PURGE, GET_NO_ACK)
    return removes and known.fault is None and known.queue.queue_id == queue.queue_id


def has_current_counts(channel: Channel, queue: QueuePort) -> bool:
    """Whether the queue's counts are current; if not, the current frame waits for them."""
    return not isinstance(queue, RemoteQueuePort) or answer_from_home(channel, queue, COUNT) is not None


def purged_count(channel: Channel, queue: QueuePort) -> int:
    """Purge a queue; how many messages were removed, or -1 if the current frame waits for the answer."""
    if not isinstance(queue, RemoteQueuePort):
        return queue.purge()
    answer = answer_from_home(channel, queue, PURGE)
    return -1 if answer is None else int(answer.ready)


def consumer_removed(channel: Channel, queue: QueuePort, consumer: ConsumerPort) -> bool:
    """Remove a consumer; False if the current frame waits for the home node. A lost home node has removed it."""
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
    """Whether the current frame waits because a delete of the queue is undecided."""
    if queue.held_publishes is None or not queue.held_publishes.await_end(channel.connection):
        return False
    channel.connection.await_again()
    return True


def request_removal(channel: Channel, queue: RemoteQueuePort, if_empty: bool, if_unused: bool) -> None:
    """Ask the home node, which alone can keep the queue so, to delete it if it is empty or unused; the frame waits."""
    question: i64 = REMOVE
    if if_empty:
        question += IF_EMPTY
    if if_unused:
        question += IF_UNUSED
    channel.drop_question()
    channel.asked = queue.ask(question, channel.connection, None)
    channel.connection.await_again()


def removed_count(channel: Channel) -> int:
    """How many messages the queue had whose removal the current frame asked for; -1 if it asked for none."""
    known = channel.asked
    if known is None or known.question < REMOVE or not known.done:
        return -1
    channel.asked = None
    known.check()
    return int(known.ready)


def any_accepts(queues: list[QueuePort]) -> bool:
    """Whether one of the queues accepts publishes."""
    return any(not isinstance(queue, RemoteQueuePort) or queue.reachable() for queue in queues)


def hold_while_links_full(connection: Connection, queues: list[QueuePort]) -> None:
    """Hold the input of a connection that fills the links between nodes, until they have room."""
    held = False
    for queue in queues:
        if isinstance(queue, RemoteQueuePort) and queue.await_room(connection):
            held = True
    if held:
        connection.await_answer()


def await_home_nodes(channel: Channel, queues: list[QueuePort], outcome: i64, counter: PublishCounter) -> None:
    """Let the next confirm wait for the home nodes of these queues, and for the disk if it must."""
    in_batch = outcome & PENDING != 0
    if in_batch:
        channel.await_batch()
    channel.confirms.remote_to_all(queues_awaited(queues), in_batch, channel, counter)


def queues_awaited(queues: list[QueuePort]) -> list[QueuePort]:
    """The queues of a publish that settle it later."""
    return [queue for queue in queues if queue.answers_later()]
