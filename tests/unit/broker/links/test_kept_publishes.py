"""What is published to a mirrored queue is kept until it is settled, and what must be sent again can be told.

Not here: what publishers are told of it (`test_seats`, `test_early_confirms`).
"""

from warren.broker.links.publish_window import COMMITTED_MAX, PublishWindow
from warren.broker.links.remote_queue import SentNumbers
from warren.broker.model.message import Envelope, Message


def message(content: bytes = b"content") -> Message:
    return Message(Envelope("", "work"), content, 1, 4, 131_072)


def kept_with(count: int) -> PublishWindow:
    kept = PublishWindow()
    for number in range(1, count + 1):
        assert kept.add(message(), uncounted=number % 2 == 0) == number
    return kept


def test_what_is_settled_is_kept_no_more() -> None:
    kept = kept_with(5)
    kept.settle_to(3)
    assert (kept.first_no, kept.last_no, kept.size_bytes) == (4, 5, 2 * len(b"content"))
    assert [(one.number, one.uncounted) for one in kept.to_send(0)] == [(4, True), (5, False)]


def test_many_can_be_settled_a_few_at_a_time() -> None:
    total = int(COMMITTED_MAX) * 4
    kept = kept_with(total)
    for number in range(3, total, 3):
        kept.settle_to(number)
        assert kept.first_no == number + 1
        assert len(kept.to_send(0)) == total - number
    kept.settle_to(total)
    assert (kept.to_send(0), kept.size_bytes) == ([], 0)


def test_a_master_that_has_some_is_sent_the_others() -> None:
    kept = kept_with(5)
    kept.add(None, uncounted=False)
    assert [one.number for one in kept.to_send(2)] == [3, 4, 5, 6]
    assert kept.to_send(2)[-1].message is None
    assert kept.to_send(6) == []


def test_what_was_refused_is_not_sent_again() -> None:
    kept = kept_with(4)
    kept.refuse(2)
    assert [one.number for one in kept.to_send(0)] == [1, 3, 4]


def test_what_nobody_knows_of_is_refused_once() -> None:
    kept = kept_with(4)
    kept.ever_sent = 3
    kept.refuse(2)
    kept.refuse_doubtful()
    assert [one.number for one in kept.to_send(0)] == [4]


def test_nothing_is_left_of_what_was_given_up() -> None:
    kept = kept_with(3)
    kept.give_up("it is gone")
    assert (kept.to_send(0), kept.size_bytes) == ([], 0)


def test_numbers_are_settled_in_the_order_they_were_sent() -> None:
    sent = SentNumbers()
    for number in (4, 7, 8, 9, 12):
        sent.add(number)
    assert [sent.take(count) for count in (1, 2, 2)] == [4, 8, 12]
    sent.add(13)
    sent.clear()
    sent.add(20)
    assert sent.take(1) == 20
