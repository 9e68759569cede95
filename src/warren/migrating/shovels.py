"""The shovels that carry queues' contents: one for each queue, so that each keeps its order.

A message keeps its routing key, by which consumers know what it is about and dead letters find their way. So it is not
published to the queue by name, but to an exchange that was made for it and leads to that queue alone; a `CC` header
leads nowhere else there, either. If the queue goes the exchange leads nowhere: so publishes are mandatory, and what
comes back stays at RabbitMQ.

A shovel is known by its name, `migrate-` and the queue's, in the queue's virtual host; what it says is the same each
time it is asked for, so that asking again changes nothing. It goes on until it is deleted.

Not here: what a shovel does (`bridges.shovels`).
"""

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any, Final
from urllib.parse import quote

from warren.migrating.queues import FoundQueue, QueueName

SHOVEL: Final = "shovel"
"""The component of parameters that are shovels."""

PREFIX: Final = "migrate-"
PREFETCH: Final = 1000
RECONNECT_DELAY_S: Final = 1
NAME_OCTETS_MAX: Final = 255
MARK: Final = {"x-warren-migration": True}
"""Arguments by which what a move has made is known for certain: its consumers at RabbitMQ, its exchanges at Warren."""


def shovel_name(queue: QueueName) -> str:
    return f"{PREFIX}{queue.name}"


def exchange_name(queue: QueueName) -> str:
    """Of the exchange that leads to the queue; a queue's name may be as long as a name can be."""
    name = f"{PREFIX}{queue.name}"
    octets = name.encode("utf-8", "surrogateescape")
    return name if len(octets) <= NAME_OCTETS_MAX else f"{PREFIX}{sha256(octets).hexdigest()}"


def shovel_value(found: FoundQueue, source_uri: str) -> dict[str, Any]:
    """What the shovel of a queue says; `source_uri` is RabbitMQ's, with the queue's virtual host in it."""
    queue = found.queue
    value: dict[str, Any] = {
        "src-protocol": "amqp091",
        "src-uri": source_uri,
        "src-queue": queue.name,
        "src-prefetch-count": PREFETCH,
        "src-consumer-args": dict(MARK),
        "src-delete-after": "never",
        "dest-protocol": "amqp091",
        "dest-uri": f"amqp:///{quote(queue.vhost, safe='')}",
        "dest-exchange": exchange_name(queue),
        "dest-mandatory": True,
        "dest-add-forward-headers": False,
        "ack-mode": "on-confirm",
        "reconnect-delay": RECONNECT_DELAY_S,
    }
    if found.is_stream:
        value["src-consumer-args"] = {**MARK, "x-stream-offset": "first"}
    return value


def is_ours(name: str, value: Mapping[str, Any]) -> bool:
    """Whether a shovel that is there is one that carries contents over, and not somebody's own of such a name."""
    queue = QueueName("", str(value.get("src-queue")))
    return name == shovel_name(queue) and value.get("dest-exchange") == exchange_name(queue)


def shovels_of_others(parameters: Iterable[Mapping[str, Any]]) -> list[QueueName]:
    """Shovels of somebody's own, by virtual host and name, with a name such as those of a move have."""
    return [
        QueueName(each["vhost"], each["name"])
        for each in parameters
        if each["component"] == SHOVEL and each["name"].startswith(PREFIX) and not is_ours(each["name"], each["value"])
    ]


def with_roads_of_others(queues: Iterable[QueueName], exchanges: Iterable[Mapping[str, Any]]) -> list[QueueName]:
    """Queues whose exchange would have a name that somebody's own exchange has."""
    others = {(each["vhost"], each["name"]) for each in exchanges if not is_marked(each.get("arguments"))}
    return [queue for queue in queues if (queue.vhost, exchange_name(queue)) in others]


def is_marked(arguments: object) -> bool:
    """Whether arguments say that a move has made what they belong to. RabbitMQ writes none at all as a list."""
    return isinstance(arguments, Mapping) and all(arguments.get(name) == value for name, value in MARK.items())


def with_vhost(uri: str, vhost: str) -> str:
    """An AMQP URI with this virtual host in place of its own."""
    before, question, options = uri.partition("?")
    scheme, _, rest = before.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}/{quote(vhost, safe='')}{question}{options}"
