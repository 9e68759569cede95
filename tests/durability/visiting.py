"""Short visits to a node: a channel with confirms on a connection of its own, closed in good order.

A node that stops closes its connections and waits for close-ok, so a visit must leave no connection open.

Not here: clients that stay (`workers`).
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.support.amqp_client import Channel, Connection, Received
from tests.support.node_process import NodeProcess

DEADLINE_S = 60.0
PERSISTENT = {"delivery_mode": 2}


@contextmanager
def visit(node: NodeProcess) -> Iterator[Channel]:
    connection = Connection(node.amqp, DEADLINE_S)
    try:
        connection.shake_hands("/")
        yield connection.channel()
    except BaseException:
        connection.cut()
        raise
    connection.close()


def store(node: NodeProcess, key: str, bodies: list[bytes], exchange: str = "", **properties: Any) -> None:
    """Publish persistent messages, and have them confirmed."""
    with visit(node) as channel:
        channel.confirm()
        for body in bodies:
            channel.publish(exchange, key, body, {**PERSISTENT, **properties})
        channel.confirms(range(1, len(bodies) + 1))


def declare(node: NodeProcess, queue: str, arguments: Mapping[str, Any] | None = None, **flags: bool) -> None:
    with visit(node) as channel:
        channel.call("queue.declare", queue=queue, durable=True, arguments=arguments or {}, **flags)


def taken(node: NodeProcess, queue: str) -> list[Received]:
    """Everything that is ready, taken for good."""
    with visit(node) as channel:
        return list(iter(lambda: channel.get(queue), None))


def bodies(node: NodeProcess, queue: str) -> list[bytes]:
    return [message.body for message in taken(node, queue)]


def exists(node: NodeProcess, kind: str, name: str) -> bool:
    with visit(node) as channel:
        channel.send(f"{kind}.declare", passive=True, **{kind: name})
        answer = channel.next()
        assert answer.name in (f"{kind}.declare-ok", "channel.close"), answer.name
        return answer.name == f"{kind}.declare-ok"


def routed(channel: Channel, exchange: str, key: str, headers: Mapping[str, Any] | None = None) -> bool:
    """Whether a message would be queued anywhere; it is."""
    channel.publish(exchange, key, b"routed?", {"headers": headers or {}}, mandatory=True)
    answer = channel.next()
    if answer.name == "basic.return":
        assert channel.next().name == "basic.ack"
    return answer.name == "basic.ack"
