"""Missing permissions for a move at both brokers."""

from typing import Any

import pytest

from tests.unit.cli.migrate.exports import fresh_warren, permission, queue, rabbitmq_export
from warren.cli.migrate.plan import MigrationPlan, PlanOptions, plan_move
from warren.cli.migrate.queues import FoundQueue, QueueName

NAMES = ("plain", "ha.one")


def plan(source: dict[str, Any], destination: dict[str, Any] | None = None) -> MigrationPlan:
    found = [FoundQueue(QueueName("shop", name), 1) for name in NAMES]
    plan_options = PlanOptions(keep=True, mover="guest", carrier="carrier")
    return plan_move(source, destination or fresh_warren(), found, plan_options)


def export(**carrier: str) -> dict[str, Any]:
    """RabbitMQ's export, in which the shovels' user has these permissions."""
    made = rabbitmq_export()
    made["permissions"] = [*made["permissions"], {**permission("carrier", "shop"), **carrier}]
    return made


def test_a_user_that_may_read_every_queue_of_rabbitmq_lacks_no_permission() -> None:
    assert plan(export(configure="", write="")).missing_at_rabbitmq == []


def test_a_queue_that_the_user_of_the_shovels_may_not_read_is_named() -> None:
    [missing] = plan(export(write="^plain$", read="^plain$")).missing_at_rabbitmq
    assert (missing.queue, missing.user) == (QueueName("shop", "ha.one"), "carrier")
    assert missing.forbidden == "read queue 'ha.one' in 'shop'"
    assert missing.wanted == (".*", "^plain$", ".*")


def test_an_empty_expression_lets_nothing_through() -> None:
    assert [missing.queue.name for missing in plan(export(read="")).missing_at_rabbitmq] == ["ha.one", "plain"]


def test_users_of_other_backends_and_expressions_that_python_cannot_read_are_not_judged() -> None:
    assert plan(rabbitmq_export()).missing_at_rabbitmq == []
    assert plan(export(read="(?|a|b)")).missing_at_rabbitmq == []


@pytest.mark.parametrize(
    ("held", "forbidden"),
    [
        ({"write": "^(plain|amq)"}, "write to queue 'ha.one' in 'shop'"),
        ({"configure": "plain"}, "configure exchange 'migrate-ha.one' in 'shop'"),
        ({"read": "plain"}, "read exchange 'migrate-ha.one' in 'shop'"),
    ],
)
def test_a_queue_that_the_user_may_not_configure_at_warren_is_named(held: dict[str, str], forbidden: str) -> None:
    there = fresh_warren()
    there["vhosts"] = [*there["vhosts"], {"name": "shop"}]
    there["permissions"] = [*there["permissions"], {**permission("guest", "shop"), **held}]
    [missing] = plan(rabbitmq_export(), there).missing_at_warren
    assert (missing.queue, missing.user, missing.forbidden) == (QueueName("shop", "ha.one"), "guest", forbidden)


def test_the_default_exchange_has_to_be_written_to() -> None:
    there = fresh_warren()
    there["vhosts"] = [*there["vhosts"], {"name": "shop"}]
    there["permissions"] = [*there["permissions"], {**permission("guest", "shop"), "write": "^(plain|ha)"}]
    lacks = plan(rabbitmq_export(), there).missing_at_warren
    assert {missing.forbidden for missing in lacks} == {"write to exchange 'amq.default' in 'shop'"}


def test_imported_permissions_and_those_of_a_new_virtual_hosts_creator_count() -> None:
    source = rabbitmq_export()
    others = [each for each in source["permissions"] if (each["user"], each["vhost"]) != ("guest", "shop")]
    source["permissions"] = others
    assert plan(source).missing_at_warren == []
    source["permissions"] = [*others, {**permission("guest", "shop"), "write": ""}]
    assert [missing.queue.name for missing in plan(source).missing_at_warren] == ["ha.one", "plain"]


def test_a_queue_that_stays_needs_no_permissions() -> None:
    source = export(read="^plain$")
    source["queues"] = [queue("plain")]
    found = [FoundQueue(QueueName("shop", "replies"), 1, exclusive=True)]
    assert plan_move(source, fresh_warren(), found, PlanOptions(carrier="carrier")).missing_at_rabbitmq == []
