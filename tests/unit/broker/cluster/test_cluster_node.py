"""When a node checks for a partition: whenever a link comes or goes, and not while it stops."""

import pytest

from tests.support.core_driver import Core
from warren.broker.cluster.join import TransientDefinitions, shared_snapshot
from warren.broker.commands.requests import JoinCluster, PutVhost
from warren.broker.membership import PARTITIONED_AFTER_MS
from warren.broker.metadata.cluster_definitions import LivenessDefinition, NodeDefinition, liveness_key
from warren.broker.metadata.store import COMMITTED
from warren.broker.model.effects import Effect, PauseService, ProposeTransaction, ResumeService, SetTimer
from warren.broker.model.events import (
    CommandReceived,
    DefinitionsChanged,
    MetadataMigrated,
    MetadataMigrationFailed,
    PeerConnected,
    PeerLost,
    StopRequested,
    TransactionDecided,
)
from warren.broker.model.journal import MetadataChange
from warren.broker.model.settings import DISC, BrokerSettings
from warren.broker.network_partitions import CHECK_EVERY_MS, PAUSE_MINORITY

OWN, OTHER = "warren@localhost", "warren@other"
TICKET = 9


@pytest.fixture
def core() -> Core:
    """One of two disc nodes, of which both are needed."""
    core = Core(BrokerSettings(partition_handling=PAUSE_MINORITY))
    core.turn(CommandReceived(TICKET, JoinCluster()))
    moved = core.answers[TICKET].result
    assert isinstance(moved, TransientDefinitions)
    members = [NodeDefinition(name, DISC, "127.0.0.1:1") for name in (OWN, OTHER)]
    shared = shared_snapshot({}, [*moved.definitions, *members], OWN, moved.revision + 1)
    core.turn(MetadataMigrated(100, {key: (created, 50, value) for key, (created, value) in shared.items()}))
    return core


def decisions(effects: list[Effect]) -> list[type[Effect]]:
    return [type(effect) for effect in effects if isinstance(effect, PauseService | ResumeService)]


def test_a_node_that_had_a_majority_for_a_moment_pauses_without_it(core: Core) -> None:
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
    """Commit and apply a command; its ticket."""
    core.now_ms += 1
    ticket = TICKET + len(core.answers)
    proposed = [
        effect
        for effect in core.turn(CommandReceived(ticket, PutVhost(name, "", [], None)))
        if isinstance(effect, ProposeTransaction)
    ]
    revision = core.broker.cluster.shared.applied + 1 if core.broker.cluster is not None else 0
    changes = [MetadataChange(revision, key, value) for key, value in proposed[0].changes]
    core.now_ms += 1
    core.turn(TransactionDecided(proposed[0].ticket, COMMITTED, revision), DefinitionsChanged(revision, changes))
    return ticket


def test_a_change_is_answered_when_a_node_that_was_lost_refuses_connections(core: Core) -> None:
    core.turn(PeerConnected(OTHER, 1), PeerLost(OTHER, "it was closed", refused=False))
    ticket = agree_on_vhost(core, "v")
    assert ticket not in core.answers
    core.now_ms += 1
    effects = core.turn(PeerLost(OTHER, "connection refused", refused=True))
    assert ticket in core.answers
    # this does not mean that the node is dead
    assert not [effect for effect in effects if isinstance(effect, ProposeTransaction)]


def test_a_change_is_answered_when_the_store_says_that_a_node_that_was_lost_is_dead(core: Core) -> None:
    core.turn(DefinitionsChanged(101, [MetadataChange(101, liveness_key(OTHER), LivenessDefinition(OTHER, 1).value())]))
    core.turn(PeerConnected(OTHER, 1), PeerLost(OTHER, "it was closed", refused=False))
    ticket = agree_on_vhost(core, "v")
    assert ticket not in core.answers
    core.now_ms += 1
    core.turn(DefinitionsChanged(200, [MetadataChange(200, liveness_key(OTHER), None)]))
    assert ticket in core.answers


def test_a_change_is_answered_when_a_node_is_lost_that_was_dead_to_the_store_before(core: Core) -> None:
    core.turn(DefinitionsChanged(101, [MetadataChange(101, liveness_key(OTHER), LivenessDefinition(OTHER, 1).value())]))
    core.turn(PeerConnected(OTHER, 1), DefinitionsChanged(102, [MetadataChange(102, liveness_key(OTHER), None)]))
    ticket = agree_on_vhost(core, "v")
    assert ticket not in core.answers
    core.now_ms += 1
    core.turn(PeerLost(OTHER, "it was silent", refused=False))
    assert ticket in core.answers


def test_a_node_that_never_held_a_lease_is_forgotten_after_a_while(core: Core) -> None:
    core.turn(PeerConnected(OTHER, 1), PeerLost(OTHER, "it was closed", refused=False))
    cluster = core.broker.cluster
    assert cluster is not None
    core.now_ms += PARTITIONED_AFTER_MS - 1
    core.turn()
    assert cluster.shared.lost_incarnations() != []
    core.now_ms += CHECK_EVERY_MS
    core.turn()
    assert cluster.shared.lost_incarnations() == []


def test_a_node_with_a_failed_join_stops_checking_for_partitions() -> None:
    core = Core(BrokerSettings())
    core.turn(CommandReceived(TICKET, JoinCluster()))
    core.turn(MetadataMigrationFailed())
    core.now_ms += CHECK_EVERY_MS
    wanted_ms = [effect.at_ms for effect in core.turn() if isinstance(effect, SetTimer)]
    assert all(at_ms > core.now_ms + CHECK_EVERY_MS for at_ms in wanted_ms)
