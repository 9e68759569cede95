"""Whether everything arrived, by the counts of both brokers."""

import pytest

from warren.migrating.counting import MATCHES, Account, Side
from warren.migrating.queues import QueueName

QUEUE = QueueName("/", "orders")


def account(had: int, left: int, arrived: int, grown: int, remaining: int = 0, consumed: bool = False) -> Account:
    return Account(
        QUEUE,
        Side(had, acked=3),
        Side(10, brought=20),
        Side(remaining, acked=3 + left),
        Side(10 + grown, brought=20 + arrived),
        consumed,
    )


@pytest.mark.parametrize(
    "counted",
    [
        account(had=100, left=100, arrived=100, grown=100),
        account(had=100, left=0, arrived=100, grown=40),
        account(had=100, left=150, arrived=150, grown=0),
        account(had=100, left=100, arrived=-20, grown=100),
        account(had=0, left=0, arrived=0, grown=0),
    ],
    ids=["nobody else", "acks not told yet", "publishers and consumers went on", "Warren was started anew", "empty"],
)
def test_a_count_matches_by_whatever_proves_it(counted: Account) -> None:
    assert counted.verdict() == MATCHES


@pytest.mark.parametrize(
    ("counted", "words"),
    [
        (account(had=100, left=100, arrived=98, grown=98), "2 have not arrived"),
        (account(had=100, left=150, arrived=149, grown=0), "1 have not arrived"),
        (account(had=100, left=100, arrived=103, grown=103), "3 more than RabbitMQ had"),
        (account(had=100, left=90, arrived=90, grown=90, remaining=10), "10 are still at RabbitMQ"),
    ],
)
def test_a_count_that_does_not_match_says_by_how_much(counted: Account, words: str) -> None:
    assert not counted.matches
    assert not counted.is_explained
    assert counted.verdict().startswith(words)


def test_what_others_consumed_at_rabbitmq_explains_a_difference_only_if_they_were_seen() -> None:
    seen = account(had=100, left=100, arrived=60, grown=60, consumed=True)
    assert (seen.matches, seen.is_explained) == (False, True)
    assert seen.verdict() == "40 were consumed at RabbitMQ meanwhile"
    assert not account(had=100, left=100, arrived=60, grown=60).is_explained


def test_a_stream_matches_when_both_have_as_much() -> None:
    stream = Account(QUEUE, Side(50), Side(0), Side(50), Side(50), is_stream=True)
    assert stream.matches
    stream.destination_after = Side(70)
    assert "delete it at Warren" in stream.verdict()
