"""Definitions of a running RabbitMQ are imported into Warren completely, once, and never over existing ones."""

from typing import Any

import pytest

from tests.migrating.moving import Moving
from warren.client import blocking
from warren.client.errors import LoginRefused


@pytest.fixture
def shop(moving: Moving) -> Moving:
    """A virtual host with a bit of everything."""
    operator, vhost = moving.source_operator, moving.vhost
    operator.user("anna", "management", "secret")
    operator.permit("anna", configure="^a", vhost=vhost)
    operator.permit_topics("anna", "amq.topic", "^a", "^b", vhost=vhost)
    operator.limit_vhost(vhost, "max-queues", 50)
    operator.policy("mirrored", "^ha", {"ha-mode": "all", "ha-sync-mode": "automatic"}, vhost)
    channel = moving.at_source()
    channel.declare_queue("ha.orders", durable=True, arguments={"x-max-priority": 5})
    channel.declare_queue("passing")
    channel.declare_exchange("trade", "topic", durable=True)
    channel.declare_exchange("dice", "x-random", durable=True)
    channel.bind_queue("ha.orders", "trade", "order.#")
    channel.bind_queue("ha.orders", "dice", "")
    channel.bind_queue("passing", "amq.headers", "", arguments={"x-match": "any", "count": 1, "wanted": True})
    return moving


def definitions(of: Moving) -> dict[str, Any]:
    exported = of.operator.read("definitions")
    assert isinstance(exported, dict)
    return exported


def in_vhost(of: Moving, section: str, exported: dict[str, Any]) -> list[Any]:
    rows = [row for row in exported[section] if row.get("vhost") == of.vhost]
    return sorted(rows, key=repr)


def test_a_dry_run_shows_everything_and_changes_nothing(shop: Moving) -> None:
    before = definitions(shop)
    code, out, err = shop.run("--dry-run")
    assert (code, err) == (0, "")
    assert definitions(shop) == before
    assert f"exchange 'dice' in '{shop.vhost}': Warren has no exchanges of type x-random" in out
    assert out.endswith("nothing was changed: this was a dry run\n")


def test_definitions_come_as_they_are_but_for_what_warren_cannot_take(shop: Moving) -> None:
    code, out, _ = shop.run("--definitions-only")
    assert code == 0, out
    there, here = shop.source_operator.read("definitions"), definitions(shop)
    for section in ("permissions", "topic_permissions", "parameters", "policies", "queues"):
        assert in_vhost(shop, section, here) == in_vhost(shop, section, there), section
    lost = [row for row in in_vhost(shop, "bindings", there) if row not in in_vhost(shop, "bindings", here)]
    assert [row["source"] for row in lost] == ["dice"]
    assert [row["name"] for row in in_vhost(shop, "exchanges", here)] == ["trade"]


def test_users_log_in_with_the_passwords_they_had(shop: Moving) -> None:
    shop.run("--definitions-only")
    blocking.connect(shop.url.replace("guest:guest", "anna:secret")).close()
    with pytest.raises(LoginRefused):
        blocking.connect(shop.url.replace("guest:guest", "anna:wrong"))


def test_a_second_run_finds_nothing_to_bring(shop: Moving) -> None:
    shop.run("--definitions-only")
    before = definitions(shop)
    code, out, _ = shop.run("--definitions-only")
    assert (code, definitions(shop)) == (0, before)
    assert "definitions to import: none\n" in out


def test_definitions_that_differ_at_warren_are_never_replaced(shop: Moving) -> None:
    shop.operator.vhost(shop.vhost)
    channel = shop.at_warren()
    channel.declare_queue("passing", durable=True)
    before = definitions(shop)
    code, out, err = shop.run()
    assert code == 1
    assert f"queue 'passing' in '{shop.vhost}' (durable)" in out
    assert err.startswith("warren: 1 definitions differ at Warren; nothing was changed.")
    assert definitions(shop) == before
    code, _, _ = shop.run("--definitions-only", "--keep")
    kept = next(row for row in in_vhost(shop, "queues", definitions(shop)) if row["name"] == "passing")
    assert (code, kept["durable"]) == (0, True)


def test_rabbitmqs_own_upstreams_come_only_when_they_are_asked_for(shop: Moving) -> None:
    up = {"value": {"uri": "amqp://nowhere.invalid"}}
    shop.source_operator._change("PUT", ["parameters", "federation-upstream", shop.vhost, "up"], up)
    _, out, _ = shop.run("--definitions-only")
    assert f"  federation-upstream 'up' in '{shop.vhost}'\n" in out
    assert "up" not in [row["name"] for row in in_vhost(shop, "parameters", definitions(shop))]
    code, out, err = shop.run("--definitions-only", "--bridges")
    assert code == 0, err
    assert "up" in [row["name"] for row in in_vhost(shop, "parameters", definitions(shop))]
