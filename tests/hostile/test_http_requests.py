"""Requests over HTTP that are expensive to read: the node refuses them cheaply, and AMQP clients notice nothing.

The node's processor time during one message of the well-behaved pair is compared, because the latency on a busy
machine says little.

Not here: bodies that do not end (`test_http_bodies`), connections without requests (`tests.ha.test_crowd`).
"""

import base64
import http.client
import json
from collections.abc import Callable
from contextlib import suppress

import pytest

from tests.hostile.bystanders import Bystanders
from tests.support.amqp_client import Connection
from tests.support.node_process import NodeProcess

WORK_MAX_S = 0.4
"""While a message is under way. Parsing any of the large requests at once takes a second or more."""

LARGE_BYTES = 19_000_000


def post(path: str, body: bytes, **headers: str) -> Callable[[NodeProcess], None]:
    def attack(node: NodeProcess) -> None:
        connection = http.client.HTTPConnection(*node.addresses["http"], timeout=60)
        # the node may close the connection while the rest of the body is on its way
        with suppress(ConnectionResetError, BrokenPipeError):
            connection.request("POST", path, body, headers)
            connection.getresponse().read()
        connection.close()

    return attack


def test_a_form_without_a_login_holds_up_nobody(node: NodeProcess) -> None:
    check(node, post("/api/login", b"a=b&" * (LARGE_BYTES // 4)))


def queues(count: int, last: str = "/") -> bytes:
    rows = [{"name": f"q{number}", "vhost": "/"} for number in range(count - 1)]
    return json.dumps({"queues": [*rows, {"name": "last", "vhost": last}]}).encode()


LOGIN = "Basic " + base64.b64encode(b"guest:guest").decode()
PUBLISH = "/api/exchanges/%2F/amq.default/publish"
MESSAGE = b'{"routing_key": "", "properties": {}, "payload_encoding": "string", "payload": "", "x": [%b1]}'
ENTRY = b'{"users": [{"name": "a", "x": [%b1]}]}'
MANY = b"[]," * (LARGE_BYTES // 3)
AFTER_LOGIN = {
    "a document of millions of values": post(PUBLISH, MESSAGE % MANY, authorization=LOGIN),
    "a definition of millions of values": post("/api/definitions", ENTRY % MANY, authorization=LOGIN),
    "a file of millions of lines": post(
        "/api/definitions",
        b"--b\r\n" + b"\n" * LARGE_BYTES,
        authorization=LOGIN,
        **{"content-type": "multipart/form-data; boundary=b"},
    ),
    "a file of many definitions": post("/api/definitions", queues(15_000), authorization=LOGIN),
}


@pytest.mark.parametrize("attack", AFTER_LOGIN.values(), ids=AFTER_LOGIN.keys())
def test_a_large_request_holds_up_nobody(node: NodeProcess, attack: Callable[[NodeProcess], None]) -> None:
    check(node, attack)


VALUES = {"x": [None] * 100_000}
"""As many as one frame can carry."""


def get(path: str) -> Callable[[NodeProcess], None]:
    def attack(node: NodeProcess) -> None:
        connection = http.client.HTTPConnection(*node.addresses["http"], timeout=60)
        connection.request("GET", path, headers={"authorization": LOGIN})
        assert connection.getresponse().status == 200
        connection.close()

    return attack


def test_messages_with_large_headers_hold_up_nobody(node: NodeProcess) -> None:
    connection = Connection.opened(node.amqp)
    channel = connection.channel()
    channel.call("queue.declare", queue="large")
    for _ in range(20):
        channel.publish("", "large", properties={"headers": VALUES})
    channel.await_counts("large", 20)
    wanted = json.dumps({"count": -1, "ackmode": "ack_requeue_false", "encoding": "auto"}).encode()
    check(node, post("/api/queues/%2F/large/get", wanted, authorization=LOGIN))
    connection.close()


@pytest.mark.parametrize("query", ["page=1", "sort=arguments"])
def test_queues_with_large_arguments_hold_up_nobody(node: NodeProcess, query: str) -> None:
    connection = Connection.opened(node.amqp)
    channel = connection.channel()
    for number in range(40):
        channel.call("queue.declare", queue=f"large{number}", exclusive=True, arguments=VALUES)
    check(node, get(f"/api/queues?{query}"))
    connection.close()


def check(node: NodeProcess, attack: Callable[[NodeProcess], None]) -> None:
    with Bystanders(node) as pair:
        pair.wait_for_rounds(5)
        pair.most_work_s = 0.0
        attack(node)
        pair.wait_for_rounds(5)
        assert pair.most_work_s < WORK_MAX_S
