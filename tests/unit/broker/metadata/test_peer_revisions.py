"""The nodes that a transaction waits for: connected ones, those that may live, and no others."""

import pytest

from warren.broker.metadata.shared_backend import PeerRevisions
from warren.broker.model.effects import Note
from warren.broker.model.turn import Turn

OWN = 100


@pytest.fixture
def turn() -> Turn:
    return Turn()


@pytest.fixture
def progress(turn: Turn) -> PeerRevisions:
    made = PeerRevisions(turn)
    for node in ("bee", "cat"):
        made.connected(node, 7)
        made.applied(node, OWN)
    return made


def notes(turn: Turn) -> list[tuple[str, object]]:
    return [(note.name, note.fields["node"]) for note in turn.effects if isinstance(note, Note)]


def test_a_node_that_never_connected_is_not_waited_for(turn: Turn) -> None:
    assert PeerRevisions(turn).reached(OWN) == OWN


def test_the_slowest_counts(progress: PeerRevisions) -> None:
    progress.applied("bee", OWN + 5)
    assert progress.reached(OWN + 9) == OWN


def test_a_connected_node_counts_as_behind_until_its_first_report(progress: PeerRevisions) -> None:
    progress.connected("bee", 8)
    assert progress.reached(OWN) == 0
    progress.applied("bee", OWN)
    assert progress.reached(OWN) == OWN


def test_a_lost_node_is_waited_for_until_its_incarnation_ends(progress: PeerRevisions, turn: Turn) -> None:
    turn.now_ms = 50
    progress.lost("bee")
    turn.now_ms = 60
    progress.lost("bee")
    progress.applied("cat", OWN + 5)
    assert (progress.reached(OWN + 5), progress.lost_incarnations()) == (OWN, [("bee", 7, 50)])
    # a report without a link is ignored
    progress.applied("bee", OWN + 5)
    assert progress.reached(OWN + 5) == OWN
    progress.over("bee")
    assert (progress.reached(OWN + 5), progress.lost_incarnations()) == (OWN + 5, [])


def test_a_lost_link_is_known_until_it_is_back_or_the_incarnation_ends(progress: PeerRevisions) -> None:
    known = [progress.any_lost()]
    for step in (
        lambda: progress.lost("bee"),
        lambda: progress.lost("cat"),
        lambda: progress.lost("dog"),
        lambda: progress.connected("bee", 7),
        lambda: progress.over("bee"),
        lambda: progress.over("cat"),
        lambda: progress.over("cat"),
    ):
        step()
        known.append(progress.any_lost())
    assert known == [False, True, True, True, True, True, False, False]


def test_a_node_left_behind_is_logged_once_and_waited_for_again_when_it_has_caught_up(
    progress: PeerRevisions, turn: Turn
) -> None:
    progress.applied("cat", OWN + 9)
    progress.leave_behind(OWN + 5)
    progress.leave_behind(OWN + 9)
    assert notes(turn) == [("peer.behind", "bee")]
    assert progress.reached(OWN + 9) == OWN + 9
    progress.applied("bee", OWN + 4)
    assert progress.reached(OWN + 9) == OWN + 9
    progress.applied("bee", OWN + 5)
    assert notes(turn) == [("peer.behind", "bee"), ("peer.caught_up", "bee")]
    assert progress.reached(OWN + 9) == OWN + 5
