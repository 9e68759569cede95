"""Counts that RabbitMQ reports, and which of them are trusted."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from warren.cli.migrate.brokers import BrokerApi, BrokerUnavailable, ExactCount, MoveFailed, RabbitMQ
from warren.cli.migrate.queues import MARK, QueueName
from warren.client import ChannelClosed

ORDERS = QueueName("shop", "orders")
ROW = {"vhost": "shop", "name": "orders", "state": "running"}
SHOVEL: dict[str, Any] = {"queue": {"name": "orders"}, "arguments": MARK}
# RabbitMQ writes empty arguments as a list
OTHER: dict[str, Any] = {"queue": {"name": "orders"}, "arguments": []}


class Said:
    """Fake responses of RabbitMQ: rows of its HTTP API and replies to passive declarations."""

    def __init__(self) -> None:
        self.queues: list[dict[str, Any]] = [ROW]
        self.consumers: list[dict[str, Any]] = []
        self.declared: Exception | tuple[int, int] = (0, 0)

    def get(self, _: BrokerApi, resource: str, *__: str, **___: object) -> list[dict[str, Any]]:
        return {"queues": self.queues, "consumers": self.consumers}[resource]

    def declare_queue(self, _: str, passive: bool) -> SimpleNamespace:
        assert passive
        if isinstance(self.declared, Exception):
            raise self.declared
        return SimpleNamespace(messages=self.declared[0], consumers=self.declared[1])


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Said:
    answers = Said()
    monkeypatch.setattr(BrokerApi, "get", lambda *given, **more: answers.get(*given, **more))
    monkeypatch.setattr(RabbitMQ, "_channel", lambda *_: answers)
    return answers


@pytest.fixture
def source(said: Said) -> Iterator[RabbitMQ]:
    rabbitmq = RabbitMQ("http://rabbit:15672", "amqp://rabbit", "")
    yield rabbitmq
    rabbitmq.close()


def closed(code: int, text: str) -> ChannelClosed:
    return ChannelClosed(f"the channel was closed: {text}", code, text)


def test_a_queue_that_is_gone_has_no_count(said: Said, source: RabbitMQ) -> None:
    said.declared = closed(404, "NOT_FOUND - no queue 'orders' in vhost 'shop'")
    assert source.count(ORDERS) is None


@pytest.mark.parametrize(
    "sentence",
    [
        "NOT_FOUND - home node 'rabbit@b' of durable queue 'orders' in vhost 'shop' is down or inaccessible",
        "NOT_FOUND - queue 'orders' in vhost 'shop' has crashed and failed to restart",
        "NOT_FOUND - queue 'no queue ' in vhost 'shop' process is stopped by supervisor",
    ],
)
def test_a_queue_that_rabbitmq_does_not_reach_is_away_and_not_empty(
    sentence: str, said: Said, source: RabbitMQ
) -> None:
    said.declared = closed(404, sentence)
    with pytest.raises(BrokerUnavailable, match="RabbitMQ says of queue 'orders' in 'shop': NOT_FOUND - "):
        source.count(ORDERS)
    with pytest.raises(BrokerUnavailable):
        source.sides([ORDERS])


def test_a_final_refusal_of_rabbitmq_is_not_retried(said: Said, source: RabbitMQ) -> None:
    said.declared = closed(405, "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'orders'")
    with pytest.raises(MoveFailed, match="RESOURCE_LOCKED") as refused:
        source.count(ORDERS)
    assert not isinstance(refused.value, BrokerUnavailable)


def test_a_queue_that_is_down_is_away_even_if_a_declare_ok_says_that_it_is_empty(said: Said, source: RabbitMQ) -> None:
    said.queues = [{**ROW, "state": "down"}]
    with pytest.raises(BrokerUnavailable, match="RabbitMQ says of queue 'orders' in 'shop' that it is down"):
        source.sides([ORDERS])


def test_unacked_messages_without_consumers_count_only_on_request(said: Said, source: RabbitMQ) -> None:
    said.queues = [{**ROW, "messages_unacknowledged": 5}]
    said.declared = (2, 0)
    assert source.sides([ORDERS])[ORDERS].messages == 2
    assert source.sides([ORDERS], believe_unacked=True)[ORDERS].messages == 7


@pytest.mark.parametrize(
    ("known", "there", "carried"),
    [
        pytest.param([SHOVEL], 0, False, id="the API is late to show that there is no consumer"),
        pytest.param([SHOVEL], 1, True, id="the other one has gone"),
        pytest.param([SHOVEL, OTHER], 2, True, id="both are there"),
        pytest.param([SHOVEL, OTHER], 1, True, id="one has gone and the API does not tell which"),
        pytest.param([OTHER], 2, True, id="the API is late to tell of the shovel"),
        pytest.param([OTHER], 1, False, id="the shovel has gone"),
    ],
)
def test_a_shovel_is_gone_when_every_consumer_is_known_as_another(
    known: list[dict[str, Any]], there: int, carried: bool, said: Said, source: RabbitMQ
) -> None:
    said.consumers = [*known, {"queue": {"name": "bills"}, "arguments": MARK}]
    assert source.is_transferring(ORDERS, ExactCount(0, there)) is carried
