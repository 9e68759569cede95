"""Hostile clients at the AMQP port, before the login and after it."""

import contextlib
import random
import socket
from functools import partial

from tests.hostile.scenes.http import ask, set_policy
from tests.hostile.scenes.scene import (
    FRAME_MAX,
    WAIT_S,
    Scene,
    client,
    close_sockets,
    declare_queues,
    fill,
    message,
    method,
    open_sockets,
    publish,
    read_deliveries,
    send_all,
)
from tests.support.amqp_client import Connection
from tests.support.amqp_frames import PROTOCOL_HEADER, content_frames
from tests.support.deadlines import eventually
from tests.support.node_process import NodeProcess

BEFORE = "AMQP before login"
AFTER = "AMQP after login"
MILLION = 1_000_000
MANY = 100_000
QUEUES = 20_000
BODY_BYTES = 100_000


def random_octets(node: NodeProcess) -> None:
    draw = random.Random(1)
    for _ in range(20):
        close_sockets(open_sockets(node.amqp, 20, draw.randbytes(2000)))


def silent_connections(node: NodeProcess) -> None:
    close_sockets(open_sockets(node.amqp, 1000))


def half_handshakes(node: NodeProcess) -> None:
    for _ in range(3):
        close_sockets(open_sockets(node.amqp, 1000, PROTOCOL_HEADER))


def wrong_passwords(node: NodeProcess) -> None:
    opened = []
    for number in range(300):
        connection = Connection(node.amqp)
        connection.start()
        connection.start_ok("PLAIN", b"\0guest\0wrong%d" % number)
        opened.append(connection)
    for connection in opened:
        connection.cut()


def many_keys_through_wildcards(node: NodeProcess) -> None:
    draw = random.Random(19)
    with client(node) as (_, channel):
        channel.confirm()
        channel.call("queue.declare", queue="wide")
        for _ in range(200):
            words = [draw.choice(["a", "*", "#"]) for _ in range(125)]
            channel.call("queue.bind", queue="wide", exchange="amq.topic", routing_key=".".join(["#", *words, "z"]))
        copies = [".".join(["a"] * 120) + f".{number}" for number in range(256)]
        for number in range(1, 6):
            channel.publish("amq.topic", "none", b"", {"headers": {"CC": copies}})
            channel.confirms([number])


def consumer_that_does_not_read(node: NodeProcess) -> None:
    with client(node) as (connection, channel), client(node) as (deaf, deaf_channel):
        channel.call("queue.declare", queue="backlog")
        for _ in range(1000):
            connection.send_bytes(message("", "backlog", bytes(BODY_BYTES)))
        channel.await_counts("backlog", 1000)
        deaf.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf_channel.send("basic.consume", queue="backlog")
        eventually(lambda: channel.counts("backlog")[0] < 1000, "the consumer gets messages")


def answers_that_are_not_read(node: NodeProcess) -> None:
    with client(node) as (deaf, channel):
        channel.call("queue.declare", queue="one")
        channel.publish("", "one", bytes(BODY_BYTES))
        channel.await_counts("one", 1)
        rounds = [
            method("basic.get", queue="one") + method("basic.nack", delivery_tag=tag, requeue=True)
            for tag in range(1, 4001)
        ]
        deaf.socket.settimeout(1)
        with contextlib.suppress(TimeoutError):
            deaf.socket.sendall(b"".join(rounds))


def returns_that_are_not_read(node: NodeProcess) -> None:
    with client(node) as (deaf, _):
        publish = method("basic.publish", routing_key="nowhere", mandatory=True)
        returned = publish + content_frames(1, bytes(BODY_BYTES), {}, FRAME_MAX)
        deaf.socket.settimeout(1)
        with contextlib.suppress(TimeoutError):
            for _ in range(3000):
                deaf.socket.sendall(returned)


def channels_without_end(node: NodeProcess) -> None:
    with client(node) as (connection, _):
        connection.send_bytes(b"".join(method("channel.open", number) for number in range(2, 65536)))
        while connection.next_frame().channel != 0:
            pass


def many_connections_lost_at_once(node: NodeProcess) -> None:
    connections = [Connection.opened(node.amqp) for _ in range(2000)]
    for connection in connections:
        channel = connection.channel()
        channel.call("queue.declare", queue="", exclusive=True)
    close_sockets([connection.socket for connection in connections])


def many_channels_lost_at_once(node: NodeProcess) -> None:
    """One connection with all channels, a consumer and an unfinished transaction on each."""
    with client(node) as (connection, channel):
        channel.call("queue.declare", queue="shared")
        frames = []
        for number in range(2, 2048):
            frames.append(method("channel.open", number) + method("tx.select", number))
            frames.append(method("basic.consume", number, queue="shared", nowait=True))
        connection.send_bytes(b"".join(frames))
        eventually(lambda: channel.counts("shared")[1] == 2046, "all consume", WAIT_S)


def exclusive_queues_lost_at_once(node: NodeProcess) -> None:
    declare_queues(node, QUEUES, exclusive=True, bind="amq.topic")
    # the queues go with the connection that declared them
    with client(node) as (_, channel):
        channel.call("queue.declare", queue="q0")


def purge_of_a_million(node: NodeProcess) -> None:
    with client(node) as (_, channel):
        assert channel.purged("million") == MILLION


def delete_of_a_million(node: NodeProcess) -> None:
    with client(node) as (_, channel):
        assert channel.call("queue.delete", queue="million").message_count == MILLION


def limit_for_a_million(node: NodeProcess) -> None:
    """The queue is declared without a limit, so a policy sets it."""
    set_policy(node, "short", "^million$", {"max-length": 1})
    with client(node) as (_, channel):
        eventually(lambda: channel.counts("million")[0] == 1, "one message is left", WAIT_S)


def expired_behind_a_head(node: NodeProcess, **arguments: str) -> None:
    """Messages expire at the head of a queue; these wait behind one that does not."""
    with client(node) as (connection, channel):
        channel.call("queue.declare", queue="graves")
        channel.call("queue.declare", queue="short", arguments=arguments)
        connection.send_bytes(message("", "short", b"head"))
        publish(connection, "short", MILLION, {"expiration": "1"})
        channel.await_counts("short", MILLION + 1)


def mass_expiry(node: NodeProcess) -> None:
    with client(node) as (_, channel):
        assert channel.get("short") is not None
        eventually(lambda: channel.counts("short")[0] == 0, "all messages have expired", WAIT_S)


def expiry_of_queues(node: NodeProcess) -> None:
    declare_queues(node, QUEUES, bind="amq.topic")
    set_policy(node, "all", "^q", {"expires": 1000})
    eventually(lambda: ask(node, "GET", "/api/queues/%2F/q19998") == 404, "the queues have expired", WAIT_S)


def unbind_storm(node: NodeProcess) -> None:
    with client(node) as (connection, channel), client(node) as (publisher, _):
        frames = [
            method("queue.unbind", queue=f"q{number}", exchange="amq.topic", routing_key=f"q{number}")
            for number in range(QUEUES)
        ]
        for first in range(0, QUEUES, 100):
            connection.send_bytes(b"".join(frames[first : first + 100]))
            publisher.send_bytes(message("amq.topic", "q1") * 10)
            for _ in range(100):
                channel.expect("queue.unbind-ok")


def delete_of_a_bound_exchange(node: NodeProcess) -> None:
    with client(node) as (_, channel):
        channel.call("exchange.delete", exchange="hub")


def bound_exchange(node: NodeProcess) -> None:
    with client(node) as (_, channel):
        channel.call("exchange.declare", exchange="hub", type="topic")
    declare_queues(node, QUEUES, bind="hub")


def delete_of_a_bound_queue(node: NodeProcess) -> None:
    with client(node) as (connection, channel):
        channel.call("queue.declare", queue="bound")
        binds = [
            method("queue.bind", queue="bound", exchange="amq.topic", routing_key=f"a.{number}.#", nowait=True)
            for number in range(QUEUES)
        ]
        send_all(connection, binds)
        channel.call("queue.delete", queue="bound")


def consumers_of_a_deleted_queue(node: NodeProcess) -> None:
    with client(node) as (connection, channel):
        channel.call("queue.declare", queue="watched")
        send_all(connection, [method("basic.consume", queue="watched", nowait=True) for _ in range(QUEUES)])
        channel.await_counts("watched", 0, QUEUES)
        channel.send("queue.delete", queue="watched")
        while channel.next().name != "queue.delete-ok":
            pass


def unacked(node: NodeProcess, ending: bytes) -> None:
    with client(node) as (connection, channel):
        channel.call("basic.consume", queue="jobs")
        read_deliveries(connection, MANY)
        connection.send_bytes(ending)
        # the queue delivers all of it again
        read_deliveries(connection, MANY)


def unacked_of_a_lost_connection(node: NodeProcess) -> None:
    with client(node) as (connection, channel):
        channel.call("basic.consume", queue="jobs")
        read_deliveries(connection, MANY)
    with client(node) as (_, channel):
        channel.await_counts("jobs", MANY)


def large_transaction(node: NodeProcess, ending: str, properties: dict[str, object] | None = None) -> None:
    with client(node) as (connection, channel):
        channel.call("queue.declare", queue="ledger", durable=True)
        channel.call("tx.select")
        publish(connection, "ledger", MANY, properties)
        channel.call(ending)


def acks_of_a_transaction(node: NodeProcess) -> None:
    with client(node) as (connection, channel):
        channel.call("tx.select")
        channel.call("basic.consume", queue="jobs")
        read_deliveries(connection, MANY)
        channel.ack(MANY, multiple=True)
        channel.call("tx.commit")


def huge_headers(node: NodeProcess) -> None:
    """Through a headers exchange with a thousand bindings, each of which wants another header."""
    with client(node) as (connection, channel):
        channel.confirm()
        channel.call("queue.declare", queue="picky")
        binds = [
            method(
                "queue.bind",
                queue="picky",
                exchange="amq.headers",
                nowait=True,
                arguments={"x-match": "any", f"h{number}": "other"},
            )
            for number in range(1000)
        ]
        send_all(connection, binds)
        headers = {f"h{number}": "value" for number in range(5000)}
        connection.send_bytes(message("amq.headers", "", b"", {"headers": headers}) * 50)
        channel.confirms(range(1, 51))


def deep_tables(node: NodeProcess) -> None:
    table: dict[str, object] = {}
    for _ in range(60):
        table = {"a": table, "b": [table] if len(str(table)) < 2000 else []}
    with client(node) as (connection, channel):
        channel.confirm()
        channel.call("queue.declare", queue="deep")
        channel.call("queue.bind", queue="deep", exchange="amq.headers", arguments={"x-match": "all", "a": "b"})
        connection.send_bytes(message("amq.headers", "", b"", {"headers": table}) * 500)
        channel.confirms(range(1, 501))


def declares_without_end(node: NodeProcess) -> None:
    with client(node) as (connection, channel):
        frames = [
            method("queue.declare", queue=f"d{number}", durable=True, nowait=True)
            + method("queue.delete", queue=f"d{number}", nowait=True)
            for number in range(QUEUES)
        ]
        connection.send_bytes(b"".join(frames))
        channel.call("queue.declare", queue="last")


NACK = method("basic.nack", delivery_tag=0, multiple=True, requeue=True)
RECOVER = method("basic.recover", requeue=True)
PERSISTENT: dict[str, object] = {"delivery_mode": 2}
with_a_million = partial(fill, queue="million", count=MILLION)
with_work = partial(fill, queue="jobs", count=MANY)
TO_GRAVES = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "graves"}

SCENES = [
    Scene(BEFORE, "random octets on 400 connections", "nothing", random_octets, quick=True),
    Scene(BEFORE, "a thousand connections that say nothing, reset at once", "nothing", silent_connections, quick=True),
    Scene(BEFORE, "3,000 handshakes that stop after the header", "nothing", half_handshakes),
    Scene(BEFORE, "300 wrong passwords at once", "nothing", wrong_passwords),
    Scene(AFTER, "messages with 256 keys through 200 bindings of 125 wildcards", "a user", many_keys_through_wildcards),
    Scene(AFTER, "a consumer of 100 MB that never reads", "a user", consumer_that_does_not_read),
    Scene(AFTER, "4,000 answers of 100 kB that are never read", "a user", answers_that_are_not_read),
    Scene(AFTER, "returned messages that are never read", "a user", returns_that_are_not_read),
    Scene(AFTER, "65,535 channels", "a user", channels_without_end, quick=True),
    Scene(
        AFTER, "2,000 connections with an exclusive queue each, reset at once", "a user", many_connections_lost_at_once
    ),
    Scene(
        AFTER, "2,047 channels with a consumer each, reset at once", "a user", many_channels_lost_at_once, quick=True
    ),
    Scene(AFTER, "20,000 exclusive queues of a lost connection", "a user", exclusive_queues_lost_at_once),
    Scene(AFTER, "a purge of a million messages", "a user", purge_of_a_million, with_a_million),
    Scene(AFTER, "the delete of a queue with a million messages", "a user", delete_of_a_million, with_a_million),
    Scene(AFTER, "a million messages that expire at once", "a user", mass_expiry, expired_behind_a_head),
    Scene(
        AFTER,
        "a million dead letters at once",
        "a user",
        mass_expiry,
        lambda node: expired_behind_a_head(node, **TO_GRAVES),
    ),
    Scene(AFTER, "20,000 queues that expire at once", "a user", expiry_of_queues),
    Scene(
        AFTER,
        "20,000 unbinds among publishes",
        "a user",
        unbind_storm,
        partial(declare_queues, count=QUEUES, bind="amq.topic"),
    ),
    Scene(
        AFTER, "the delete of an exchange with 20,000 bindings", "a user", delete_of_a_bound_exchange, bound_exchange
    ),
    Scene(AFTER, "the delete of a queue with 20,000 bindings", "a user", delete_of_a_bound_queue),
    Scene(AFTER, "the delete of a queue with 20,000 consumers", "a user", consumers_of_a_deleted_queue, quick=True),
    Scene(AFTER, "a nack of 100,000 deliveries", "a user", partial(unacked, ending=NACK), with_work),
    Scene(AFTER, "basic.recover of 100,000 deliveries", "a user", partial(unacked, ending=RECOVER), with_work),
    Scene(
        AFTER,
        "a lost connection with 100,000 deliveries",
        "a user",
        unacked_of_a_lost_connection,
        with_work,
        quick=True,
    ),
    Scene(AFTER, "a commit of 100,000 messages", "a user", partial(large_transaction, ending="tx.commit"), quick=True),
    Scene(
        AFTER,
        "a commit of 100,000 persistent messages",
        "a user",
        partial(large_transaction, ending="tx.commit", properties=PERSISTENT),
    ),
    Scene(AFTER, "a rollback of 100,000 messages", "a user", partial(large_transaction, ending="tx.rollback")),
    Scene(AFTER, "a commit of 100,000 acks", "a user", acks_of_a_transaction, with_work),
    Scene(AFTER, "messages of 5,000 headers through 1,000 bindings", "a user", huge_headers),
    Scene(AFTER, "headers nested 60 deep", "a user", deep_tables, quick=True),
    Scene(AFTER, "20,000 durable queues declared and deleted", "a user", declares_without_end),
    Scene(AFTER, "a policy that leaves one of a million messages", "policymaker", limit_for_a_million, with_a_million),
]
