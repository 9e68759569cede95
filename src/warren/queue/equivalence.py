"""Whether declaring a queue that exists asks for the queue that exists.

`exclusive` is compared first, then `durable` and `auto_delete`, then the arguments that the queue's type knows;
what it does not know is ignored.

Not here: whether arguments are acceptable at all (`queue.arguments`); a redeclaration is only compared.
"""

from typing import Final

from warren.errors import RESOURCE_LOCKED, ChannelFault
from warren.model.equivalence import compare_argument, compare_flag
from warren.model.ports import QueuePort
from warren.queue.arguments import known_arguments, type_of
from warren.wire.values import Table

COMPARED_FIRST: Final = "x-queue-type"


def check_equivalent(queue: QueuePort, durable: bool, exclusive: bool, auto_delete: bool, arguments: Table) -> None:
    """Raise the `ChannelFault` RabbitMQ would, for the first thing that differs."""
    where = f"queue '{queue.name}' in vhost '{queue.vhost}'"
    if exclusive != queue.exclusive:
        raise locked(queue)
    compare_flag("durable", durable, queue.durable, where)
    compare_flag("auto_delete", auto_delete, queue.auto_delete, where)
    if not arguments and not queue.arguments:
        return
    if arguments.get(COMPARED_FIRST, "classic") != queue.arguments.get(COMPARED_FIRST, "classic"):
        compare_argument(COMPARED_FIRST, arguments, queue.arguments, where)
    for name in known_arguments(type_of(queue.arguments)):
        if name != COMPARED_FIRST:
            compare_argument(name, arguments, queue.arguments, where)


def locked(queue: QueuePort) -> ChannelFault:
    """What a connection is told that touches an exclusive queue of another one, or mistakes one for the other."""
    return ChannelFault(
        RESOURCE_LOCKED,
        f"cannot obtain exclusive access to locked queue '{queue.name}' in vhost '{queue.vhost}'. It could be "
        "originally declared on another connection or the exclusive property value does not match "
        "that of the original declaration.",
    )
