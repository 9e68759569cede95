"""One row of the fault table: what is said on a fresh channel, and how the broker closes the channel or the connection.

Invariant (AMQP 0-9-1, reply codes): 311, 312, 313 and 403 to 406 cost the channel, every other code the connection. A
closed channel's number can be opened again at once, and a fault does not disturb other clients.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.support.amqp_client import Channel, Connection

CHANNEL_CODES = frozenset({311, 312, 313, 403, 404, 405, 406})
Step = tuple[str, Mapping[str, Any]]


def say(method: str, **fields: Any) -> Step:
    return method, fields


@dataclass(frozen=True)
class Fault:
    claim: str
    code: int
    text: str
    last: Step
    before: tuple[Step, ...] = ()

    def __str__(self) -> str:
        return self.claim.replace(" ", "_")


def provoke(connect: Callable[..., Connection], fault: Fault) -> None:
    connection = connect()
    channel = connection.channel()
    for method, fields in fault.before:
        channel.call(method, **fields)
    method, fields = fault.last
    if method == "basic.publish":
        channel.publish(**fields)
    else:
        channel.send(method, **fields)
    expect_fault(channel, fault.code, fault.text, method)


def expect_fault(channel: Channel, code: int, text: str, method: str) -> None:
    connection = channel.connection
    if code in CHANNEL_CODES:
        channel.expect_close(code, text, method)
        connection.channel(channel.number).call("exchange.declare", exchange="amq.direct", passive=True)
    else:
        connection.expect_close(code, text, method)


def locked(queue: str) -> str:
    return (
        f"RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{queue}' in vhost '/'. It could be "
        "originally declared on another connection or the exclusive property value does not match that of the original "
        "declaration."
    )
