"""What becomes of a message that a queue gives up: the same message, on its way to the dead-letter exchange.

Its header `x-death` has an entry for each queue and reason it died of, the latest first, with a count; a message that
dies again in the same way has its entry counted up and moved to the front, and nothing else of it changed. What was its
expiration stands there too, because it has none any more: it would die at once in the next queue.

Not here: which of the queues' messages die (`testing.queues`).
"""

from typing import Literal

from warren.client.testing.messages import StoredMessage
from warren.wire.properties import encode_header_payload
from warren.wire.values import Long, Table, Timestamp

Reason = Literal["rejected", "expired", "maxlen"]


def dead_letter(
    message: StoredMessage, reason: Reason, queue: str, exchange: str, routing_key: str | None, now: float
) -> StoredMessage:
    """With a key of the queue's the message goes there alone, and its header CC is gone."""
    properties = message.properties
    headers = properties.headers or {}
    keys = [message.routing_key, *_copies(headers)]
    death: Table = {
        "reason": reason,
        "queue": queue,
        "time": Timestamp(int(now)),
        "exchange": message.exchange,
        "routing-keys": list(keys),
    }
    if properties.expiration is not None:
        death["original-expiration"] = properties.expiration
    _add(headers, death)
    if routing_key is not None:
        headers.pop("CC", None)
    properties.headers, properties.expiration = headers, None
    target_keys = message.routing_keys if routing_key is None else (routing_key,)
    return StoredMessage(message.body, encode_header_payload(properties, len(message.body)), exchange, target_keys)


def goes_in_circles(message: StoredMessage, queue: str) -> bool:
    """Whether it died in that queue before and nobody has rejected it since: it would go round for ever."""
    reasons: list[object] = []
    for death in _deaths(message.headers):
        reasons.append(death.get("reason"))
        if death.get("queue") == queue:
            return "rejected" not in reasons
    return False


def _add(headers: Table, death: Table) -> None:
    deaths = _deaths(headers)
    if not deaths:
        headers |= {f"x-first-death-{fact}": death[fact] for fact in ("reason", "queue", "exchange")}
    alike = [each for each in deaths if (each.get("queue"), each.get("reason")) == (death["queue"], death["reason"])]
    others = [each for each in deaths if each not in alike]
    latest = alike[0] if alike else death
    headers["x-death"] = [_counted(latest), *map(_with_long_count, others)]


def _counted(death: Table) -> Table:
    return {**death, "count": Long(_count(death) + 1)}


def _with_long_count(death: Table) -> Table:
    return {**death, "count": Long(_count(death))}


def _count(death: Table) -> int:
    count = death.get("count", 0)
    return count if isinstance(count, int) else 0


def _deaths(headers: Table) -> list[Table]:
    deaths = headers.get("x-death")
    return [each for each in deaths if isinstance(each, dict)] if isinstance(deaths, list) else []


def _copies(headers: Table) -> list[str]:
    found = headers.get("CC")
    return [key for key in found if isinstance(key, str)] if isinstance(found, list) else []
