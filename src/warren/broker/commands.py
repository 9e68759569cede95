"""Commands about what clients make and about clients themselves.

What is made by command is made by the node: nobody's permissions are asked, and what is there already stays as it is,
even if it is different.

Not here: what becomes of them (`broker.orders`), making things as a user, which is done by AMQP (`admin`).
"""

from typing import final

from warren.model.commands import Command
from warren.wire.values import Table


@final
class MakeExchange(Command):
    """Make an exchange, unless there is one of that name."""

    def __init__(
        self, vhost: str, name: str, type: str, durable: bool, auto_delete: bool, internal: bool, arguments: Table
    ) -> None:
        self.vhost = vhost
        self.name = name
        self.type = type
        self.durable = durable
        self.auto_delete = auto_delete
        self.internal = internal
        self.arguments = arguments


@final
class MakeQueue(Command):
    """Make a queue, unless there is one of that name."""

    def __init__(self, vhost: str, name: str, durable: bool, auto_delete: bool, arguments: Table) -> None:
        self.vhost = vhost
        self.name = name
        self.durable = durable
        self.auto_delete = auto_delete
        self.arguments = arguments


@final
class MakeBinding(Command):
    """Bind a queue or an exchange to an exchange, unless it is bound so."""

    def __init__(
        self,
        vhost: str,
        source: str,
        destination: str,
        destination_is_queue: bool,
        routing_key: str,
        arguments: Table,
    ) -> None:
        self.vhost = vhost
        self.source = source
        self.destination = destination
        self.destination_is_queue = destination_is_queue
        self.routing_key = routing_key
        self.arguments = arguments


@final
class SynchroniseMirrors(Command):
    """Let the mirrors of a queue whose master is here catch up."""

    def __init__(self, vhost: str, name: str) -> None:
        self.vhost = vhost
        self.name = name


@final
class StopSynchronising(Command):
    """Let them catch up no more, until that is asked for again."""

    def __init__(self, vhost: str, name: str) -> None:
        self.vhost = vhost
        self.name = name


@final
class RebalanceQueues(Command):
    """Spread the masters of mirrored queues evenly; answered with how many move."""


@final
class DismissConnection(Command):
    """End a client's connection; the reason is told to the client."""

    def __init__(self, connection_id: int, reason: str) -> None:
        self.connection_id = connection_id
        self.reason = reason


@final
class BeginSharing(Command):
    """Keep all plans back, because definitions move to a store that nodes share; `SharingReady` ends that.

    Answered with `PassingDefinitions` when everything that outlives the node is on its disk.
    """
