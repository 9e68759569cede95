"""Early confirms: publishes confirmed by the master alone stay in the proxy's window until they are committed."""

import pytest

from tests.unit.broker.links.test_mirrored_queue_proxy import ProxyWorld, acked, nacked
from warren.broker.links.mirrored_queue_proxy import MASTER_TIMEOUT_MS
from warren.broker.links.publish_window import PublishWindow
from warren.broker.model.effects import Note
from warren.errors import PeerFault


@pytest.fixture
def world() -> ProxyWorld:
    return ProxyWorld()


def held(world: ProxyWorld, name: str, count: int) -> None:
    """The master on that node holds that many publishes."""
    for waiter in world.homes[name].waiting:
        waiter.held(count)
    world.nodes[name].turn()
    world.nodes.settle()


def publish(world: ProxyWorld, *bodies: bytes) -> list[int]:
    """Publish, and let the master hold the first; the confirmed numbers."""
    client = world.publisher()
    for body in bodies:
        client.publish("q", body)
    world.nodes.settle()
    assert client.methods() == []
    held(world, "one", 1)
    return acked(client.methods())


def test_an_early_confirmed_publish_is_sent_again_to_a_master_that_lacks_it(world: ProxyWorld) -> None:
    world.open("one")
    assert publish(world, b"1", b"2") == [1]
    world.fail_over()
    assert world.open("two").counts == [1, 2]


def test_publishes_that_the_next_master_has_are_not_sent_again(world: ProxyWorld) -> None:
    world.open("one")
    publish(world, b"1", b"2")
    world.fail_over()
    assert world.open("two", mark=1).counts == [2]


def test_an_early_confirm_is_not_repeated_at_the_commit(world: ProxyWorld) -> None:
    world.open("one")
    client = world.publisher()
    client.publish("q", b"1")
    client.publish("q", b"2")
    world.nodes.settle()
    held(world, "one", 1)
    world.commit("one")
    assert acked(client.methods()) == [1, 2]


def test_an_early_confirmed_publish_is_kept_beyond_the_timeout_for_the_next_master(world: ProxyWorld) -> None:
    world.open("one")
    publish(world, b"1", b"2")
    world.fail_over()
    world.core.now_ms += MASTER_TIMEOUT_MS
    world.core.turn()
    assert world.open("two").counts == [1]


def test_an_early_confirmed_publish_of_unknown_outcome_is_sent_again(world: ProxyWorld) -> None:
    world.open("one")
    client = world.publisher()
    client.publish("q", b"1")
    client.publish("q", b"2")
    world.nodes.settle()
    held(world, "one", 1)
    world.fail_over()
    assert world.open("two", known=False).counts == [1]
    world.commit("two")
    heard = client.methods()
    assert (acked(heard), nacked(heard)) == ([1], [2])


def test_a_refusal_of_an_early_confirmed_publish_is_logged(world: ProxyWorld) -> None:
    world.open("one")
    publish(world, b"1")
    world.fail_over()
    intake = world.open("two", mark=0)
    assert intake.counts == [1]
    world.proxy.refused(1)
    assert [note.name for note in world.core.node.turn.effects if isinstance(note, Note)] == ["confirm.broken"]


def test_a_report_about_an_unsent_publish_is_a_fault() -> None:
    window = PublishWindow()
    window.add(None, False)
    with pytest.raises(PeerFault, match="publish 1 of 0 is held"):
        window.confirm_to(1)


def test_an_early_confirmed_publish_is_kept_until_it_is_committed() -> None:
    window = PublishWindow()
    for _ in range(3):
        window.add(None, False)
    window.ever_sent = 3
    window.confirm_to(2)
    window.settle_to(1)
    assert [one.number for one in window.to_send(0)] == [2, 3]
    window.settle_to(3)
    assert window.to_send(0) == []
