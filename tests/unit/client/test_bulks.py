"""The outcomes of a bulk's messages, in any order and pieces of confirms."""

import random

from warren.client.machine.deliveries import ReturnedMessage
from warren.client.machine.publishes import ConfirmLedger, ConfirmRange
from warren.client.publisher import PublishBulk


def begun(count: int, sent: int, first_no: int = 11) -> PublishBulk:
    bulk = PublishBulk([b"x"] * count, lambda _: None)
    bulk.begin(first_no)
    bulk.sent = sent
    return bulk


def returned(number: int) -> ReturnedMessage:
    message = ReturnedMessage(312, "NO_ROUTE", "", "k", b"", b"x")
    message.publish_no = number
    return message


def test_unreported_places_are_undecided() -> None:
    bulk = begun(10, sent=8)
    bulk.decide(ConfirmRange(13, 14, True), {})
    bulk.decide(ConfirmRange(11, 11, True), {})
    assert bulk.undecided() == [1, 4, 5, 6, 7]
    assert not bulk.is_decided()


def test_nacked_and_returned_messages_fail_at_their_places() -> None:
    bulk = begun(5, sent=5)
    coming_back = {12: returned(12), 99: returned(99)}
    bulk.decide(ConfirmRange(11, 13, True), coming_back)
    bulk.decide(ConfirmRange(14, 15, False), coming_back)
    assert {place: (len(error.refused), len(error.returned)) for place, error in bulk.failed.items()} == {
        1: (0, 1),
        3: (1, 0),
        4: (1, 0),
    }
    assert list(coming_back) == [99]
    assert bulk.is_decided()


def test_a_truncated_bulk_is_decided_with_the_messages_sent() -> None:
    bulk = begun(10, sent=3)
    bulk.decide(ConfirmRange(11, 13, True), {})
    assert not bulk.is_decided()
    bulk.cut()
    assert bulk.is_decided()
    assert bulk.last_no == 13


def test_it_agrees_with_the_ledger_for_any_confirms() -> None:
    for seed in range(200):
        dice = random.Random(seed)
        ledger = ConfirmLedger()
        ledger.last_no = 30
        bulk = begun(30, sent=30, first_no=1)
        acked: set[int] = set()
        for _ in range(dice.randrange(12)):
            ledger.decide(dice.randint(1, 30), dice.random() < 0.3, dice.random() < 0.8)
            for decided in ledger.take():
                bulk.decide(decided, {})
                if decided.acked:
                    acked |= set(range(decided.first - 1, decided.last))
        left = set(bulk.undecided())
        assert len(left) == ledger.unconfirmed()
        assert set(range(30)) == left | acked | bulk.failed.keys()
        assert len(left) + len(acked) + len(bulk.failed) == 30
