"""A partitioned stream to talk about: declared, bound, filled and consumed in one line each."""

from typing import Any
from zlib import crc32

from tests.support.amqp_client import Channel, Received
from tests.wire.conftest import Unique

KEYS = [f"customer-{number}" for number in range(12)]


def declare(channel: Channel, name: str, count: Any = 3, **arguments: Any) -> None:
    named = {key.replace("_", "-"): value for key, value in arguments.items()}
    channel.call(
        "queue.declare",
        queue=name,
        durable=True,
        arguments={"x-queue-type": "stream", "x-stream-partitions": count, **named},
    )


def bound(channel: Channel, unique: Unique, count: int = 3) -> tuple[str, str]:
    """A partitioned stream, and an exchange that leads everything to it."""
    name, exchange = unique("parts"), unique("x")
    declare(channel, name, count)
    channel.call("exchange.declare", exchange=exchange, type="fanout")
    channel.call("queue.bind", queue=name, exchange=exchange, routing_key="")
    return name, exchange


def refused(channel: Channel, code: int, beginning: str) -> None:
    """The channel is closed with this code, and a sentence that begins so."""
    close = channel.expect("channel.close")
    assert (close.reply_code, close.reply_text[: len(beginning)]) == (code, beginning)
    channel.send("channel.close-ok")


def partition_of(key: str, count: int = 3) -> int:
    return crc32(key.encode()) % count


def publish(channel: Channel, exchange: str, rounds: int = 5) -> list[tuple[str, bytes]]:
    """Some messages of each key, confirmed; all of them."""
    sent = [(key, f"{key} {number}".encode()) for number in range(rounds) for key in KEYS]
    for key, body in sent:
        channel.publish(exchange, key, body)
    channel.confirms(range(1, len(sent) + 1))
    return sent


def consume(channel: Channel, name: str, prefetch: int = 1000, **arguments: Any) -> str:
    channel.call("basic.qos", prefetch_count=prefetch)
    return channel.consume(name, arguments={key.replace("_", "-"): value for key, value in arguments.items()})


def key_of(delivery: Received) -> str:
    return str(delivery.routing_key)


def ordered(deliveries: list[Received]) -> dict[str, list[bytes]]:
    """What came of each key, in the order in which it came."""
    found: dict[str, list[bytes]] = {}
    for delivery in deliveries:
        found.setdefault(key_of(delivery), []).append(delivery.body)
    return found


def by_key(sent: list[tuple[str, bytes]]) -> dict[str, list[bytes]]:
    return {key: [body for other, body in sent if other == key] for key in KEYS}
