"""Whether those who move may do what a move does to each queue, by the permissions that both brokers tell.

At RabbitMQ the shovel of a queue consumes it. At Warren whoever moves declares an exchange and binds the queue to it
(`cli.migrate.destination`); the shovel itself may do everything there.

Of a user without permissions in a virtual host nothing is said here: he is not let in (`migrating.plan`,
`cli.migrate.rabbitmq`), or another backend of RabbitMQ knows him.

Not here: what permissions mean (`access.permissions`).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from warren.access.permissions import Permission
from warren.access.rights import DEFAULT_EXCHANGE
from warren.migrating.definitions import PERMISSIONS, Definition
from warren.migrating.queues import FoundQueue, QueueName
from warren.migrating.shovels import exchange_name

EVERYTHING: Final = ".*"


@dataclass(frozen=True)
class Lack:
    """A queue that a user cannot move, and what he may not do."""

    queue: QueueName
    user: str
    forbidden: str
    wanted: tuple[str, str, str]
    """Permissions with which he could: configure, write and read."""


def lacking_at_rabbitmq(queues: Iterable[FoundQueue], definitions: Iterable[Definition], user: str) -> list[Lack]:
    """Queues that the user of the shovels may not read."""
    held = _permissions(definitions, user)
    lacks = []
    for queue in _names(queues):
        own = held.get(queue.vhost)
        # an expression that only RabbitMQ understands proves nothing
        if own is not None and not own.reads.pattern.fault and not own.reads.lets_through(queue.name):
            lacks.append(Lack(queue, user, f"read queue {queue}", (own.configure, own.write, EVERYTHING)))
    return lacks


def lacking_at_warren(queues: Iterable[FoundQueue], definitions: Iterable[Definition], user: str) -> list[Lack]:
    """Queues that the user who moves may not lead an exchange of the move to."""
    held = _permissions(definitions, user)
    wanted = (EVERYTHING, EVERYTHING, EVERYTHING)
    return [
        Lack(queue, user, forbidden, wanted)
        for queue in _names(queues)
        if queue.vhost in held and (forbidden := _forbidden(queue, held[queue.vhost]))
    ]


def _forbidden(queue: QueueName, own: Permission) -> str:
    """The first thing that is; empty if nothing is."""
    road = exchange_name(queue)
    exchange = f"exchange '{road}' in '{queue.vhost}'"
    needed = (
        (own.writes.lets_through(queue.name), f"write to queue {queue}"),
        (own.configures.lets_through(road), f"configure {exchange}"),
        (own.reads.lets_through(road), f"read {exchange}"),
        # to say that the exchange has no alternate exchange is to name the default one
        (own.writes.lets_through(DEFAULT_EXCHANGE), f"write to exchange '{DEFAULT_EXCHANGE}' in '{queue.vhost}'"),
    )
    return next((what for allowed, what in needed if not allowed), "")


def _permissions(definitions: Iterable[Definition], user: str) -> dict[str, Permission]:
    """By virtual host."""
    own = [each for each in definitions if each.kind is PERMISSIONS and each.value.get("user") == user]
    return {each.vhost: _permission(each, user) for each in own}


def _permission(definition: Definition, user: str) -> Permission:
    configure, write, read = (str(definition.value.get(field, "")) for field in ("configure", "write", "read"))
    return Permission(user, definition.vhost, configure, write, read)


def _names(queues: Iterable[FoundQueue]) -> list[QueueName]:
    return [found.queue for found in queues]
