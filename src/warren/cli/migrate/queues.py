"""RabbitMQ's queues as they are found, and which of them have their contents carried over.

A shovel is a consumer. So what RabbitMQ does to a queue when its consumer's connection breaks decides whether its
contents are safe on the way: an auto-delete queue would be deleted with all that is left in it.

Not here: the shovels (`cli.migrate.queues`), what queues are made of (`cli.migrate.definitions`).

The shovels that carry queues' contents: one for each queue, so that each keeps its order.

A message keeps its routing key, by which consumers know what it is about and dead letters find their way. So it is not
published to the queue by name, but to an exchange that was made for it and leads to that queue alone; a `CC` header
leads nowhere else there, either. If the queue goes the exchange leads nowhere: so publishes are mandatory, and what
comes back stays at RabbitMQ.

A shovel is known by its name, `migrate-` and the queue's, in the queue's virtual host; what it says is the same each
time it is asked for, so that asking again changes nothing. It goes on until it is deleted.

Not here: what a shovel does (`bridges.shovels`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final
from urllib.parse import quote

from warren.broker.queues.arguments import STREAM

EXPIRES: Final = "x-expires"
SINGLE_ACTIVE: Final = "x-single-active-consumer"
RUNNING: Final = "running"
WORKING: Final = (RUNNING, "live", "idle", "flow", "syncing")
"""States of a queue that RabbitMQ can count and give away. Of others (down, crashed, stopped, recovering, minority) it
says at best that it cannot, and at worst that they are empty."""


@dataclass(frozen=True, order=True)
class QueueName:
    vhost: str
    name: str

    def __str__(self) -> str:
        return f"'{self.name}' in '{self.vhost}'"


@dataclass(frozen=True)
class FoundQueue:
    """One queue of RabbitMQ, as its HTTP API shows it."""

    queue: QueueName
    messages: int = 0
    unacked: int = 0
    consumers: int = 0
    type: str = "classic"
    exclusive: bool = False
    auto_delete: bool = False
    expires: bool = False
    single_active: bool = False
    state: str = RUNNING
    node: str = ""

    @property
    def is_away(self) -> bool:
        """Whether RabbitMQ itself does not reach it, as its node is down or it has crashed."""
        return self.state not in WORKING

    @property
    def is_stream(self) -> bool:
        return self.type == STREAM


@dataclass(frozen=True)
class UnmovedQueue:
    """A queue whose contents are not carried, and why."""

    found: FoundQueue
    reason: str


def found_queue(row: Mapping[str, Any]) -> FoundQueue:
    """A row of `GET /api/queues`. One that was just made, or whose node is away, has no counts."""
    arguments = row.get("arguments") or {}
    policy = row.get("effective_policy_definition") or {}
    return FoundQueue(
        QueueName(str(row["vhost"]), str(row["name"])),
        int(row.get("messages") or 0),
        int(row.get("messages_unacknowledged") or 0),
        int(row.get("consumers") or 0),
        str(row.get("type") or arguments.get("x-queue-type") or "classic"),
        bool(row.get("exclusive")),
        bool(row.get("auto_delete")),
        EXPIRES in arguments or "expires" in policy,
        bool(arguments.get(SINGLE_ACTIVE)),
        state_of(row),
        str(row.get("node") or ""),
    )


def state_of(row: Mapping[str, Any]) -> str:
    """Of a row of `GET /api/queues`; a queue that was just made has none yet."""
    return str(row.get("state") or RUNNING)


def split_queues(
    queues: Iterable[FoundQueue], left_out: Mapping[QueueName, str]
) -> tuple[list[FoundQueue], list[UnmovedQueue]]:
    """Those whose contents are carried, and those whose are not; `left_out` are those that Warren will not have."""
    carried: list[FoundQueue] = []
    staying: list[UnmovedQueue] = []
    for found in sorted(queues, key=lambda each: each.queue):
        reason = left_out.get(found.queue) or _reason_to_stay(found)
        if reason:
            staying.append(UnmovedQueue(found, reason))
        else:
            carried.append(found)
    return carried, staying


def _reason_to_stay(found: FoundQueue) -> str:
    if found.exclusive:
        return "it belongs to one connection and goes with it; its client makes it anew at Warren"
    if found.auto_delete:
        return (
            "RabbitMQ deletes it, with what is in it, as soon as its last consumer is gone, and a shovel is one; "
            "let its own consumers empty it"
        )
    return ""


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


def with_foreign_exchanges(queues: Iterable[QueueName], exchanges: Iterable[Mapping[str, Any]]) -> list[QueueName]:
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
