"""Hostile clients at the HTTP port, before the login and after it, and at the metrics port."""

import base64
import contextlib
import http.client
import json
import socket
from collections.abc import Callable
from functools import partial
from urllib.parse import quote

from tests.hostile.scenes.scene import (
    WAIT_S,
    Scene,
    at_once,
    client,
    close_sockets,
    declare_queues,
    fill,
    message,
    open_sockets,
    send_all,
)
from tests.support.amqp_client import Connection
from tests.support.node_process import NodeProcess

BEFORE = "HTTP before login"
AFTER = "HTTP after login"
METRICS = "metrics"
LARGE_BYTES = 19_000_000
QUEUES = 20_000
LOGIN = "Basic " + base64.b64encode(b"guest:guest").decode()
JSON = {"authorization": LOGIN, "content-type": "application/json"}


def ask(
    node: NodeProcess,
    verb: str,
    path: str,
    body: bytes | None = None,
    headers: dict[str, str] = JSON,
    port: str = "http",
) -> int:
    """The status; 0 if the node closes the connection while the rest of the body is on its way."""
    connection = http.client.HTTPConnection(*node.addresses[port], timeout=WAIT_S)
    try:
        connection.request(verb, path, body, headers)
        answer = connection.getresponse()
        while answer.read(1024 * 1024):
            pass
        return answer.status
    except (ConnectionResetError, BrokenPipeError):
        return 0
    finally:
        connection.close()


def post(path: str, body: Callable[[], bytes], headers: dict[str, str] = JSON) -> Callable[[NodeProcess], None]:
    def attack(node: NodeProcess) -> None:
        ask(node, "POST", path, body(), headers)

    return attack


def get(*paths: str, times: int = 1) -> Callable[[NodeProcess], None]:
    """Each path, by so many clients at once."""

    def attack(node: NodeProcess) -> None:
        for path in paths:
            at_once(partial(ask, node, "GET", path), times)

    return attack


def change(node: NodeProcess, verb: str, path: str, document: object = None) -> None:
    status = ask(node, verb, path, None if document is None else json.dumps(document).encode())
    assert status in (201, 204), (verb, path, status)


def set_policy(node: NodeProcess, name: str, pattern: str, definition: dict[str, object], vhost: str = "%2F") -> None:
    change(node, "PUT", f"/api/policies/{vhost}/{name}", {"pattern": pattern, "definition": definition})


# -- before the login


def pipelined_requests(node: NodeProcess) -> None:
    request = b"GET /api/overview HTTP/1.1\r\nhost: localhost\r\n\r\n"
    for _ in range(20):
        close_sockets(open_sockets(node.addresses["http"], 10, request * 5000))


def unfinished_heads(node: NodeProcess) -> None:
    opened = open_sockets(node.addresses["http"], 450, b"GET / HTTP/1.1\r\nhost: localhost\r\nx: ")
    for one in opened:
        with contextlib.suppress(OSError):
            one.sendall(b"y" * 60_000)
    close_sockets(opened)


def odd_heads(node: NodeProcess) -> None:
    """Heads as large as they may be: many headers, deep paths, many query fields."""
    host = b" HTTP/1.1\r\nhost: localhost\r\n"
    heads = (
        b"GET /api/" + b"%2F/" * 15_000 + host,
        b"GET /api/overview?" + b"a=b&" * 15_000 + host,
        b"GET /api/overview" + host + b"a: b\r\n" * 9_000,
        b"GET /api/overview" + host + b"authorization: Basic " + b"QUFB" * 14_000 + b"\r\n",
        b"GET /api/overview" + host + b"accept-encoding: " + b"gzip," * 11_000 + b"\r\n",
    )
    for head in heads * 10:
        close_sockets(open_sockets(node.addresses["http"], 5, head + b"\r\n"))


def wrong_logins(node: NodeProcess) -> None:
    wrong = {"authorization": "Basic " + base64.b64encode(b"guest:wrong").decode()}
    at_once(lambda: [ask(node, "GET", "/api/whoami", None, wrong) for _ in range(3)], 20)


# -- after the login


def queue_definitions(count: int) -> bytes:
    return json.dumps({"queues": [{"name": f"q{number}", "vhost": "/"} for number in range(count)]}).encode()


PUBLISH = "/api/exchanges/%2F/amq.default/publish"
MESSAGE = b'{"routing_key": "", "properties": {}, "payload_encoding": "string", "payload": "", "x": [%b1]}'
ENTRY = b'{"users": [{"name": "a", "x": [%b1]}]}'
FORM = {"authorization": LOGIN, "content-type": "multipart/form-data; boundary=b"}
REGRESSIVE = "^((.|[^b]){0,10}){0,10}\x00"


def millions_of_values(pattern: bytes) -> bytes:
    return pattern % (b"[]," * (LARGE_BYTES // 3))


def file_of_lines(line: bytes) -> bytes:
    head = b'--b\r\ncontent-disposition: form-data; name="file"; filename="f"\r\n\r\n'
    return head + line * (LARGE_BYTES // len(line)) + b"\r\n--b--\r\n"


def large_message() -> bytes:
    return json.dumps(
        {"routing_key": "", "properties": {}, "payload_encoding": "string", "payload": 'é\\"' * (LARGE_BYTES // 8)}
    ).encode()


def slow_patterns(node: NodeProcess) -> None:
    for expression in (REGRESSIVE, "^(a+)+$", "(.*)*(.*)*x"):
        ask(node, "GET", f"/api/exchanges/%2F?page=1&use_regex=true&name={quote(expression)}")
    set_policy(node, "slow", "^pol(a+)+$", {"max-length": 5})
    set_policy(node, "fits", "^pol(a+)+!$", {"max-length": 7})


def policy_of_many_queues(node: NodeProcess) -> None:
    set_policy(node, "all", "^q", {"max-length": 5, "message-ttl": 60_000})
    set_policy(node, "all", "^q.*9$", {"max-length": 6})
    change(node, "DELETE", "/api/policies/%2F/all")


def vhost_with_queues(node: NodeProcess) -> None:
    change(node, "PUT", "/api/vhosts/full", {})
    change(node, "PUT", "/api/permissions/full/guest", {"configure": ".*", "write": ".*", "read": ".*"})
    declare_queues(node, QUEUES, "full", bind="amq.topic", durable=True)


def delete_of_a_vhost(node: NodeProcess) -> None:
    change(node, "DELETE", "/api/vhosts/full")


def user_with_connections(node: NodeProcess) -> None:
    change(node, "PUT", "/api/users/crowd", {"password": "crowd", "tags": ""})
    change(node, "PUT", "/api/permissions/%2F/crowd", {"configure": ".*", "write": ".*", "read": ".*"})


def delete_of_a_connected_user(node: NodeProcess) -> None:
    connections = [Connection.opened(node.amqp, user="crowd", password="crowd") for _ in range(2000)]
    for connection in connections:
        connection.channel().call("queue.declare", queue="", exclusive=True)
    change(node, "DELETE", "/api/users/crowd")
    close_sockets([connection.socket for connection in connections])


def many_bound_queues(node: NodeProcess) -> None:
    declare_queues(node, QUEUES, bind="amq.topic", durable=True)


def busy_queues(node: NodeProcess) -> None:
    """Every queue has a message, so that every queue has a history."""
    declare_queues(node, QUEUES)
    with client(node) as (connection, channel):
        send_all(connection, [message("", f"q{number}", b"x") for number in range(QUEUES)])
        channel.counts("q0")


def messages_over_http(node: NodeProcess) -> None:
    body = {"count": 50_000, "ackmode": "ack_requeue_true", "encoding": "auto"}
    ask(node, "POST", "/api/queues/%2F/jobs/get", json.dumps(body).encode())


def histories(node: NodeProcess) -> None:
    span = "lengths_age=600&lengths_incr=5&msg_rates_age=600&msg_rates_incr=5"
    ask(node, "GET", f"/api/queues?{span}")
    ask(node, "GET", f"/api/queues/%2F/q1?{span}&data_rates_age=86400&data_rates_incr=1")


def many_channels(node: NodeProcess) -> None:
    """Lists of 10,000 channels and consumers."""
    with contextlib.ExitStack() as opened:
        for _ in range(5):
            connection, channel = opened.enter_context(client(node))
            channel.call("queue.declare", queue="shared")
            for _ in range(2000):
                connection.channel().send("basic.consume", queue="shared", nowait=True)
        get("/api/channels", "/api/consumers", "/api/connections", "/api/queues/%2F/shared", times=3)(node)


VALUES = {"x": [None] * 100_000}
"""As many as one frame can carry."""


def messages_with_large_headers(node: NodeProcess) -> None:
    with client(node) as (_, channel):
        channel.call("queue.declare", queue="large")
        for _ in range(20):
            channel.publish("", "large", properties={"headers": VALUES})
        channel.await_counts("large", 20)
        wanted = {"count": -1, "ackmode": "ack_requeue_false", "encoding": "auto"}
        ask(node, "POST", "/api/queues/%2F/large/get", json.dumps(wanted).encode())


def queues_with_large_arguments(node: NodeProcess) -> None:
    with client(node) as (_, channel):
        for number in range(40):
            channel.call("queue.declare", queue=f"large{number}", exclusive=True, arguments=VALUES)
        get("/api/queues?page=1", "/api/queues?sort=arguments")(node)


# -- the metrics port


def scrape(node: NodeProcess, path: str) -> int:
    return ask(node, "GET", path, None, {}, "metrics")


FAMILIES = "&".join(
    f"family={name}"
    for name in (
        "queue_coarse_metrics",
        "queue_consumer_count",
        "queue_metrics",
        "channel_queue_metrics",
        "channel_queue_exchange_metrics",
        "exchange_names",
        "exchange_bindings",
        "connection_metrics",
    )
)


def scrape_flood(node: NodeProcess) -> None:
    at_once(lambda: [scrape(node, "/metrics") for _ in range(10)], 30)


def heavy_scrapes(node: NodeProcess) -> None:
    at_once(lambda: [scrape(node, f"/metrics/detailed?{FAMILIES}"), scrape(node, "/metrics/per-object")], 20)


def slow_scrapers(node: NodeProcess) -> None:
    """Scrapes that are not read, scrapes whose requests do not end."""
    whole = f"GET /metrics/detailed?{FAMILIES} HTTP/1.1\r\nhost: localhost\r\n".encode()
    opened = open_sockets(node.addresses["metrics"], 200, whole)
    for one in opened[:100]:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.sendall(b"\r\n")
        one.recv(1)
    close_sockets(opened)


SORTED = [
    f"/api/queues?sort={path}&sort_reverse=true" for path in ("messages", "name", "arguments", "message_stats.publish")
]
ten_thousand = partial(declare_queues, count=10_000, bind="amq.topic")
with_work = partial(fill, queue="jobs", count=100_000)

SCENES = [
    Scene(
        BEFORE,
        "a form of 19 MB to `/api/login`",
        "nothing",
        post("/api/login", lambda: b"a=b&" * (LARGE_BYTES // 4), {}),
        quick=True,
    ),
    Scene(BEFORE, "200 connections with 5,000 pipelined requests each", "nothing", pipelined_requests),
    Scene(BEFORE, "450 heads of 60 kB that do not end", "nothing", unfinished_heads, quick=True),
    Scene(BEFORE, "heads of 60 kB: paths, queries, headers, logins", "nothing", odd_heads, quick=True),
    Scene(BEFORE, "20 clients with wrong passwords", "nothing", wrong_logins),
    Scene(AFTER, "a name filter and policies that backtrack for ever", "`policymaker`", slow_patterns, quick=True),
    Scene(
        AFTER,
        "a JSON document of millions of values",
        "`management`",
        post(PUBLISH, partial(millions_of_values, MESSAGE)),
        quick=True,
    ),
    Scene(AFTER, "a message of 19 MB", "`management`", post(PUBLISH, large_message), quick=True),
    Scene(
        AFTER,
        "definitions with millions of values",
        "`administrator`",
        post("/api/definitions", partial(millions_of_values, ENTRY)),
        quick=True,
    ),
    Scene(
        AFTER,
        "a form with a file of millions of lines",
        "`administrator`",
        post("/api/definitions", partial(file_of_lines, b"\n"), FORM),
        quick=True,
    ),
    Scene(
        AFTER,
        "a form with a file of millions of boundaries",
        "`administrator`",
        post("/api/definitions", partial(file_of_lines, b"\r\n--b"), FORM),
        quick=True,
    ),
    Scene(
        AFTER,
        "definitions with 15,000 queues",
        "`administrator`",
        post("/api/definitions", partial(queue_definitions, 15_000)),
    ),
    Scene(
        AFTER,
        "lists of 20,000 queues and bindings, four at once",
        "`management`",
        get("/api/queues", "/api/bindings", "/api/queues?page=1&page_size=500", times=4),
        many_bound_queues,
    ),
    Scene(AFTER, "20,000 queues, sorted", "`management`", get(*SORTED, times=2), many_bound_queues),
    Scene(
        AFTER,
        "exports of 20,000 queues and bindings",
        "`administrator`",
        get(
            "/api/definitions",
            "/api/definitions/%2F",
            "/api/definitions?columns=queues",
            "/api/definitions?download=x",
            times=2,
        ),
        many_bound_queues,
    ),
    Scene(AFTER, "policies of 20,000 queues", "`policymaker`", policy_of_many_queues, many_bound_queues),
    Scene(
        AFTER,
        "the delete of a virtual host with 20,000 queues",
        "`administrator`",
        delete_of_a_vhost,
        vhost_with_queues,
    ),
    Scene(
        AFTER,
        "the delete of a user with 2,000 connections",
        "`administrator`",
        delete_of_a_connected_user,
        user_with_connections,
    ),
    Scene(AFTER, "50,000 messages in one answer", "`management`", messages_over_http, with_work),
    Scene(AFTER, "20 messages with 100,000 values in their headers", "`management`", messages_with_large_headers),
    Scene(AFTER, "40 queues with 100,000 values in their arguments", "`management`", queues_with_large_arguments),
    Scene(AFTER, "histories of 20,000 queues", "`management`", histories, busy_queues),
    Scene(AFTER, "lists of 10,000 channels and consumers", "`monitoring`", many_channels),
    Scene(METRICS, "300 scrapes by 30 clients", "nothing", scrape_flood, quick=True),
    Scene(METRICS, "heavy families of 10,000 queues, 20 clients", "nothing", heavy_scrapes, ten_thousand),
    Scene(
        METRICS, "200 scrapes of 10,000 queues that are not read or do not end", "nothing", slow_scrapers, ten_thousand
    ),
]
