"""A method that needs an answer from another node.

Its frame waits at the head of the connection's input, and all that follows waits behind it. When the answer is there
the frame is handled again from its start, finds the answer, and goes on. So a channel has one question at a time; if
the frame comes to another end meanwhile, or its channel does, the answer is abandoned and what it brings goes back.

Not here: the questions (`model.distant`), methods that other nodes must agree to (`session.agreeing`).
"""

from typing import TYPE_CHECKING

from mypy_extensions import i64

from warren.model.distant import CANCEL, COUNT, IF_EMPTY, IF_UNUSED, PURGE, REMOVE, Answer, DistantQueue
from warren.model.ports import Consumer, QueuePort

if TYPE_CHECKING:
    from warren.session.channel import Channel


def answer_of(
    channel: "Channel", queue: DistantQueue, question: i64, consumer: Consumer | None = None
) -> Answer | None:
    """What the queue's home says, a fault if it says so; None if the frame at hand waits for it."""
    known = asked(channel, queue, question)
    if known is None:
        end(channel)
        channel.asked = queue.ask(question, channel.connection, consumer)
    elif known.done:
        channel.asked = None
        known.check()
        return known
    channel.connection.await_again()
    return None


def asked(channel: "Channel", queue: DistantQueue, question: i64) -> Answer | None:
    """What became of this question, if it is the one that the frame at hand asked before."""
    known = channel.asked
    return known if known is not None and known.queue is queue and known.question == question else None


def counts_at_hand(channel: "Channel", queue: QueuePort) -> bool:
    """Whether the queue's counts are those of this moment; if not, the frame at hand waits for them."""
    return not isinstance(queue, DistantQueue) or answer_of(channel, queue, COUNT) is not None


def purged_count(channel: "Channel", queue: QueuePort) -> int:
    """Purge a queue; how many messages went, or -1 if the frame at hand waits to know."""
    if not isinstance(queue, DistantQueue):
        return queue.purge()
    answer = answer_of(channel, queue, PURGE)
    return -1 if answer is None else int(answer.ready)


def has_left(channel: "Channel", queue: QueuePort, consumer: Consumer) -> bool:
    """Let a consumer go; False if the frame at hand waits for its home to know. One that is lost has let it go."""
    if not isinstance(queue, DistantQueue):
        queue.remove_consumer(consumer)
        return True
    known = asked(channel, queue, CANCEL)
    if known is None and not queue.reachable():
        return True
    if known is not None and known.done:
        channel.asked = None
        return True
    return answer_of(channel, queue, CANCEL, consumer) is not None


def decided_elsewhere(channel: "Channel", queue: QueuePort) -> bool:
    """Whether the frame at hand waits because it is not decided whether the queue goes."""
    if queue.withheld is None or not queue.withheld.await_end(channel.connection):
        return False
    channel.connection.await_again()
    return True


def ask_removal(channel: "Channel", queue: DistantQueue, if_empty: bool, if_unused: bool) -> None:
    """Have the home delete a queue if that is as it should be, since only the home can keep it so; the frame waits."""
    question: i64 = REMOVE
    if if_empty:
        question += IF_EMPTY
    if if_unused:
        question += IF_UNUSED
    end(channel)
    channel.asked = queue.ask(question, channel.connection, None)
    channel.connection.await_again()


def removed_count(channel: "Channel") -> int:
    """How many messages went with the queue whose removal the frame at hand asked for; -1 if it asked for none."""
    known = channel.asked
    if known is None or known.question < REMOVE or not known.done:
        return -1
    channel.asked = None
    known.check()
    return int(known.ready)


def end(channel: "Channel") -> None:
    """Nobody waits for the answer any more."""
    answer = channel.asked
    if answer is None:
        return
    channel.asked = None
    waited = not answer.done
    answer.queue.abandon(answer)
    if waited:
        # what follows on the connection has nothing to wait for
        channel.node.turn.inputs.append(channel.connection)
