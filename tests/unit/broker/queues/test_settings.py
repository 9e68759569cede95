"""The settings of a queue from its arguments and its policy."""

import pytest

from warren.broker.queues.settings import DEFAULT_SETTINGS, QueueSettings, queue_settings
from warren.wire.field_tables import Table

NUMBERS = {
    "message-ttl": "message_ttl_ms",
    "expires": "expires_ms",
    "max-length": "max_length",
    "max-length-bytes": "max_length_bytes",
    "delivery-limit": "delivery_limit",
}
TEXTS = {
    "overflow": ("overflow", "reject-publish", "reject-publish-dlx", "drop-head"),
    "dead-letter-exchange": ("dead_letter_exchange", "x1", "x2", None),
    "dead-letter-routing-key": ("dead_letter_routing_key", "k1", "k2", None),
}


def of(settings: QueueSettings, name: str) -> object:
    return getattr(settings, name)


@pytest.mark.parametrize("key", NUMBERS)
def test_the_lower_of_two_numbers_counts(key: str) -> None:
    field = NUMBERS[key]
    assert of(queue_settings({f"x-{key}": 5}, {key: 7}), field) == 5
    assert of(queue_settings({f"x-{key}": 7}, {key: 5}), field) == 5
    assert of(queue_settings({f"x-{key}": 5}, {}), field) == 5
    assert of(queue_settings({}, {key: 5}), field) == 5
    assert of(queue_settings({}, {"queue-mode": "lazy"}), field) == -1


@pytest.mark.parametrize("key", ["message-ttl", "max-length", "max-length-bytes", "delivery-limit"])
def test_zero_is_a_number_too(key: str) -> None:
    assert of(queue_settings({f"x-{key}": 5}, {key: 0}), NUMBERS[key]) == 0
    assert of(queue_settings({f"x-{key}": 0}, {key: 5}), NUMBERS[key]) == 0


@pytest.mark.parametrize("key", TEXTS)
def test_of_two_texts_the_argument_counts(key: str) -> None:
    field, one, other, otherwise = TEXTS[key]
    assert of(queue_settings({f"x-{key}": one}, {key: other}), field) == one
    assert of(queue_settings({}, {key: other}), field) == other
    assert of(queue_settings({}, {"expires": 1}), field) == otherwise


def test_the_argument_default_mode_overrides_a_lazy_policy() -> None:
    assert not queue_settings({"x-queue-mode": "default"}, {"queue-mode": "lazy"}).lazy
    assert queue_settings({}, {"queue-mode": "lazy"}).lazy
    assert queue_settings({"x-queue-mode": "lazy"}, {"queue-mode": "default"}).lazy


def test_a_policys_number_is_capped_at_the_maximum() -> None:
    huge: Table = dict.fromkeys(NUMBERS, 10**30)
    settings = queue_settings({}, huge)
    assert settings.deadline_ms(-1, 1_700_000_000_000) > 1_700_000_000_000
    assert not settings.exceeded_by(2**60, 2**60)


def test_queues_without_arguments_and_policy_share_their_settings() -> None:
    assert queue_settings({}) is DEFAULT_SETTINGS
    assert queue_settings({}, {}) is DEFAULT_SETTINGS
