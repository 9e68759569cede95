"""Whether what the broker refuses may work a little later.

After a failure the same calls are made again that worked before. Some of what is refused then passes: a queue whose
home is not there yet, an exclusive consumer of a connection whose end the broker has not noticed. What a person has
done meanwhile does not: a queue that was deleted, a permission that was taken away.

The broker gives both the same code, so its words count; they are those of RabbitMQ, which Warren has too.

Not here: the end of connections, of which `ConnectionClosed.retriable` tells.
"""

from typing import Final

from warren.client.errors import ChannelClosed
from warren.errors import ACCESS_REFUSED, NOT_FOUND, PRECONDITION_FAILED

HOME_IS_AWAY: Final = ("inaccessible", "stopped", "unavailable")
IN_USE: Final = "in exclusive use"


def may_pass(error: ChannelClosed) -> bool:
    """Whether it is worth asking again."""
    if error.code == NOT_FOUND:
        return any(words in error.text for words in HOME_IS_AWAY)
    if error.code == ACCESS_REFUSED:
        return IN_USE in error.text
    if error.code == PRECONDITION_FAILED:
        # a delivery that was not acked in time ends a channel, too; an argument that makes no sense never will
        return error.method not in ("basic.consume", "basic.qos")
    return True
