"""RabbitMQ's queues, which of them are transferred, and the shovels that transfer them.

A shovel is a consumer. So RabbitMQ's reaction to a lost consumer decides whether a queue can be transferred safely: an
auto-delete queue would be deleted with its remaining messages.

Each queue has a shovel of its own, so its order is kept. A message keeps its routing key, which consumers and
dead-lettering use. So the shovel does not publish to the queue by name but to an exchange that leads only to that
queue; a `CC` header has no effect there. If the queue is deleted, the exchange leads nowhere. Publishes are mandatory,
so returned messages stay at RabbitMQ.

A shovel's name is `migrate-` and the queue's name, in the queue's virtual host. Its definition is always the same, so
setting it again changes nothing. It runs until it is deleted.

Not here: what a shovel does (`bridges.shovels`), definitions of queues (`cli.migrate.definitions`).
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
"""States of a queue that RabbitMQ can count and deliver. Queues in other states (down, crashed, stopped, recovering,
minority) may be reported as empty.
"""


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
        """Whether RabbitMQ cannot reach it: its node is down or it has crashed."""
        return self.state not in WORKING

    @property
    def is_stream(self) -> bool:
        return self.type == STREAM


@dataclass(frozen=True)
class UnmovedQueue:
    """A queue whose contents are not transferred, and why."""

    found: FoundQueue
    reason: str


def found_queue(row: Mapping[str, Any]) -> FoundQueue:
    """From a row of `GET /api/queues`. A new queue, or one whose node is down, has no counts."""
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
    """The state in a row of `GET /api/queues`; a new queue has none yet."""
    return str(row.get("state") or RUNNING)


def split_queues(
    queues: Iterable[FoundQueue], left_out: Mapping[QueueName, str]
) -> tuple[list[FoundQueue], list[UnmovedQueue]]:
    """Queues whose contents are transferred, and the others; `left_out` are those that Warren will not have."""
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
        return "it is exclusive to one connection; its client declares it again at Warren"
    if found.auto_delete:
        return (
            "RabbitMQ deletes it, with its messages, as soon as its last consumer is gone, and a shovel is one; "
            "let its own consumers empty it"
        )
    return ""


SHOVEL: Final = "shovel"
"""The component of shovels' parameters."""

PREFIX: Final = "migrate-"
PREFETCH: Final = 1000
RECONNECT_DELAY_S: Final = 1
NAME_OCTETS_MAX: Final = 255
MARK: Final = {"x-warren-migration": True}
"""Arguments that mark the consumers at RabbitMQ and the exchanges at Warren of a move."""


def shovel_name(queue: QueueName) -> str:
    return f"{PREFIX}{queue.name}"


def exchange_name(queue: QueueName) -> str:
    """The exchange that leads to the queue. A queue's name may already have the maximum length."""
    name = f"{PREFIX}{queue.name}"
    octets = name.encode("utf-8", "surrogateescape")
    return name if len(octets) <= NAME_OCTETS_MAX else f"{PREFIX}{sha256(octets).hexdigest()}"


def shovel_value(found: FoundQueue, source_uri: str) -> dict[str, Any]:
    """The definition of a queue's shovel; `source_uri` is RabbitMQ's, with the queue's virtual host."""
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
    """Whether a shovel belongs to a move and is not a foreign one with such a name."""
    queue = QueueName("", str(value.get("src-queue")))
    return name == shovel_name(queue) and value.get("dest-exchange") == exchange_name(queue)


def shovels_of_others(parameters: Iterable[Mapping[str, Any]]) -> list[QueueName]:
    """Foreign shovels, by virtual host and name, that have the name of a move's shovel."""
    return [
        QueueName(each["vhost"], each["name"])
        for each in parameters
        if each["component"] == SHOVEL and each["name"].startswith(PREFIX) and not is_ours(each["name"], each["value"])
    ]


def with_foreign_exchanges(queues: Iterable[QueueName], exchanges: Iterable[Mapping[str, Any]]) -> list[QueueName]:
    """Queues whose exchange would have the name of a foreign exchange."""
    others = {(each["vhost"], each["name"]) for each in exchanges if not is_marked(each.get("arguments"))}
    return [queue for queue in queues if (queue.vhost, exchange_name(queue)) in others]


def is_marked(arguments: object) -> bool:
    """Whether arguments have the mark of a move. RabbitMQ writes empty arguments as a list."""
    return isinstance(arguments, Mapping) and all(arguments.get(name) == value for name, value in MARK.items())


def with_vhost(uri: str, vhost: str) -> str:
    """The AMQP URI with this virtual host instead of its own."""
    before, question, options = uri.partition("?")
    scheme, _, rest = before.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}/{quote(vhost, safe='')}{question}{options}"
