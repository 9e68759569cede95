"""RabbitMQ's queues as they are found, and which of them have their contents carried over.

A shovel is a consumer. So what RabbitMQ does to a queue when its consumer's connection breaks decides whether its
contents are safe on the way: an auto-delete queue would be deleted with all that is left in it.

Not here: the shovels (`migrating.shovels`), what queues are made of (`migrating.definitions`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from warren.queue.stream_arguments import STREAM

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
class Staying:
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


def parted(queues: Iterable[FoundQueue], left_out: Mapping[QueueName, str]) -> tuple[list[FoundQueue], list[Staying]]:
    """Those whose contents are carried, and those whose are not; `left_out` are those that Warren will not have."""
    carried: list[FoundQueue] = []
    staying: list[Staying] = []
    for found in sorted(queues, key=lambda each: each.queue):
        reason = left_out.get(found.queue) or _reason_to_stay(found)
        if reason:
            staying.append(Staying(found, reason))
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
