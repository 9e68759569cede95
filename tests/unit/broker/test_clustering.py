"""When a node looks around, and decides whether it may go on: whenever a link comes or goes, and not while it stops."""

import pytest

from tests.support.core_driver import Core
from warren.access.commands import PutVhost
from warren.broker.commands import BeginSharing
from warren.broker.sharing.moving_in import PassingDefinitions, shared_snapshot
from warren.cluster.partitions import CHECK_EVERY_MS, PAUSE_MINORITY
from warren.cluster.suspicion import PARTED_AFTER_MS
from warren.model.effects import Effect, PauseService, Propose, ResumeService, SetTimer
from warren.model.events import (
    Commanded,
    Decided,
    DefinitionsChanged,
    PeerConnected,
    PeerLost,
    SharingGivenUp,
    SharingReady,
    StopRequested,
)
from warren.model.journal import Change
from warren.model.settings import DISC, BrokerSettings
from warren.store.cluster_definitions import AliveDefinition, NodeDefinition, alive_key
from warren.store.metadata import AGREED

OWN, OTHER = "warren@localhost", "warren@other"
TICKET = 9


@pytest.fixture
def core() -> Core:
    """One of two disc nodes, of which both are needed."""
    core = Core(BrokerSettings(partition_handling=PAUSE_MINORITY))
    core.turn(Commanded(TICKET, BeginSharing()))
    moved = core.answers[TICKET].result
    assert isinstance(moved, PassingDefinitions)
    members = [NodeDefinition(name, DISC, "127.0.0.1:1") for name in (OWN, OTHER)]
    shared = shared_snapshot({}, [*moved.definitions, *members], OWN, moved.revision + 1)
    core.turn(SharingReady(100, {key: (created, 50, value) for key, (created, value) in shared.items()}))
    return core


def decisions(effects: list[Effect]) -> list[type[Effect]]:
    return [type(effect) for effect in effects if isinstance(effect, PauseService | ResumeService)]


def test_a_node_that_was_among_enough_others_for_a_moment_pauses_without_them(core: Core) -> None:
    core.turn(PeerConnected(OTHER, 1))
    core.now_ms += 1
    assert decisions(core.turn(PeerLost(OTHER, "it died", refused=False))) == [PauseService]
    core.now_ms += 1
    assert decisions(core.turn(PeerConnected(OTHER, 1))) == [ResumeService]


def test_a_node_that_stops_does_not_pause(core: Core) -> None:
    core.turn(PeerConnected(OTHER, 1))
    core.now_ms += 1
    core.turn(StopRequested())
    core.now_ms += 1
    assert decisions(core.turn(PeerLost(OTHER, "this node stops", refused=False))) == []


def agree_on_vhost(core: Core, name: str) -> int:
    """Have a command agreed upon and made here; its ticket."""
    core.now_ms += 1
    ticket = TICKET + len(core.answers)
    proposed = [
        effect for effect in core.turn(Commanded(ticket, PutVhost(name, "", [], None))) if isinstance(effect, Propose)
    ]
    revision = core.broker.clustering.shared.applied + 1 if core.broker.clustering is not None else 0
    changes = [Change(revision, key, value) for key, value in proposed[0].changes]
    core.now_ms += 1
    core.turn(Decided(proposed[0].ticket, AGREED, revision), DefinitionsChanged(revision, changes))
    return ticket


def test_a_change_is_answered_when_a_node_that_was_lost_refuses_connections(core: Core) -> None:
    core.turn(PeerConnected(OTHER, 1), PeerLost(OTHER, "it was closed", refused=False))
    ticket = agree_on_vhost(core, "v")
    assert ticket not in core.answers
    core.now_ms += 1
    effects = core.turn(PeerLost(OTHER, "nobody listens there", refused=True))
    assert ticket in core.answers
    # that is no reason to declare it dead
    assert not [effect for effect in effects if isinstance(effect, Propose)]


def test_a_change_is_answered_when_the_store_says_that_a_node_that_was_lost_is_dead(core: Core) -> None:
    core.turn(DefinitionsChanged(101, [Change(101, alive_key(OTHER), AliveDefinition(OTHER, 1).value())]))
    core.turn(PeerConnected(OTHER, 1), PeerLost(OTHER, "it was closed", refused=False))
    ticket = agree_on_vhost(core, "v")
    assert ticket not in core.answers
    core.now_ms += 1
    core.turn(DefinitionsChanged(200, [Change(200, alive_key(OTHER), None)]))
    assert ticket in core.answers


def test_a_change_is_answered_when_a_node_is_lost_that_was_dead_to_the_store_before(core: Core) -> None:
    core.turn(DefinitionsChanged(101, [Change(101, alive_key(OTHER), AliveDefinition(OTHER, 1).value())]))
    core.turn(PeerConnected(OTHER, 1), DefinitionsChanged(102, [Change(102, alive_key(OTHER), None)]))
    ticket = agree_on_vhost(core, "v")
    assert ticket not in core.answers
    core.now_ms += 1
    core.turn(PeerLost(OTHER, "it was silent", refused=False))
    assert ticket in core.answers


def test_a_node_that_never_said_that_it_lives_is_forgotten_after_a_while(core: Core) -> None:
    core.turn(PeerConnected(OTHER, 1), PeerLost(OTHER, "it was closed", refused=False))
    clustering = core.broker.clustering
    assert clustering is not None
    core.now_ms += PARTED_AFTER_MS - 1
    core.turn()
    assert clustering.shared.lost_runs() != []
    core.now_ms += CHECK_EVERY_MS
    core.turn()
    assert clustering.shared.lost_runs() == []


def test_a_node_that_stays_alone_after_all_looks_around_no_more() -> None:
    core = Core(BrokerSettings())
    core.turn(Commanded(TICKET, BeginSharing()))
    core.turn(SharingGivenUp())
    core.now_ms += CHECK_EVERY_MS
    wanted_ms = [effect.at_ms for effect in core.turn() if isinstance(effect, SetTimer)]
    assert all(at_ms > core.now_ms + CHECK_EVERY_MS for at_ms in wanted_ms)
