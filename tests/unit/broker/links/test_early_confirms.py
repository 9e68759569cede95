"""Where the master alone is enough for a confirm, what is confirmed stays at the seat until all have it."""

import pytest

from tests.unit.broker.links.test_seats import Seated, acked, nacked
from warren.broker.links.mirrored_queue_proxy import MASTER_TIMEOUT_MS
from warren.broker.links.publish_window import PublishWindow
from warren.broker.model.effects import Note
from warren.errors import PeerFault


@pytest.fixture
def seated() -> Seated:
    return Seated()


def held(seated: Seated, name: str, count: int) -> None:
    """The master on that node has so much of what was sent."""
    for waiter in seated.homes[name].waiting:
        waiter.held(count)
    seated.nodes[name].turn()
    seated.nodes.settle()


def publish(seated: Seated, *bodies: bytes) -> list[int]:
    """With one confirmed by its master alone; what was confirmed."""
    client = seated.publisher()
    for body in bodies:
        client.publish("q", body)
    seated.nodes.settle()
    assert client.methods() == []
    held(seated, "one", 1)
    return acked(client.methods())


def test_what_the_master_has_is_confirmed_and_sent_again_to_one_that_lacks_it(seated: Seated) -> None:
    seated.open("one")
    assert publish(seated, b"1", b"2") == [1]
    seated.fail_over()
    assert seated.open("two").counts == [1, 2]


def test_what_the_next_master_has_is_not_sent_again(seated: Seated) -> None:
    seated.open("one")
    publish(seated, b"1", b"2")
    seated.fail_over()
    assert seated.open("two", mark=1).counts == [2]


def test_nobody_is_told_twice(seated: Seated) -> None:
    seated.open("one")
    client = seated.publisher()
    client.publish("q", b"1")
    client.publish("q", b"2")
    seated.nodes.settle()
    held(seated, "one", 1)
    seated.settle("one")
    assert acked(client.methods()) == [1, 2]


def test_what_is_confirmed_outlasts_the_patience_and_goes_to_the_next_master(seated: Seated) -> None:
    seated.open("one")
    publish(seated, b"1", b"2")
    seated.fail_over()
    seated.core.now_ms += MASTER_TIMEOUT_MS
    seated.core.turn()
    assert seated.open("two").counts == [1]


def test_what_is_confirmed_is_sent_again_where_nobody_knows_what_became_of_it(seated: Seated) -> None:
    seated.open("one")
    client = seated.publisher()
    client.publish("q", b"1")
    client.publish("q", b"2")
    seated.nodes.settle()
    held(seated, "one", 1)
    seated.fail_over()
    assert seated.open("two", known=False).counts == [1]
    seated.settle("two")
    heard = client.methods()
    assert (acked(heard), nacked(heard)) == ([1], [2])


def test_a_master_that_refuses_what_was_confirmed_is_told_of(seated: Seated) -> None:
    seated.open("one")
    publish(seated, b"1")
    seated.fail_over()
    intake = seated.open("two", mark=0)
    assert intake.counts == [1]
    seated.proxy.refused(1)
    assert [note.name for note in seated.core.node.turn.effects if isinstance(note, Note)] == ["confirm.broken"]


def test_no_master_holds_what_it_was_not_sent() -> None:
    kept = PublishWindow()
    kept.add(None, False)
    with pytest.raises(PeerFault, match="publish 1 of 0 is held"):
        kept.confirm_to(1)


def test_what_is_confirmed_is_kept_until_it_is_settled() -> None:
    kept = PublishWindow()
    for _ in range(3):
        kept.add(None, False)
    kept.ever_sent = 3
    kept.confirm_to(2)
    kept.settle_to(1)
    assert [one.number for one in kept.to_send(0)] == [2, 3]
    kept.settle_to(3)
    assert kept.to_send(0) == []
