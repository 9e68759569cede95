"""Limits of users and virtual hosts, and how invalid ones are refused."""

import pytest

from warren.broker.access.limits import UNLIMITED, checked_user_limits, checked_vhost_limits, limit_of
from warren.errors import CommandRefused


def fault_of_user(limits: dict[str, object]) -> str:
    with pytest.raises(CommandRefused) as refused:
        checked_user_limits(limits)
    assert refused.value.kind == "bad_request"
    return refused.value.reason


def fault_of_vhost(limits: dict[str, object]) -> str:
    with pytest.raises(CommandRefused) as refused:
        checked_vhost_limits(limits)
    assert refused.value.kind == "bad_request"
    return refused.value.reason


def test_zero_allows_none_and_a_negative_limit_any_number() -> None:
    assert limit_of({"max-queues": 0}, "max-queues") == 0
    assert limit_of({"max-queues": 7}, "max-queues") == 7
    assert limit_of({"max-queues": -5}, "max-queues") == UNLIMITED
    assert limit_of({}, "max-queues") == UNLIMITED


@pytest.mark.parametrize(
    ("value", "shown"), [("a", '<<"a">>'), ("5", '<<"5">>'), (1.5, "1.5"), (None, "null"), (True, "true")]
)
def test_a_limit_is_a_whole_number(value: object, shown: str) -> None:
    assert fault_of_user({"max-channels": value}) == f"max-channels should be a number, actually was {shown}"
    text = f"Validation failed\n\nmax-queues should be a number, actually was {shown}\n"
    assert fault_of_vhost({"max-queues": value}) == text


def test_there_are_no_other_limits() -> None:
    assert fault_of_user({"max-queues": 5}) == 'Unrecognised terms [{<<"max-queues">>,5}] in user-limits'
    assert fault_of_user({"nosuch": "a"}) == 'Unrecognised terms [{<<"nosuch">>,<<"a">>}] in user-limits'
    assert fault_of_vhost({"nosuch": 1}) == ('Validation failed\n\nUnrecognised terms [{<<"nosuch">>,1}] in limits\n')


def test_valid_limits_are_kept_up_to_the_largest_storable_value() -> None:
    assert checked_user_limits({"max-connections": -5, "max-channels": 0}) == {"max-connections": -5, "max-channels": 0}
    assert checked_vhost_limits({"max-queues": 10**30}) == {"max-queues": 2**63 - 1}
