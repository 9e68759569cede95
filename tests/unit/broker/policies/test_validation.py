"""CommandRefused policies, in the recorded words of RabbitMQ 3.10.8, or in ours where it has none."""

import pytest

from warren.broker.policies.policies import Policy
from warren.broker.policies.validation import check_policy, policy_of
from warren.errors import CommandRefused
from warren.wire.field_tables import Table

HA_MODE_MISSING = "ha-mode must be specified to specify ha-params, ha-sync-mode or ha-promote-on-shutdown"
FEDERATION_TOGETHER = (
    "cannot specify federation-upstream, federation-upstream-set or federation-upstream-pattern together"
)


def refusal(
    definition: object,
    operator: bool = False,
    pattern: object = "^x",
    apply_to: object = "all",
    priority: object = 0,
) -> str:
    """All mistakes in a policy; empty if it is accepted."""
    try:
        policy_of("/", "p", pattern, apply_to, definition, priority, operator)
    except CommandRefused as refused:
        return f"{refused.kind}: {refused.reason}".removeprefix("bad_request: Validation failed\n\n").removesuffix("\n")
    return ""


def test_a_refusal_has_a_heading_and_a_line_for_each_reason() -> None:
    with pytest.raises(CommandRefused) as refused:
        policy_of("/", "p", "^x", "all", {}, 0, False)
    assert (refused.value.kind, refused.value.reason) == ("bad_request", "Validation failed\n\nno policy provided\n")


@pytest.mark.parametrize(
    "definition",
    [
        {"message-ttl": 0},
        {"message-ttl": 10**30},
        {"expires": 1},
        {"max-length": 0, "max-length-bytes": 0},
        {"overflow": "drop-head"},
        {"overflow": "reject-publish-dlx"},
        {"dead-letter-exchange": "", "dead-letter-routing-key": ""},
        {"dead-letter-routing-key": "k"},
        {"dead-letter-strategy": "at-most-once"},
        {"queue-mode": "lazy", "queue-version": 2},
        {"queue-master-locator": "min-masters"},
        {"queue-leader-locator": "balanced"},
        {"delivery-limit": 0},
        {"max-in-memory-length": 0, "max-in-memory-bytes": 0},
        {"max-age": "12h"},
        {"stream-max-segment-size-bytes": 0},
        {"initial-cluster-size": 0},
        {"alternate-exchange": ""},
        {"federation-upstream": "a"},
        {"federation-upstream-set": "all"},
        {"federation-upstream-pattern": "^a"},
        {"ha-mode": "all"},
        {"ha-mode": "exactly", "ha-params": 2},
        {"ha-mode": "nodes", "ha-params": ["n1"]},
        {
            "ha-mode": "all",
            "ha-sync-mode": "automatic",
            "ha-sync-batch-size": 1,
            "ha-promote-on-shutdown": "when-synced",
            "ha-promote-on-failure": "always",
            "ha-min-in-sync": 2,
            "ha-confirm": "master",
        },
    ],
)
def test_valid_definitions_are_accepted(definition: Table) -> None:
    assert refusal(definition) == ""


@pytest.mark.parametrize(
    ("definition", "reason"),
    [
        ({"message-ttl": "a"}, '<<"a">> is not a valid message TTL'),
        ({"message-ttl": True}, "true is not a valid message TTL"),
        ({"message-ttl": 5.0}, "5.0 is not a valid message TTL"),
        ({"expires": 0}, "0 is not a valid queue expiry"),
        ({"max-length": {"a": 1}}, '#{<<"a">> => 1} is not a valid maximum length'),
        ({"max-length-bytes": None}, "null is not a valid maximum length in bytes"),
        ({"overflow": "a"}, '<<"a">> is not a valid overflow value'),
        ({"overflow": ["drop-head"]}, '[<<"drop-head">>] is not a valid overflow value'),
        ({"dead-letter-exchange": 1}, "1 is not a valid dead letter exchange name"),
        ({"dead-letter-routing-key": []}, "[] is not a valid dead letter routing key"),
        ({"dead-letter-strategy": "a"}, '<<"a">> is not a valid dead letter strategy'),
        ({"queue-mode": ""}, "<<>> is not a valid queue-mode value"),
        ({"queue-version": 0}, "0 is not a valid queue-version value"),
        ({"queue-version": True}, "true is not a valid queue-version value"),
        ({"queue-master-locator": "a"}, '<<"a">> invalid queue-master-locator value'),
        ({"queue-leader-locator": 1}, "1 is not a valid queue leader locator value"),
        ({"delivery-limit": -1}, "-1 is not a valid delivery limit"),
        ({"max-in-memory-length": -1}, "-1 is not a valid maximum memory in bytes"),
        ({"max-in-memory-bytes": "a"}, '<<"a">> is not a valid maximum memory in bytes'),
        ({"max-age": "1x"}, '<<"1x">> is not a valid max age'),
        ({"max-age": 1}, "1 is not a valid max age"),
        ({"stream-max-segment-size-bytes": -1}, "-1 is not a valid segment size"),
        ({"initial-cluster-size": -1}, "-1 is not a valid cluster size"),
        ({"alternate-exchange": 0}, "0 is not a valid alternate exchange name"),
        ({"federation-upstream": 1}, "1 is not a valid federation upstream name"),
        ({"federation-upstream-set": 1}, "1 is not a valid federation upstream set name"),
        ({"federation-upstream-pattern": 1}, "1 is not a valid federation upstream pattern name"),
        ({"federation-upstream-set": "a", "federation-upstream": "b"}, FEDERATION_TOGETHER),
        ({"federation-upstream-set": 1, "federation-upstream": 1}, FEDERATION_TOGETHER),
        (
            {"federation-upstream-pattern": "["},
            "could not compile pattern [ to a regular expression. Error: "
            '{"missing terminating ] for character class",\n' + " " * 61 + "1}",
        ),
        ({"consumer-timeout": 1}, '[{<<"consumer-timeout">>,1}] are not recognised policy settings'),
        ({"max-length": 1, "nosuch": 1}, '[{<<"nosuch">>,1}] are not recognised policy settings'),
        ({}, "no policy provided"),
        ([], "definition must be a dictionary: []"),
    ],
)
def test_invalid_definitions_are_refused(definition: object, reason: str) -> None:
    assert refusal(definition) == reason


@pytest.mark.parametrize(
    ("definition", "reason"),
    [
        ({"ha-params": 2}, HA_MODE_MISSING),
        ({"ha-sync-mode": "automatic"}, HA_MODE_MISSING),
        ({"ha-promote-on-failure": "always"}, HA_MODE_MISSING),
        ({"ha-confirm": "all"}, HA_MODE_MISSING),
        ({"ha-mode": "foo"}, '<<"foo">> is not a valid ha-mode value'),
        ({"ha-mode": 1}, "1 is not a valid ha-mode value"),
        ({"ha-mode": "all", "ha-params": None}, 'ha-mode="all" does not take parameters'),
        ({"ha-mode": "exactly"}, 'ha-mode="exactly" takes an integer, none given'),
        ({"ha-mode": "exactly", "ha-params": 0}, 'ha-mode="exactly" takes an integer, 0 given'),
        ({"ha-mode": "exactly", "ha-params": True}, 'ha-mode="exactly" takes an integer, true given'),
        ({"ha-mode": "nodes"}, 'ha-mode="nodes" takes a list, none given'),
        ({"ha-mode": "nodes", "ha-params": "a"}, 'ha-mode="nodes" takes a list, <<"a">> given'),
        ({"ha-mode": "nodes", "ha-params": None}, 'ha-mode="nodes" takes a list, null given'),
        ({"ha-mode": "nodes", "ha-params": []}, 'ha-mode="nodes" list must be non-empty'),
        (
            {"ha-mode": "nodes", "ha-params": ["a", 2]},
            'ha-mode="nodes" takes a list of strings, [2] was not a string',
        ),
        ({"ha-mode": "all", "ha-sync-mode": 0}, 'ha-sync-mode must be "manual" or "automatic", got 0'),
        ({"ha-mode": "all", "ha-sync-batch-size": 0}, "ha-sync-batch-size takes an integer greater than 0, 0 given"),
        (
            {"ha-mode": "all", "ha-promote-on-shutdown": "a"},
            'ha-promote-on-shutdown must be "always" or "when-synced", got <<"a">>',
        ),
        (
            {"ha-mode": "all", "ha-promote-on-failure": None},
            'ha-promote-on-failure must be "always" or "when-synced", got null',
        ),
        ({"ha-mode": "all", "ha-min-in-sync": 0}, "ha-min-in-sync takes an integer greater than 0, 0 given"),
        ({"ha-mode": "all", "ha-confirm": "some"}, 'ha-confirm must be "all" or "master", got <<"some">>'),
    ],
)
def test_invalid_mirror_settings_are_refused(definition: Table, reason: str) -> None:
    assert refusal(definition) == reason


@pytest.mark.parametrize(
    ("definition", "reason"),
    [
        ({"message-ttl": -1, "max-length": -1}, "-1 is not a valid maximum length"),
        ({"expires": 0, "dead-letter-exchange": 1}, "1 is not a valid dead letter exchange name"),
        ({"max-length": -1, "nosuch": 1}, "-1 is not a valid maximum length"),
        ({"max-length": -1, "ha-mode": "foo"}, "-1 is not a valid maximum length"),
        ({"max-length": -1, "queue-master-locator": "x"}, '<<"x">> invalid queue-master-locator value'),
        ({"ha-mode": "nodes", "ha-params": 1, "federation-upstream": 1}, 'ha-mode="nodes" takes a list, 1 given'),
        ({"ha-mode": "foo", "nosuch": 1}, '<<"foo">> is not a valid ha-mode value'),
    ],
)
def test_of_several_mistakes_the_one_that_rabbitmq_finds_first_is_reported(definition: Table, reason: str) -> None:
    assert refusal(definition) == reason


@pytest.mark.parametrize("key", ["expires", "message-ttl", "max-length", "max-length-bytes", "delivery-limit"])
def test_an_operator_policy_limits(key: str) -> None:
    assert refusal({key: 1}, operator=True) == ""


@pytest.mark.parametrize(
    ("definition", "reason"),
    [
        ({"overflow": "drop-head"}, '[{<<"overflow">>,<<"drop-head">>}] are not recognised policy settings'),
        ({"ha-mode": "all"}, '[{<<"ha-mode">>,<<"all">>}] are not recognised policy settings'),
        ({"ha-params": 1}, '[{<<"ha-params">>,1}] are not recognised policy settings'),
        ({"queue-master-locator": "x"}, '[{<<"queue-master-locator">>,<<"x">>}] are not recognised policy settings'),
        ({"max-length": -1}, "-1 is not a valid maximum length"),
        ({}, "no policy provided"),
    ],
)
def test_an_operator_policy_does_nothing_else(definition: Table, reason: str) -> None:
    assert refusal(definition, operator=True) == reason


@pytest.mark.parametrize("apply_to", ["classic_queues", "", "nosuch"])
def test_a_policy_applies_to_queues_exchanges_or_all(apply_to: str) -> None:
    expected = f"apply-to '{apply_to}' unrecognised; should be 'queues', 'exchanges' or 'all'"
    assert refusal({"max-length": 1}, apply_to=apply_to) == expected


def test_a_broken_pattern_is_reported_with_its_place() -> None:
    assert refusal({"max-length": 1}, pattern="(") == (
        'pattern should be regular expression but is invalid: {"missing )",1}'
    )
    assert refusal({"max-length": 1}, pattern=1) == "pattern should be a binary but was 1"


def test_a_priority_is_an_integer() -> None:
    assert refusal({"max-length": 1}, priority=-5) == ""
    assert refusal({"max-length": 1}, priority="a") == 'priority should be a number, actually was <<"a">>'
    assert refusal({"max-length": 1}, priority=True) == "priority should be a number, actually was true"
    assert refusal({"max-length": 1}, priority=1.5) == "priority should be an integer, actually was 1.5"


def test_all_mistakes_are_reported_together() -> None:
    assert refusal({"max-length": -1}, pattern="[", apply_to="foo", priority="x") == (
        "-1 is not a valid maximum length\n"
        "apply-to 'foo' unrecognised; should be 'queues', 'exchanges' or 'all'\n"
        'pattern should be regular expression but is invalid: {"missing terminating ] for character class",\n'
        + " "
        * 54
        + "1}\n"
        'priority should be a number, actually was <<"x">>'
    )


def test_a_policy_from_another_source_is_checked_the_same() -> None:
    with pytest.raises(CommandRefused, match="not a valid maximum length"):
        check_policy(Policy("/", "p", "x", "all", {"max-length": -1}), False)
    check_policy(Policy("/", "p", "x", "all", {"max-length": 1}), False)
