"""Which replica sets get the new name of a node: those whose master is gone, even if its name is alive."""

import asyncio
from collections.abc import Callable
from inspect import signature
from typing import Any, cast

import pytest

from warren.broker.metadata.cluster_definitions import LivenessDefinition, NodeDefinition, node_key
from warren.broker.metadata.definition_kinds import decode_definition
from warren.broker.metadata.store import Definition
from warren.broker.metadata.topology_definitions import QueueDefinition
from warren.broker.model.events import MetadataSnapshot
from warren.broker.model.replica_set import ReplicaSet
from warren.node.cluster import metadata_store, stopped_member
from warren.node.cluster.stopped_member import rename_in_store

OLD, NEW, MASTER = "dog@host", "fox@host", "cat@host"


class PretendStore:
    """The metadata store; `then` is called at a given number of reads."""

    def __init__(self, *definitions: Definition) -> None:
        self.known: MetadataSnapshot = {}
        self.looks = 0
        self.then: dict[int, Callable[[], None]] = {}
        for definition in definitions:
            self.put(definition)

    def put(self, definition: Definition) -> None:
        self.known[definition.key()] = (1, 1, definition.value())

    def replica_set(self, queue: QueueDefinition) -> ReplicaSet:
        read = decode_definition(queue.key(), self.known[queue.key()][2])
        assert isinstance(read, QueueDefinition)
        assert read.replica_set is not None
        return read.replica_set

    async def snapshot(self) -> tuple[int, MetadataSnapshot]:
        self.looks += 1
        self.then.get(self.looks, lambda: None)()
        return 1, dict(self.known)

    async def change(self, compares: list[tuple[str, int]], changes: list[tuple[str, bytes]]) -> bool:
        for key, value in changes:
            self.known[key] = (1, 1, value)
        return True

    async def enlist(self, definition: NodeDefinition) -> bool:
        self.put(definition)
        return True

    async def delist(self, name: str) -> None:
        del self.known[node_key(name)]


def queue_of(replica_set: ReplicaSet) -> QueueDefinition:
    return QueueDefinition("/", "orders", True, False, False, {}, replica_set.master).with_replica_set(replica_set)


def renamed(store: PretendStore, patience_s: float = 60.0) -> None:
    store.put(NodeDefinition(OLD, "disc", "host:1"))
    asyncio.run(rename_in_store(cast("Any", store), OLD, NEW, patience_s))
    assert node_key(OLD) not in store.known


def test_a_replica_set_whose_master_was_killed_is_reported_when_its_lease_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stopped_member, "RENAME_PAUSE_S", 0.0)
    queue = queue_of(ReplicaSet(3, MASTER, [MASTER, OLD], [(MASTER, 9), (OLD, 4)]))
    alive = LivenessDefinition(MASTER, 9)
    store = PretendStore(queue, alive)
    store.then[5] = lambda: store.known.pop(alive.key()) and None
    renamed(store)
    assert store.replica_set(queue) == ReplicaSet(3, MASTER, [MASTER, NEW], [(MASTER, 9), (NEW, 4)])


def test_a_master_that_lives_is_waited_for_until_it_counts_on_the_node_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stopped_member, "RENAME_PAUSE_S", 0.0)
    alone = ReplicaSet(3, MASTER, [MASTER, OLD], [(MASTER, 9)])
    store = PretendStore(queue_of(alone.admitting([(OLD, 4)])), LivenessDefinition(MASTER, 9))
    store.then[5] = lambda: store.put(queue_of(alone))
    renamed(store)
    assert (store.replica_set(queue_of(alone)), store.looks) == (alone, 5)


def test_nodes_that_do_not_depend_on_the_node_are_not_waited_for() -> None:
    replica_set = ReplicaSet(3, MASTER, [MASTER, OLD], [(MASTER, 9)])
    store = PretendStore(queue_of(replica_set), LivenessDefinition(MASTER, 9))
    renamed(store)
    assert (store.replica_set(queue_of(replica_set)), store.looks) == (replica_set, 3)


def test_no_node_is_waited_for_without_end() -> None:
    replica_set = ReplicaSet(3, MASTER, [MASTER, OLD], [(MASTER, 9), (OLD, 4)])
    store = PretendStore(queue_of(replica_set), LivenessDefinition(MASTER, 9))
    renamed(store, patience_s=0.0)
    assert store.replica_set(queue_of(replica_set)) == replica_set


def test_the_wait_for_the_report_of_a_death_is_longer_than_a_silent_node_is_taken_to_live() -> None:
    patience = signature(rename_in_store).parameters["patience_s"].default
    assert patience == metadata_store.DEATH_NOTICE_S > metadata_store.MEMBER_LEASE_S
