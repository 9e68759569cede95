"""Shovels of a cluster: every node shows and controls all of them, also those of other nodes."""

from typing import Any
from urllib.parse import quote

import pytest

from tests.admin.three_nodes import Trio, eventually

NAMES = [f"across-{number}" for number in range(12)]


@pytest.fixture
def defined(trio: Trio) -> Any:
    for number, name in enumerate(NAMES):
        value = {
            "src-uri": "amqp://",
            "src-queue": f"{name}.from",
            "dest-uri": "amqp://",
            "dest-queue": f"{name}.to",
        }
        assert trio[number % 3].api.call("PUT", f"parameters/shovel/%2F/{name}", {"value": value}).status == 201
    yield
    for name in NAMES:
        trio[0].api.call("DELETE", f"parameters/shovel/%2F/{name}")
        for end in ("from", "to"):
            trio[0].api.call("DELETE", f"queues/%2F/{quote(f'{name}.{end}')}")


def seen(trio: Trio) -> list[dict[str, str]]:
    """As each node tells it, which node runs what."""
    return [{row["name"]: row["node"] for row in rows if row["state"] == "running"} for rows in trio.read("shovels")]


@pytest.mark.usefixtures("defined")
def test_every_node_shows_the_shovels_of_all_nodes(trio: Trio) -> None:
    told = eventually(lambda: seen(trio), lambda told: all(sorted(one) == sorted(NAMES) for one in told))
    assert told[0] == told[1] == told[2]
    # the same rule on every node, and not one node for all
    assert len(set(told[0].values())) > 1
    assert set(told[0].values()) <= set(trio.names)
    of_vhost = trio[1].api.read("shovels/%2F")
    assert [row["name"] for row in of_vhost] == sorted(NAMES)
    assert trio[2].api.read(f"shovels/vhost/%2F/{NAMES[0]}")["node"] == told[0][NAMES[0]]


@pytest.mark.usefixtures("defined")
def test_orders_reach_the_node_that_runs_a_shovel(trio: Trio) -> None:
    eventually(lambda: seen(trio), lambda told: all(len(one) == len(NAMES) for one in told))
    home = seen(trio)[0][NAMES[0]]
    asked = next(node for node in trio.nodes if node.name != home)
    assert asked.api.call("DELETE", f"shovels/vhost/%2F/{NAMES[0]}/restart").status == 204
    eventually(lambda: seen(trio), lambda told: all(NAMES[0] in one for one in told))
    assert asked.api.call("DELETE", f"shovels/vhost/%2F/{NAMES[0]}").status == 204
    eventually(lambda: trio.read("shovels"), lambda told: all(NAMES[0] not in [r["name"] for r in one] for one in told))
    assert asked.api.call("DELETE", f"shovels/vhost/%2F/{NAMES[0]}/restart").status == 404
