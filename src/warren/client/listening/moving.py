"""A message as it is published again, to wait for its next try or to be parked.

It keeps body, properties and headers, and gets what is needed to find one's way back:

    x-retries             how often it was tried again
    x-error               what went wrong last, in one line
    x-origin-exchange     how it first came to its queue
    x-origin-key
    x-origin-queue        where it was parked from

What must not be kept is left out. `expiration` and the broker's own delay would end a message that waits or is parked;
`user_id` is refused by a broker when others publish it; `CC` would send everyone else their copy again; the names by
which Warren knows a repetition would have it dropped as one; and by its history of deaths RabbitMQ may take what comes
back from a retry queue for a cycle, in which it drops messages.

Not here: when a message is moved (`listening.retrying`), and that it is not lost meanwhile (`listening.handling`).
"""

from warren.client.listening.retrying import Again, Way, delayed_exchange, parking_queue, retry_queue
from warren.client.machine.publishing import Message
from warren.client.telling import sentence
from warren.client.transport import Incoming, Outgoing
from warren.wire.properties import Properties
from warren.wire.values import Table

RETRIES = "x-retries"
ERROR = "x-error"
ORIGIN_EXCHANGE = "x-origin-exchange"
ORIGIN_KEY = "x-origin-key"
ORIGIN_QUEUE = "x-origin-queue"

_NEVER_KEPT = frozenset({"CC", "BCC", "x-delay", "x-warren-publisher", "x-warren-publishing-id"})


def retries_done(headers: Table) -> int:
    """How often a message was tried again; what others may have written there counts for nothing."""
    found = headers.get(RETRIES)
    return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else 0


def origin(headers: Table) -> tuple[str, str] | None:
    """Exchange and routing key with which a message was first published, if it was moved since."""
    exchange, key = headers.get(ORIGIN_EXCHANGE), headers.get(ORIGIN_KEY)
    return (exchange, key) if isinstance(exchange, str) and isinstance(key, str) else None


def retried(message: Incoming, queue: str, again: Again, way: Way, failure: Exception) -> Outgoing:
    """The message on its way to its next try."""
    properties = _properties(message, failure)
    headers = _headers_of(properties)
    for name in [name for name in headers if _tells_of_death(name)]:
        del headers[name]
    headers[RETRIES] = retries_done(headers) + 1
    delay_ms = round(again.delay_s * 1000)
    if again.step == 0:
        return Outgoing(Message(message.body, properties), "", queue)
    if way == "delayed_exchange":
        headers["x-delay"] = delay_ms
        # if its queue is gone when it is due, it goes where it is parked
        headers[ORIGIN_QUEUE] = queue
        # nobody can tell yet whether there will be a queue for it
        return Outgoing(Message(message.body, properties), delayed_exchange(queue), queue, mandatory=False)
    properties.expiration = str(delay_ms)
    return Outgoing(Message(message.body, properties), "", retry_queue(queue, again.step))


def put_behind(message: Incoming, queue: str, retries: int, left_s: float | None, failure: Exception) -> Outgoing:
    """The message, after so many retries, on its way to the end of its own queue; it lives no longer for that."""
    properties = _properties(message, failure)
    _headers_of(properties)[RETRIES] = retries
    if left_s is not None:
        properties.expiration = str(max(0, round(left_s * 1000)))
    return Outgoing(Message(message.body, properties), "", queue)


def parked(message: Incoming, queue: str, retries: int, failure: Exception) -> Outgoing:
    """The message, after so many retries, on its way to where somebody looks at it."""
    properties = _properties(message, failure)
    _headers_of(properties).update({ORIGIN_QUEUE: queue, RETRIES: retries})
    return Outgoing(Message(message.body, properties), "", parking_queue(queue))


def parked_bare(message: Incoming, queue: str, failure: Exception) -> Outgoing:
    """Body alone, for a message whose properties nobody can read."""
    headers: Table = {ORIGIN_QUEUE: queue, ERROR: sentence(failure)}
    return Outgoing(Message(message.body, Properties(headers=headers, delivery_mode=2)), "", parking_queue(queue))


def changed(properties: Properties | None, **changes: object) -> Properties:
    """A copy with some of them changed: what came, or what a program made, stays as it is."""
    fields = dict((properties or Properties()).fields())
    return Properties(**{**fields, **changes})  # type: ignore[arg-type]  # names and values are those of properties


def _properties(message: Incoming, failure: Exception) -> Properties:
    given = message.properties
    headers = {name: value for name, value in (given.headers or {}).items() if name not in _NEVER_KEPT}
    headers[ORIGIN_EXCHANGE], headers[ORIGIN_KEY] = origin(headers) or (message.exchange, message.routing_key)
    headers[ERROR] = sentence(failure)
    return changed(given, headers=headers, delivery_mode=2, expiration=None, user_id=None)


def _headers_of(properties: Properties) -> Table:
    assert properties.headers is not None
    return properties.headers


def _tells_of_death(name: str) -> bool:
    return name == "x-death" or name.startswith(("x-first-death-", "x-last-death-"))
