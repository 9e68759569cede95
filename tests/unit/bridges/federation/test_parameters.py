"""The answers of RabbitMQ 3.10 to the same definitions, except those that make it crash at once or later."""

import pytest

from warren.bridges.federation.upstreams import LocalComponent, UpstreamComponent, UpstreamSetComponent
from warren.broker.policies.parameters import Parameter

HERE = {"uri": "amqp://"}


def upstream(value: object) -> list[str]:
    return UpstreamComponent().refusals(Parameter("/", "federation-upstream", "val", value))


def upstream_set(value: object) -> list[str]:
    return UpstreamSetComponent().refusals(Parameter("/", "federation-upstream-set", "val", value))


@pytest.mark.parametrize(
    ("value", "reasons"),
    [
        ({}, ['Key "uri" not found in val']),
        ([], ['Key "uri" not found in val']),
        ({"uri": 5}, ["uri should be list, actually was 5"]),
        ({"uri": ["amqp://", 5]}, ["uri should be list, actually was 5"]),
        ({**HERE, "nope": 1}, ['Unrecognised terms [{<<"nope">>,1}] in val']),
        (
            {**HERE, "nope": 1, "other": True},
            ['Unrecognised terms [{<<"nope">>,1},{<<"other">>,true}] in val'],
        ),
        ({**HERE, "prefetch-count": "x"}, ['prefetch-count should be a number, actually was <<"x">>']),
        (
            {**HERE, "ack-mode": "x"},
            [
                'ack-mode should be one of [<<"no-ack">>,<<"on-publish">>,<<"on-confirm">>], actually was <<"x">>',
            ],
        ),
        ({**HERE, "ack-mode": 5}, ["ack-mode should be binary, actually was 5"]),
        ({**HERE, "trust-user-id": "yes"}, ['trust-user-id should be boolean, actually was <<"yes">>']),
        ({**HERE, "bind-nowait": 1}, ["bind-nowait should be boolean, actually was 1"]),
        ({**HERE, "exchange": 4}, ["exchange should be binary, actually was 4"]),
        ({**HERE, "exchange": None}, ["exchange should be binary, actually was null"]),
        (
            {**HERE, "max-hops": "a", "expires": "b"},
            [
                'expires should be a number, actually was <<"b">>',
                'max-hops should be a number, actually was <<"a">>',
            ],
        ),
        (
            {**HERE, "resource-cleanup-mode": "x"},
            ['resource-cleanup-mode should be one of [<<"default">>,<<"never">>], actually was <<"x">>'],
        ),
        (
            {**HERE, "channel-use-mode": "x"},
            ['channel-use-mode should be one of [<<"multiple">>,<<"single">>], actually was <<"x">>'],
        ),
        ({**HERE, "queue-type": "quorum"}, ['Unrecognised terms [{<<"queue-type">>,<<"...">>}] in val']),
        ({**HERE, "ha-policy": "all", "consumer-tag": "c"}, []),
        ({"uri": "amqps://h?cacertfile=/nope"}, []),
        ({"uri": "amqp://h?auth_mechanism=external"}, []),
        ({"uri": "amqp:///vh"}, []),
    ],
)
def test_an_upstream_is_refused_in_rabbitmqs_words(value: object, reasons: list[str]) -> None:
    assert upstream(value) == reasons


@pytest.mark.parametrize(
    "value",
    [
        5,
        "x",
        {"uri": []},
        {**HERE, "prefetch-count": -1},
        {**HERE, "max-hops": 0},
        {**HERE, "reconnect-delay": -5},
        {**HERE, "expires": 0},
        {**HERE, "exchange": "x" * 256},
        {**HERE, "queue": "x" * 256},
        {**HERE, "consumer-tag": "x" * 256},
    ],
)
def test_an_upstream_that_could_not_work_is_refused(value: object) -> None:
    assert upstream(value)


def test_a_bad_uri_is_refused_without_its_password() -> None:
    [reason] = upstream({"uri": "amqp://me:secret@host:port/"})
    assert "not a valid URI" in reason
    assert "secret" not in reason


@pytest.mark.parametrize(
    ("value", "reasons"),
    [
        ({}, []),
        ([], []),
        ([{"upstream": "one that may come"}], []),
        ([{}], ['Key "upstream" not found in val']),
        ([{"upstream": "up"}, {}], ['Key "upstream" not found in val']),
        ([{"upstream": 5}], ["upstream should be binary, actually was 5"]),
        ([{"upstream": "up", "max-hops": "x"}], ['max-hops should be a number, actually was <<"x">>']),
        ([{"upstream": "up", "nope": 1}], ['Unrecognised terms [{<<"nope">>,1}] in val']),
        (5, ["val should be a list of upstreams, actually was 5"]),
    ],
)
def test_a_set_of_upstreams_is_refused_in_rabbitmqs_words(value: object, reasons: list[str]) -> None:
    assert upstream_set(value) == reasons


def test_the_component_federation_knows_no_name() -> None:
    assert LocalComponent().refusals(Parameter("/", "federation", "x", {})) == ['name not recognised: <<"x">>']
