"""Errors in a shovel's definition, in RabbitMQ 3.10.8's words; a few of them are our own."""

import pytest

from warren.bridges.shovel_definition import shovel_errors
from warren.broker.policies.parameters import Parameter

GOOD = {"src-uri": "amqp://", "src-queue": "a", "dest-uri": "amqp://", "dest-queue": "b"}


def refused(value: object) -> list[str]:
    return shovel_errors(Parameter("/", "shovel", "s", value))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"src-protocol": "amqp091", "dest-protocol": "amqp091"},
        {"src-uri": ["amqp://u:p@one", "amqps://two/v?cacertfile=/ca&fail_if_no_peer_cert=true&depth=2"]},
        {"src-prefetch-count": 0, "src-delete-after": "queue-length", "ack-mode": "no-ack"},
        {"prefetch-count": 5, "delete-after": 0, "reconnect-delay": 0.5},
        {"src-queue-args": {"x-queue-type": "stream"}, "src-consumer-args": [], "dest-queue-args": {}},
        {"dest-publish-properties": {"delivery_mode": 2, "content_type": "x"}, "dest-add-forward-headers": True},
        {"publish-properties": [], "add-forward-headers": False, "add-timestamp-header": True},
        {"src-queue": "q" * 255, "publish-properties": {"timestamp": 2**64 - 1, "type": "t" * 255}},
        {"publish-properties": {"timestamp": 1.5}, "src-queue-args": {"x": [None, True, 2**63 - 1, {"y": "z" * 300}]}},
        {"dest-queue": "a", "dest-uri": "amqp:///other"},
    ],
)
def test_a_definition_that_rabbitmq_takes_is_taken(changes: dict[str, object]) -> None:
    assert refused({**GOOD, **changes}) == []


def test_an_exchange_is_a_source_and_no_destination_means_the_exchange_a_message_came_through() -> None:
    source = {"src-uri": "amqp://", "src-exchange": "x", "src-exchange-key": "k"}
    assert refused({**source, "dest-uri": "amqp://other"}) == []
    assert refused({**source, "dest-uri": "amqp://", "dest-exchange": "x", "dest-exchange-key": "other"}) == []


def test_a_shovel_that_must_not_lose_messages_waits_for_confirms() -> None:
    to_exchange = {"src-uri": "amqp://", "src-queue": "a", "dest-uri": "amqp://", "dest-exchange": "x"}
    assert refused({**to_exchange, "dest-mandatory": True}) == []
    assert refused({**to_exchange, "dest-mandatory": False, "ack-mode": "no-ack"}) == []
    for mode in ("no-ack", "on-publish"):
        reasons = refused({**to_exchange, "dest-mandatory": True, "ack-mode": mode})
        assert reasons == ["Cannot specify 'dest-mandatory' and an 'ack-mode' that does not wait for confirms"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"dest-mandatory": "yes"}, 'dest-mandatory should be boolean, actually was <<"yes">>'),
        ({"src-exchange": "x"}, "Cannot specify 'src-exchange' and 'src-queue'"),
        ({"dest-exchange": "x"}, "Cannot specify 'dest-exchange' and 'dest-queue'"),
        ({"src-queue": 5}, "src-queue should be binary, actually was 5"),
        ({"src-uri": 5}, "src-uri should be list, actually was 5"),
        ({"src-uri": ["amqp://", None]}, "src-uri should be list, actually was null"),
        ({"src-prefetch-count": "10"}, 'src-prefetch-count should be a number, actually was <<"10">>'),
        ({"reconnect-delay": "5"}, 'reconnect-delay should be a number, actually was <<"5">>'),
        ({"add-forward-headers": 1}, "add-forward-headers should be boolean, actually was 1"),
        (
            {"ack-mode": "nosuch"},
            'ack-mode should be one of [<<"no-ack">>,<<"on-publish">>,<<"on-confirm">>], actually was <<"nosuch">>',
        ),
        (
            {"delete-after": -5},
            'delete-after should be a number greater than or equal to 0, "never" or "queue-length", actually was -5',
        ),
        ({"ack-mode": "no-ack", "src-delete-after": 5}, "Cannot specify 'no-ack' and numerical 'delete-after'"),
        ({"nosuch": 5, "z": {"a": [1]}}, 'Unrecognised terms [{<<"nosuch">>,5},{<<"z">>,#{<<"a">> => [1]}}] in s'),
        ({"dest-publish-properties": 5}, "dest-publish-properties not a list 5"),
        (
            {"dest-publish-properties": {"headers": 5}},
            'Unrecognised terms [{<<"headers">>,5}] in dest-publish-properties',
        ),
    ],
)
def test_definitions_that_rabbitmq_refuses_are_refused_in_its_words(changes: dict[str, object], reason: str) -> None:
    assert refused({**GOOD, **changes}) == [reason]


def test_reasons_come_in_the_order_of_rabbitmq() -> None:
    assert refused([]) == [
        "Must specify 'src-exchange' or 'src-queue'",
        'Key "dest-uri" not found in s',
        'Key "src-uri" not found in s',
    ]
    wrong = {"content_type": 5, "priority": "a", "headers": 5, "cluster_id": 3}
    assert refused({**GOOD, "dest-publish-properties": wrong}) == [
        'Unrecognised terms [{<<"headers">>,5}] in dest-publish-properties',
        "cluster_id should be binary, actually was 3",
        'priority should be a number, actually was <<"a">>',
        "content_type should be binary, actually was 5",
    ]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"src-uri": "http://x"}, '"http://x" not a valid URI: an AMQP URL begins with amqp:// or amqps://'),
        ({"src-uri": "amqp://u:secret@h:port/x"}, '"amqp://h:port/x" not a valid URI: a port is a number'),
        ({"src-uri": "amqp://u:sec/ret@h"}, '"amqp://h" not a valid URI: '),
        ({"src-uri": "secret@h"}, '"h" not a valid URI: '),
        ({"src-uri": []}, "src-uri should name at least one URI"),
        ({"src-queue": ""}, "src-queue should be a name, actually was empty"),
        ({"src-protocol": "amqp10"}, 'src-protocol should be "amqp091", the one protocol there is here'),
        ({"src-prefetch-count": 65_536}, "src-prefetch-count should be a whole number from 0 to 65535"),
        ({"src-queue-args": 5}, "src-queue-args should be an object of arguments, actually was 5"),
        ({"dest-publish-properties": {"delivery_mode": 300}}, "delivery_mode should be a whole number from 0 to 255"),
        ({"src-queue": "q" * 256}, "src-queue should have at most 255 bytes, actually had 256"),
        ({"dest-queue": "\u00fc" * 128}, "dest-queue should have at most 255 bytes, actually had 256"),
        ({"src-exchange-key": "k" * 300}, "src-exchange-key should have at most 255 bytes, actually had 300"),
        ({"dest-exchange-key": "\ud800"}, "dest-exchange-key should be text, actually had characters that UTF-8"),
        ({"dest-publish-properties": {"app_id": "a" * 256}}, "app_id should have at most 255 bytes"),
        ({"publish-properties": {"timestamp": -5}}, "timestamp should be a number from 0 to 18446744073709551615"),
        ({"publish-properties": {"timestamp": float("inf")}}, "timestamp should be a number from 0 to"),
        ({"publish-properties": {"timestamp": float("nan")}}, "timestamp should be a number from 0 to"),
        ({"publish-properties": {"timestamp": 2**64}}, "timestamp should be a number from 0 to"),
        ({"src-queue-args": {"x-max-length": 10**30}}, "src-queue-args should be arguments that AMQP can carry: "),
        ({"src-consumer-args": {"a" * 256: 1}}, "src-consumer-args should be arguments that AMQP can carry: "),
        ({"dest-queue-args": {"x": [float("inf")]}}, "dest-queue-args should be arguments that AMQP can carry: "),
    ],
)
def test_definitions_that_crash_rabbitmq_are_refused_in_a_sentence_without_passwords(
    changes: dict[str, object], words: str
) -> None:
    (reason,) = refused({**GOOD, **changes})
    assert reason.startswith(words)
    assert "sec" not in reason


@pytest.mark.parametrize(
    "changes",
    [
        {"src_uri": "amqp://u:secret@h"},
        {"password": "secret"},
        {"other": {"uris": ["amqp://u:secret@h"]}},
        {"src-uri": {"uri": "amqp://u:secret@h"}},
        {"src-uri": [["amqp://u:secret@h"]]},
        {"ack-mode": "amqp://u:secret@h"},
        {"src-prefetch-count": "amqp://u:secret@h"},
        {"src-protocol": "amqp://u:secret@h"},
        {"delete-after": "amqp://u:secret@h"},
        {"dest-publish-properties": {"password": "secret"}},
    ],
)
def test_no_refusal_quotes_a_possible_password(changes: dict[str, object]) -> None:
    reasons = refused({**GOOD, **changes})
    assert reasons
    assert "secret" not in "".join(reasons)
    assert "..." in "".join(reasons)


def test_a_uri_in_the_place_of_a_definition_is_not_quoted_either() -> None:
    assert refused("amqp://u:secret@h") == ['s not a list <<"...">>']


@pytest.mark.parametrize(
    ("changes", "source"),
    [
        ({"dest-queue": "a"}, "queue 'a'"),
        (
            {"src-uri": "amqp://h", "dest-uri": ["amqp://elsewhere", "amqp://u:p@H:5672/%2F"], "dest-queue": "a"},
            "queue",
        ),
        ({"src-uri": "amqp://localhost", "dest-uri": "amqp://127.0.0.1:5672", "dest-queue": "a"}, "queue"),
        ({"dest-queue": None}, "queue 'a'"),
        ({"src-queue": None, "src-exchange": "x", "dest-queue": None, "dest-exchange": "x"}, "exchange 'x'"),
        ({"dest-queue": None, "dest-exchange": ""}, "queue 'a'"),
        ({"dest-queue": None, "dest-exchange": "", "dest-exchange-key": "a"}, "queue 'a'"),
        ({"dest-queue": None, "dest-exchange-key": "a"}, "queue 'a'"),
        (
            {
                "src-queue": None,
                "src-exchange": "x",
                "src-exchange-key": "k",
                "dest-queue": None,
                "dest-exchange": "x",
                "dest-exchange-key": "k",
            },
            "exchange 'x'",
        ),
        (
            {
                "src-queue": None,
                "src-exchange": "x",
                "src-exchange-key": "k",
                "dest-queue": None,
                "dest-exchange-key": "k",
            },
            "exchange 'x'",
        ),
    ],
)
def test_a_shovel_to_itself_is_refused(changes: dict[str, object], source: str) -> None:
    merged = {name: value for name, value in {**GOOD, **changes}.items() if value is not None}
    (reason,) = refused(merged)
    assert reason.startswith(f"a shovel from {source}")
    assert "would carry the same messages for ever" in reason


@pytest.mark.parametrize(
    "changes",
    [
        {"dest-exchange": "", "dest-exchange-key": "b"},
        {"dest-exchange": "x", "dest-exchange-key": "a"},
        {"dest-exchange-key": "b"},
    ],
)
def test_a_shovel_to_another_queue_or_through_another_exchange_is_taken(changes: dict[str, object]) -> None:
    assert refused({name: value for name, value in GOOD.items() if name != "dest-queue"} | changes) == []
