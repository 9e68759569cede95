"""Permissions to see and restart federation links; every node of a cluster shows all of them."""

from typing import Any

import pytest

from tests.admin.three_nodes import NOBODY, Trio, eventually, make_user

QUEUES = {f"fed{number}": number for number in range(3)}


@pytest.fixture
def federated(trio: Trio) -> Any:
    """A federated queue on each node, and an exchange."""
    value = {"uri": "amqp://", "queue": "source", "exchange": "source"}
    assert trio[0].api.call("PUT", "parameters/federation-upstream/%2F/up", {"value": value}).status == 201
    for name, number in QUEUES.items():
        body = {"durable": False, "node": trio[number].name}
        assert trio[number].api.call("PUT", f"queues/%2F/{name}", body).status in (201, 204)
    assert trio[0].api.call("PUT", "exchanges/%2F/fedx", {"type": "topic"}).status in (201, 204)
    policy = {"pattern": "^fed", "definition": {"federation-upstream-set": "all"}}
    assert trio[0].api.call("PUT", "policies/%2F/fed", policy).status == 201
    yield
    trio[0].api.call("DELETE", "policies/%2F/fed")
    trio[0].api.call("DELETE", "parameters/federation-upstream/%2F/up")
    for name in (*QUEUES, "source"):
        trio[0].api.call("DELETE", f"queues/%2F/{name}")
    for name in ("fedx", "source"):
        trio[0].api.call("DELETE", f"exchanges/%2F/{name}")


def seen(trio: Trio) -> list[dict[str, str]]:
    """As each node tells it, which node runs what."""
    return [
        {row.get("queue", row.get("exchange")): row["node"] for row in rows if row["status"] == "running"}
        for rows in trio.read("federation-links")
    ]


@pytest.mark.usefixtures("federated")
def test_every_node_shows_all_links_and_takes_orders_about_them(trio: Trio) -> None:
    told = eventually(lambda: seen(trio), lambda told: all(len(one) == 4 for one in told))
    assert told[0] == told[1] == told[2]
    # links of queues run where the queues are
    assert {name: told[0][name] for name in QUEUES} == {name: trio[number].name for name, number in QUEUES.items()}
    link = next(row for row in trio[0].api.read("federation-links/%2F") if row.get("queue") == "fed1")
    path = f"federation-links/vhost/%2F/{link['id']}"
    for node in trio.nodes:
        assert node.api.call("DELETE", f"{path}/{link['node']}/restart").status == 204
        eventually(lambda: seen(trio), lambda told: all(len(one) == 4 for one in told))
    assert trio[0].api.call("DELETE", f"{path}/{trio[2].name}/restart").status == 404


@pytest.mark.usefixtures("federated")
def test_links_are_for_monitors(trio: Trio) -> None:
    make_user(trio)
    api = trio[0].api
    assert api.call("GET", "federation-links", user=NOBODY).status == 401
    assert api.call("DELETE", f"federation-links/vhost/%2F/00000000/{trio[0].name}/restart", user=NOBODY).status == 401
    assert api.call("GET", "federation-links/state/down").status == 200
