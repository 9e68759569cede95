"""When a node looks around, and decides whether it may go on: whenever a link comes or goes, and not while it stops."""

import pytest

from tests.support.core_driver import Core
from warren.broker.commands import BeginSharing
from warren.broker.sharing.moving_in import PassingDefinitions, shared_snapshot
from warren.cluster.partitions import CHECK_EVERY_MS, PAUSE_MINORITY
from warren.model.effects import Effect, PauseService, ResumeService, SetTimer
from warren.model.events import Commanded, PeerConnected, PeerLost, SharingGivenUp, SharingReady, StopRequested
from warren.model.settings import BrokerSettings
from warren.store.cluster_definitions import DISC, NodeDefinition

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


def test_a_node_that_stays_alone_after_all_looks_around_no_more() -> None:
    core = Core(BrokerSettings())
    core.turn(Commanded(TICKET, BeginSharing()))
    core.turn(SharingGivenUp())
    core.now_ms += CHECK_EVERY_MS
    wanted_ms = [effect.at_ms for effect in core.turn() if isinstance(effect, SetTimer)]
    assert all(at_ms > core.now_ms + CHECK_EVERY_MS for at_ms in wanted_ms)
