"""The plan of a move: imported definitions, omitted ones with their reasons, and conflicts."""

from typing import Any

import pytest

from tests.unit.cli.migrate.exports import (
    ANNA,
    binding,
    exchange,
    fresh_warren,
    parameter,
    permission,
    policy,
    queue,
    rabbitmq_export,
)
from warren.cli.migrate.plan import MigrationPlan, PlanOptions, plan_move
from warren.cli.migrate.queues import FoundQueue, QueueName, found_queue


def plan(
    source: dict[str, Any] | None = None,
    destination: dict[str, Any] | None = None,
    plan_options: PlanOptions | None = None,
) -> MigrationPlan:
    return plan_move(source or rabbitmq_export(), destination or fresh_warren(), [], plan_options)


def left_out(of: MigrationPlan) -> dict[str, str]:
    return {str(each.definition): each.reason for each in of.left_out}


def test_everything_that_warren_can_take_and_has_not_is_brought() -> None:
    document = plan().document()
    assert {section: len(values) for section, values in document.items()} == {
        "users": 1,
        "vhosts": 1,
        "permissions": 2,
        "topic_permissions": 1,
        "parameters": 2,
        "policies": 1,
        "exchanges": 1,
        "queues": 3,
        "bindings": 2,
    }
    assert document["users"] == [ANNA]
    assert document["policies"][0]["definition"] == {"ha-mode": "all", "ha-sync-mode": "automatic"}


def test_an_exchange_of_a_type_that_warren_has_not_is_left_out_with_its_bindings() -> None:
    assert left_out(plan()) == {
        "exchange 'rnd' in 'shop'": "Warren has no exchanges of type x-random",
        "binding from exchange 'rnd' to queue 'plain' by '' in 'shop'": "exchange 'rnd' is left out",
    }


def test_shovels_and_upstreams_are_held_back_until_they_are_asked_for() -> None:
    held = ["shovel 'sh' in 'shop'", "federation-upstream 'up' in 'shop'"]
    without, with_them = plan(), plan(plan_options=PlanOptions(bridges=True))
    assert ([str(each) for each in without.held_back], without.bridges) == (held, [])
    assert (with_them.held_back, [str(each) for each in with_them.bridges]) == ([], held)


def test_the_cluster_name_and_the_password_of_guest_are_not_imported() -> None:
    made = plan()
    assert "global_parameters" not in made.document()
    assert [(str(each.definition), each.fields) for each in made.kept] == [
        ("user 'guest'", ["password_hash", "hashing_algorithm"])
    ]


def test_a_plan_that_was_carried_out_brings_nothing_the_second_time() -> None:
    first = plan()
    after = fresh_warren()
    for section, values in first.document().items():
        after[section] = [*after.get(section, []), *values]
    second = plan(destination=after)
    assert second.document() == {}
    assert len(second.same) == len(first.brought) + len(first.same)
    assert second.in_the_way == []


@pytest.mark.parametrize(
    ("section", "there", "fields"),
    [
        ("queues", queue("plain", x_max_length=5), ["arguments"]),
        ("queues", queue("plain", durable=False), ["durable"]),
        ("exchanges", exchange("ch", "fanout"), ["type"]),
        ("users", {**ANNA, "password_hash": "AAAA"}, ["password_hash"]),
        ("permissions", {**permission("anna", "shop"), "read": ""}, ["read"]),
        ("policies", policy("mirrored", {"ha-mode": "exactly", "ha-params": 2}), ["definition"]),
        ("parameters", parameter("vhost-limits", "limits", {"max-connections": 5}), ["value"]),
    ],
)
def test_a_definition_that_warren_has_otherwise_is_in_the_way_unless_it_is_kept(
    section: str, there: dict[str, Any], fields: list[str]
) -> None:
    destination = fresh_warren()
    destination[section] = [*destination.get(section, []), there]
    assert [each.fields for each in plan(destination=destination).in_the_way] == [fields]
    kept = plan(destination=destination, plan_options=PlanOptions(keep=True))
    assert (kept.in_the_way, [each.fields for each in kept.kept][-1]) == ([], fields)


def test_tags_are_the_same_in_both_ways_in_which_rabbitmq_writes_them() -> None:
    destination = {**fresh_warren(), "users": [{**ANNA, "tags": "management"}]}
    assert "user 'anna'" in [str(each) for each in plan(destination=destination).same]


@pytest.mark.parametrize(
    ("section", "value", "reason"),
    [
        ("queues", queue("odd", x_queue_type="mystery"), "unsupported queue type"),
        ("queues", queue("odd", x_max_length="many"), "expected integer"),
        ("policies", policy("odd", {"target-group-size": 3}), "are not recognised policy settings"),
        ("policies", {**policy("odd", {"max-length": 3}), "apply-to": "quorum_queues"}, "apply-to 'quorum_queues'"),
        ("policies", policy("odd", {"max-length": 3}, pattern="("), "missing )"),
        ("parameters", parameter("mystery", "odd", {}), "Warren has no component mystery"),
        (
            "parameters",
            parameter("operator_policy", "odd", {"pattern": ".*", "definition": {"ha-mode": "all"}}),
            "ha-mode",
        ),
        ("users", {**ANNA, "name": "bob", "hashing_algorithm": "own_hash"}, "is kept by own_hash"),
        ("permissions", {**permission("anna", "/"), "read": "("}, "no regular expression"),
        ("exchanges", {**exchange("odd", "x-delayed-message")}, "x-delayed-type"),
        ("bindings", binding("ch", "ha.one", "heavy"), "binding key must be an integer"),
    ],
)
def test_definitions_that_warren_refuses_are_left_out_with_the_reason(
    section: str, value: dict[str, Any], reason: str
) -> None:
    source = rabbitmq_export()
    source[section].append(value)
    found = plan(source)
    assert [reason in each.reason for each in found.left_out if each.definition.value is value] == [True]
    assert value not in found.document().get(section, [])


def test_permissions_of_a_user_that_is_left_out_are_left_out_too() -> None:
    source = rabbitmq_export()
    source["users"][1] = {**ANNA, "hashing_algorithm": "own_hash"}
    assert left_out(plan(source))["permissions of 'anna' in 'shop'"] == "user 'anna' is left out"


def test_only_the_virtual_hosts_that_are_named_are_moved() -> None:
    only = plan(plan_options=PlanOptions(vhosts=("/",)))
    assert set(only.document()) == {"users"}
    assert plan(plan_options=PlanOptions(vhosts=("shop", "other"))).unknown_vhosts == ["other"]


def test_the_creator_of_a_virtual_host_may_enter_it() -> None:
    made = plan(plan_options=PlanOptions(mover="mover"))
    assert permission("mover", "shop") in made.document()["permissions"]
    assert made.closed_vhosts == ["/"]


def test_a_queue_is_known_again_by_the_arguments_that_warren_wrote_down() -> None:
    source = rabbitmq_export()
    source["queues"] = [queue("plain", mirrored=True)]
    source["bindings"] = []
    destination = {**fresh_warren(), "queues": [queue("plain", x_ha_mode="all")]}
    assert "queue 'plain' in 'shop'" in [str(each) for each in plan(source, destination).same]


def test_contents_are_carried_but_for_queues_that_would_go_with_their_consumer() -> None:
    rows = [
        {"vhost": "shop", "name": "plain", "messages": 7, "arguments": {}},
        {"vhost": "shop", "name": "own", "messages": 1, "exclusive": True},
        {"vhost": "shop", "name": "brief", "messages": 2, "auto_delete": True},
        {"vhost": "shop", "name": "odd", "messages": 3},
        {"vhost": "elsewhere", "name": "plain", "messages": 4},
    ]
    source = rabbitmq_export()
    source["queues"].append(queue("odd", x_queue_type="mystery"))
    found = plan_move(source, fresh_warren(), [found_queue(row) for row in rows])
    assert found.carried == [FoundQueue(QueueName("shop", "plain"), 7)]
    reasons = {each.found.queue.name: each.reason.split(";")[0] for each in found.staying}
    assert reasons["own"] == "it is exclusive to one connection"
    assert reasons["brief"].startswith("RabbitMQ deletes it")
    assert reasons["odd"] == "the queue itself is left out"
