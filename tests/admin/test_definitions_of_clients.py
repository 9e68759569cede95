"""Exchanges, queues and bindings with arguments that JSON cannot hold: one client must not spoil the export of all."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bridges.conftest import url_of
from tests.bridges.federation.broker_api import BrokerApi
from tests.support.node_process import NodeProcess
from warren.client import blocking
from warren.wire.field_tables import Table, Timestamp


def nested(depth: int) -> Table:
    table: Table = {}
    for _ in range(depth):
        table = {"below": table}
    return table


ODD: Table = {
    "binary": b"\xff\x00",
    "text": "\udcff",
    "\udcfe": 1,
    "void": None,
    "list": [None, b"", {"void": None}],
    "at": Timestamp(2**64 - 1),
    "deep": nested(120),
}


def api_of(node: NodeProcess) -> BrokerApi:
    host, port = node.addresses["http"]
    return BrokerApi(f"http://{host}:{port}", url_of(node))


def topology(definitions: dict[str, Any]) -> dict[str, Any]:
    return {name: definitions[name] for name in ("exchanges", "queues", "bindings")}


def declare(node: NodeProcess) -> None:
    with blocking.connect(url_of(node)) as connection:
        channel = connection.channel()
        channel.declare_queue("odd", durable=True, arguments=ODD)
        channel.declare_exchange("strange", "headers", durable=True, arguments=ODD)
        channel.bind_queue("odd", "strange", "key", ODD)


@pytest.fixture
def second(tmp_path: Path) -> Iterator[NodeProcess]:
    node = NodeProcess(tmp_path, "--name", "second@localhost")
    yield node
    node.stop()


def test_an_export_with_odd_arguments_is_imported_by_another_node_as_it_was(
    node: NodeProcess, second: NodeProcess
) -> None:
    declare(node)
    status, exported = api_of(node).call("GET", "definitions")
    assert status == 200
    # valid UTF-8 and JSON for any reader
    json.dumps(exported, ensure_ascii=False).encode()

    assert api_of(second).call("POST", "definitions", body=exported)[0] == 204
    assert topology(api_of(second).call("GET", "definitions")[1]) == topology(exported)
    # the same arguments are equivalent, and declare nothing new
    declare(second)
    assert topology(api_of(second).call("GET", "definitions")[1]) == topology(exported)

    [queue] = exported["queues"]
    for spoilt in ("", "AAAA", "!", "AAAAAQ=="):
        status, told = api_of(second).call(
            "POST", "definitions", body={"queues": [{**queue, "name": "new", "arguments_table": spoilt}]}
        )
        assert (status, told["reason"].partition(": ")[2]) == (
            400,
            "arguments_table must be an AMQP field table in base64; nothing was imported",
        )
