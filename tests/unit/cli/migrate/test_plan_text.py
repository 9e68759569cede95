"""The text of a plan."""

from typing import Any

from tests.unit.cli.migrate.exports import fresh_warren, queue, rabbitmq_export
from warren.cli.migrate.plan import listener_notes, plan_lines, plan_move
from warren.cli.migrate.queues import found_queue


def test_a_plan_lists_imported_and_omitted_definitions_with_reasons() -> None:
    rows: list[dict[str, Any]] = [
        {"vhost": "shop", "name": "plain", "messages": 7, "type": "quorum", "messages_unacknowledged": 2},
        {"vhost": "shop", "name": "own", "messages": 1, "exclusive": True},
        {"vhost": "shop", "name": "ha.one", "arguments": {"x-single-active-consumer": True}, "consumers": 1},
        {"vhost": "shop", "name": "transient", "effective_policy_definition": {"expires": 1000}},
    ]
    destination = {**fresh_warren(), "queues": [queue("transient")]}
    plan = plan_move(rabbitmq_export(), destination, [found_queue(row) for row in rows])
    assert list(plan_lines(plan)) == [
        "definitions to import: 1 user, 1 virtual host, 2 permissions, 1 topic permissions, 2 parameters, 1 policy, "
        "1 exchange, 2 queues, 2 bindings",
        "already at Warren, identical: 1 virtual host, 1 permissions",
        "Warren's own, which are not changed: 1",
        "  user 'guest' (password_hash, hashing_algorithm)",
        "left out: 2",
        "  exchange 'rnd' in 'shop': Warren has no exchanges of type x-random",
        "  binding from exchange 'rnd' to queue 'plain' by '' in 'shop': exchange 'rnd' is left out",
        "left out, because they would move messages while RabbitMQ's still do (--bridges imports them): 2",
        "  shovel 'sh' in 'shop'",
        "  federation-upstream 'up' in 'shop'",
        "in conflict, because they differ at Warren: 1",
        "  queue 'transient' in 'shop' (durable)",
        "contents to move, by RabbitMQ's last statistics: 7 messages in 1 of 3 queues",
        "  queue 'plain' in 'shop': 7",
        "contents that stay at RabbitMQ: 1",
        "  queue 'own' in 'shop', 1 messages: it is exclusive to one connection; its client declares it again "
        "at Warren",
        "to know: 4",
        "  queue 'ha.one' in 'shop' has a single active consumer: nothing is moved until it has gone",
        "  queue 'plain' in 'shop' is a quorum queue: at Warren it is held by one node unless a policy with ha-mode "
        "fits it",
        "  queue 'plain' in 'shop': 2 messages are unacked at RabbitMQ and move when their consumers are gone",
        "  queue 'transient' in 'shop' expires when it is not used: its consumers must come to Warren before that",
    ]


def test_protocols_that_warren_does_not_speak_are_listed() -> None:
    listeners = [{"protocol": word} for word in ("amqp", "clustering", "http", "mqtt", "mqtt")]
    assert list(listener_notes({"listeners": listeners})) == [
        "RabbitMQ listens for mqtt: Warren does not; its clients cannot move"
    ]
