"""A publish window keeps the publishes to a mirrored queue until they are committed, to send them again.

Not here: confirms (`test_mirrored_queue_proxy`, `test_early_confirms`).
"""

from warren.broker.links.publish_window import COMMITTED_MAX, PublishWindow
from warren.broker.links.remote_queue import SentNumbers
from warren.broker.model.message import Envelope, Message


def message(content: bytes = b"content") -> Message:
    return Message(Envelope("", "work"), content, 1, 4, 131_072)


def window_with(count: int) -> PublishWindow:
    window = PublishWindow()
    for number in range(1, count + 1):
        assert window.add(message(), uncounted=number % 2 == 0) == number
    return window


def test_committed_publishes_leave_the_window() -> None:
    window = window_with(5)
    window.settle_to(3)
    assert (window.first_no, window.last_no, window.size_bytes) == (4, 5, 2 * len(b"content"))
    assert [(one.number, one.uncounted) for one in window.to_send(0)] == [(4, True), (5, False)]


def test_many_publishes_can_be_committed_a_few_at_a_time() -> None:
    total = int(COMMITTED_MAX) * 4
    window = window_with(total)
    for number in range(3, total, 3):
        window.settle_to(number)
        assert window.first_no == number + 1
        assert len(window.to_send(0)) == total - number
    window.settle_to(total)
    assert (window.to_send(0), window.size_bytes) == ([], 0)


def test_a_master_that_has_some_publishes_is_sent_the_others() -> None:
    window = window_with(5)
    window.add(None, uncounted=False)
    assert [one.number for one in window.to_send(2)] == [3, 4, 5, 6]
    assert window.to_send(2)[-1].message is None
    assert window.to_send(6) == []


def test_a_refused_publish_is_not_sent_again() -> None:
    window = window_with(4)
    window.refuse(2)
    assert [one.number for one in window.to_send(0)] == [1, 3, 4]


def test_publishes_of_unknown_outcome_are_refused_once() -> None:
    window = window_with(4)
    window.ever_sent = 3
    window.refuse(2)
    window.refuse_doubtful()
    assert [one.number for one in window.to_send(0)] == [4]


def test_a_window_that_was_given_up_is_empty() -> None:
    window = window_with(3)
    window.give_up("it is gone")
    assert (window.to_send(0), window.size_bytes) == ([], 0)


def test_numbers_are_taken_in_the_order_they_were_sent() -> None:
    sent = SentNumbers()
    for number in (4, 7, 8, 9, 12):
        sent.add(number)
    assert [sent.take(count) for count in (1, 2, 2)] == [4, 8, 12]
    sent.add(13)
    sent.clear()
    sent.add(20)
    assert sent.take(1) == 20
