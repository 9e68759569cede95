"""What an operator is told of a plan before anything is done.

Not here: the plan (`migrating.plan`), what is told while contents move (`cli.migrate`).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from warren.migrating.definitions import KINDS, Definition
from warren.migrating.plan import Difference, Plan
from warren.migrating.queues import FoundQueue

PLURALS: Final = {"permissions": "permissions", "topic permissions": "topic permissions", "policy": "policies"}
SPOKEN: Final = ("amqp", "amqp/ssl", "http", "https", "clustering", "http/prometheus", "https/prometheus")
"""Protocols of RabbitMQ's listeners that Warren speaks, or has its own way of."""


def plan_lines(plan: Plan) -> Iterator[str]:
    """The whole plan, for a terminal."""
    yield f"definitions to bring: {_counted(plan.brought) or 'none'}"
    yield f"already at Warren, the same: {_counted(plan.same) or 'none'}"
    yield from _listed("Warren's own, which stay as they are", [_differing(each) for each in plan.kept])
    yield from _listed("left out", [f"{each.definition}: {each.reason}" for each in plan.left_out])
    yield from _listed("to be brought one by one", map(str, plan.bridges))
    yield from _listed(
        "held back, because they would move messages at once while RabbitMQ's still do (--bridges brings them)",
        map(str, plan.held_back),
    )
    yield from _listed("in the way, because Warren has them otherwise", [_differing(each) for each in plan.in_the_way])
    filled = [found for found in plan.carried if found.messages]
    contents = f"{plan.messages} messages in {len(filled)} of {len(plan.carried)} queues"
    yield f"contents to carry, as RabbitMQ counted them last: {contents}"
    for found in filled:
        yield f"  queue {found.queue}: {found.messages}"
    yield from _listed(
        "queues that RabbitMQ itself does not reach",
        [f"queue {found.queue}: {found.state}{found.node and f', at {found.node}'}" for found in plan.away],
    )
    yield from _listed(
        "contents that stay at RabbitMQ",
        [f"queue {each.found.queue}, {each.found.messages} messages: {each.reason}" for each in plan.staying],
    )
    yield from _listed("to know", notes(plan))


def notes(plan: Plan) -> Iterator[str]:
    """What comes along and is not quite what it was, or needs somebody's care."""
    for found in plan.carried:
        yield from _queue_notes(found)


def listener_notes(overview: Mapping[str, Any]) -> Iterator[str]:
    """Of protocols that clients of this RabbitMQ may speak and Warren does not."""
    others = sorted({str(each.get("protocol")) for each in overview.get("listeners", ())} - set(SPOKEN))
    for protocol in others:
        yield f"RabbitMQ listens for {protocol}: Warren does not; clients that speak it cannot come along"


def _queue_notes(found: FoundQueue) -> Iterator[str]:
    queue = found.queue
    if found.type == "quorum":
        yield f"queue {queue} is a quorum queue: at Warren it is held by one node unless a policy with ha-mode fits it"
    if found.unacked:
        yield f"queue {queue}: {found.unacked} messages are with consumers of RabbitMQ; they come when those are gone"
    if found.single_active and found.consumers:
        yield f"queue {queue} has a single active consumer: nothing of it moves until that one is gone"
    if found.expires:
        yield f"queue {queue} expires when it is not used: its consumers must come to Warren before that"


def _differing(difference: Difference) -> str:
    return f"{difference.definition} ({', '.join(difference.fields)})"


def _listed(heading: str, lines: Iterable[str]) -> Iterator[str]:
    found = list(lines)
    if found:
        yield f"{heading}: {len(found)}"
        yield from (f"  {line}" for line in found)


def _counted(definitions: Iterable[Definition]) -> str:
    counts = Counter(definition.kind.word for definition in definitions)
    words = [kind.word for kind in KINDS if counts[kind.word]]
    return ", ".join(f"{counts[word]} {_plural(word, counts[word])}" for word in words)


def _plural(word: str, count: int) -> str:
    return word if count == 1 else PLURALS.get(word, f"{word}s")
