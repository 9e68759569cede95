"""A message that died in one queue goes to that queue's dead-letter exchange.

Its headers tell the story: `x-death` has a table per queue and reason, newest first, with a count; `x-first-death-*`
say where it began. Its expiration is removed, or it would expire again at once. A message that would come back to a
queue it already died in, with no consumer's reject in the round, is dropped instead: the round would never end.

Not here: when a message dies (`queue.queue`).
"""

from typing import Final

from warren.broker.vhost import Vhost
from warren.model.message import NO_EXPIRATION, Envelope, Message
from warren.model.ports import DeadLetter, QueuePort
from warren.session.special_properties import with_header_payload
from warren.wire.properties import edit_headers
from warren.wire.values import Long, Table, Timestamp

REJECTED: Final = "rejected"
COUNT_MAX: Final = 2**63 - 1


def publish_dead_letter(vhost: Vhost, letter: DeadLetter) -> None:
    """Send it on; without its exchange it is gone."""
    exchange = vhost.topology.exchanges.get(letter.exchange)
    if exchange is None:
        return
    deaths = deaths_of(letter, int(vhost.now_ms()) // 1000)
    message = dead_message(letter, deaths)
    keys = [message.envelope.routing_key, *message.envelope.copy_keys]
    route = vhost.topology.route_keys(exchange, keys, message)
    for delaying in route.delayed:
        vhost.delay(delaying, message)
    for queue in route.queues:
        if letter.reason == REJECTED or not is_cycle(queue, deaths):
            queue.publish(message)
        else:
            vhost.note_cycle(queue, letter)


def dead_message(letter: DeadLetter, deaths: list[Table]) -> Message:
    """The message as it leaves the queue it died in."""
    old = letter.entry.message
    headers: Table = {"x-death": list(deaths)}
    if len(deaths) == 1 and "x-first-death-reason" not in old.headers():
        headers["x-first-death-reason"] = letter.reason
        headers["x-first-death-queue"] = letter.queue.name
        headers["x-first-death-exchange"] = old.envelope.exchange
    removed = [] if letter.routing_key is None else ["CC"]
    payload = edit_headers(old.header_payload(), removed, headers, drop_expiration=True)
    message = with_header_payload(old, payload)
    message.expiration_ms = NO_EXPIRATION
    if letter.routing_key is None:
        message.envelope = Envelope(letter.exchange, old.envelope.routing_key, old.envelope.copy_keys)
    else:
        message.envelope = Envelope(letter.exchange, letter.routing_key)
    return message


def deaths_of(letter: DeadLetter, now_s: int) -> list[Table]:
    """The `x-death` list with this death in front."""
    message = letter.entry.message
    earlier = _earlier_deaths(message)
    for death in earlier:
        if death.get("queue") == letter.queue.name and death.get("reason") == letter.reason:
            count = death.get("count")
            death["count"] = Long(min(count.value if isinstance(count, Long) else 0, COUNT_MAX - 1) + 1)
            return [death] + [other for other in earlier if other is not death]
    keys: list[object] = [message.envelope.routing_key]
    copies = message.headers().get("CC")
    if isinstance(copies, list):
        keys.extend([key for key in copies if isinstance(key, str)])
    death = {
        "count": Long(1),
        "reason": letter.reason,
        "queue": letter.queue.name,
        "time": Timestamp(now_s),
        "exchange": message.envelope.exchange,
        "routing-keys": keys,
    }
    expiration = message.properties().expiration
    if expiration is not None:
        death["original-expiration"] = expiration
    return [death, *earlier]


def is_cycle(queue: QueuePort, deaths: list[Table]) -> bool:
    """Whether the message died in this queue before and no consumer rejected it since."""
    for death in deaths:
        if death.get("reason") == REJECTED:
            return False
        if death.get("queue") == queue.name:
            return True
    return False


def _earlier_deaths(message: Message) -> list[Table]:
    """What `x-death` says so far, with counts as the 64-bit integers clients expect."""
    found = message.headers().get("x-death")
    earlier: list[Table] = []
    if isinstance(found, list):
        for death in found:
            if isinstance(death, dict):
                count = death.get("count")
                if isinstance(count, int) and not isinstance(count, bool):
                    death["count"] = Long(count)
                earlier.append(death)
    return earlier
