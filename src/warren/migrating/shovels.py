"""The shovels that carry queues' contents: one for each queue, so that each keeps its order.

A shovel is known by its name, `migrate-` and the queue's, in the queue's virtual host; what it says is the same each
time it is asked for, so that asking again changes nothing. It goes on until it is deleted.

Not here: what a shovel does (`bridges.shovels`).
"""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from warren.migrating.queues import FoundQueue, QueueName

PREFIX: Final = "migrate-"
PREFETCH: Final = 1000
RECONNECT_DELAY_S: Final = 1


def shovel_name(queue: QueueName) -> str:
    return f"{PREFIX}{queue.name}"


def shovel_value(found: FoundQueue, source_uri: str) -> dict[str, Any]:
    """What the shovel of a queue says; `source_uri` is RabbitMQ's, with the queue's virtual host in it."""
    queue = found.queue
    value: dict[str, Any] = {
        "src-protocol": "amqp091",
        "src-uri": source_uri,
        "src-queue": queue.name,
        "src-prefetch-count": PREFETCH,
        "src-delete-after": "never",
        "dest-protocol": "amqp091",
        "dest-uri": f"amqp:///{quote(queue.vhost, safe='')}",
        "dest-queue": queue.name,
        "dest-add-forward-headers": False,
        "ack-mode": "on-confirm",
        "reconnect-delay": RECONNECT_DELAY_S,
    }
    if found.is_stream:
        value["src-consumer-args"] = {"x-stream-offset": "first"}
    return value


def is_ours(name: str, value: Mapping[str, Any]) -> bool:
    """Whether a shovel that is there is one that carries contents over, and not somebody's own of such a name."""
    queue = value.get("src-queue")
    return queue == value.get("dest-queue") and name == f"{PREFIX}{queue}" and value.get("src-delete-after") == "never"


def with_vhost(uri: str, vhost: str) -> str:
    """An AMQP URI with this virtual host in place of its own."""
    before, question, options = uri.partition("?")
    scheme, _, rest = before.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}/{quote(vhost, safe='')}{question}{options}"
