"""Proof by the counts of both brokers that everything arrived."""

import pytest

from warren.cli.migrate.counts import MATCHES, QueueAudit, QueueCounts
from warren.cli.migrate.move import MoveOutcome, outcome_of
from warren.cli.migrate.queues import QueueName

QUEUE = QueueName("/", "orders")


def audit(had: int, left: int, arrived: int, grown: int, remaining: int = 0, consumers: int = 0) -> QueueAudit:
    """`consumers` are those at Warren."""
    counted = QueueAudit(
        QUEUE, QueueCounts(had, acked=3), QueueCounts(10, brought=20), QueueCounts(remaining, acked=3 + left)
    )
    counted.see_destination(QueueCounts(10 + grown, brought=20 + arrived, consumers=consumers))
    return counted


def consumed_at_source(counted: QueueAudit) -> QueueAudit:
    counted.consumed_at_source = True
    return counted


@pytest.mark.parametrize(
    "counted",
    [
        audit(had=100, left=100, arrived=100, grown=100),
        audit(had=100, left=0, arrived=100, grown=40),
        audit(had=100, left=150, arrived=150, grown=0),
        audit(had=100, left=100, arrived=-20, grown=100),
        audit(had=0, left=0, arrived=0, grown=0),
    ],
    ids=["nobody else", "acks not told yet", "publishers and consumers went on", "Warren was started anew", "empty"],
)
def test_each_kind_of_proof_makes_a_count_match(counted: QueueAudit) -> None:
    assert counted.verdict() == MATCHES


@pytest.mark.parametrize(
    ("counted", "words"),
    [
        (audit(had=100, left=100, arrived=98, grown=98), "2 have not arrived"),
        (audit(had=100, left=150, arrived=149, grown=0), "1 have not arrived"),
        (audit(had=100, left=100, arrived=103, grown=103), "3 more than RabbitMQ had"),
        (audit(had=100, left=90, arrived=90, grown=90, remaining=10), "10 are still at RabbitMQ"),
        (audit(had=0, left=53211, arrived=50000, grown=0, consumers=1), "3211 have not arrived"),
        (audit(had=0, left=53211, arrived=50000, grown=0), "3211 have not arrived"),
        (audit(had=10, left=15, arrived=10, grown=10), "5 have not arrived"),
        (audit(had=100, left=90, arrived=90, grown=90), "10 have not arrived"),
        (audit(had=100, left=100, arrived=40, grown=100, consumers=1), "60 have not arrived"),
        (audit(had=100, left=110, arrived=40, grown=100), "70 have not arrived"),
    ],
)
def test_a_count_that_does_not_match_says_by_how_much(counted: QueueAudit, words: str) -> None:
    assert not counted.matches
    assert not counted.is_explained
    assert counted.verdict().startswith(words)


def test_a_consumer_that_has_gone_from_warren_was_there_all_the_same() -> None:
    counted = audit(had=100, left=100, arrived=40, grown=60, consumers=1)
    counted.see_destination(QueueCounts(110, brought=60))
    assert (counted.grown, counted.matches) == (100, False)


def test_other_consumers_at_rabbitmq_explain_a_difference_only_if_they_were_seen_and_prove_nothing() -> None:
    seen = consumed_at_source(audit(had=100, left=100, arrived=60, grown=60))
    assert (seen.matches, seen.is_explained) == (False, True)
    assert seen.verdict().startswith("40 did not arrive: other consumers at RabbitMQ may have received them")
    unseen = audit(had=100, left=100, arrived=60, grown=60)
    assert not unseen.is_explained
    whole = audit(had=5, left=5, arrived=5, grown=5)
    assert outcome_of([whole]) is MoveOutcome.WELL
    assert outcome_of([whole, seen]) is MoveOutcome.UNPROVEN
    assert outcome_of([whole, seen, unseen]) is MoveOutcome.NOT_WELL


def test_acks_that_rabbitmq_has_not_reported_yet_are_waited_for() -> None:
    early = audit(had=10, left=0, arrived=10, grown=10)
    assert (early.matches, early.is_settled) == (True, False)
    assert audit(had=10, left=10, arrived=10, grown=10).is_settled


def test_a_stream_matches_when_both_have_as_much() -> None:
    stream = QueueAudit(QUEUE, QueueCounts(50), QueueCounts(0), QueueCounts(50), QueueCounts(50), is_stream=True)
    assert stream.matches
    stream.destination_after = QueueCounts(70)
    assert "delete it at Warren" in stream.verdict()
