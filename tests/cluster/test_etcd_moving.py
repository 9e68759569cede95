"""A lone node's metadata moves into a real etcd: its names stay, and it may be interrupted anywhere."""

import asyncio

import pytest

from tests.cluster.etcd_world import CIPHER, Members, connected, store_at
from tests.support.deadlines import in_event_loop
from warren.broker.metadata.store import COMMITTED, Snapshot, object_id
from warren.errors import StoreError
from warren.node.etcd import messages
from warren.node.etcd.connection import EtcdAddress, EtcdConnection
from warren.node.etcd.messages import ProtobufMessage
from warren.node.etcd.store import EtcdStore, new_migration_id

LONE_REVISION = 5000
LONE: Snapshot = {f"queues/%2F/{number}": (4000 + number, b"value %d" % number) for number in range(200)}


class FailingConnection(EtcdConnection):
    """Breaks off after so many changes; the last one is made, but its answer is lost."""

    def __init__(self, address: EtcdAddress, changes: int) -> None:
        super().__init__(address)
        self.changes = changes

    async def call(self, method: str, request: bytes, deadline_s: float = 2.0, endpoint: str = "") -> ProtobufMessage:
        answer = await super().call(method, request, deadline_s, endpoint)
        if method == messages.TXN:
            self.changes -= 1
            if self.changes < 0:
                raise KeyboardInterrupt
        return answer


@in_event_loop
async def test_objects_of_a_lone_node_keep_their_names_and_later_revisions_are_above_theirs(single: Members) -> None:
    cluster = single.cluster()
    async with store_at(*single.endpoints(), cluster=cluster, revision=LONE_REVISION, moved=LONE) as store:
        revision, entries = await store.snapshot()
        assert {key: (created, value) for key, (created, _, value) in entries.items()} == LONE
        assert revision > LONE_REVISION
        assert all(LONE_REVISION < modified <= revision for _, modified, _ in entries.values())
        kept, gone = "queues/%2F/7", "queues/%2F/8"
        changed = await store.commit([(kept, entries[kept][1])], [(kept, b"changed")])
        deleted = await store.commit([(gone, entries[gone][1])], [(gone, None)])
        again = await store.commit([(gone, 0)], [(gone, b"again")])
        assert revision < changed.revision < deleted.revision < again.revision
    async with store_at(*single.endpoints(), cluster=cluster) as store:
        _, entries = await store.snapshot()
        assert entries[kept] == (4007, changed.revision, b"changed")
        assert entries[gone] == (object_id(again.revision, gone), again.revision, b"again")
        assert entries[gone][0] > deleted.revision


@pytest.mark.parametrize("changes", range(7))
@in_event_loop
async def test_moving_in_may_end_anywhere_and_begins_anew(single: Members, changes: int) -> None:
    async def interrupted(cluster: str) -> bool:
        """Whether the cluster has begun by then."""
        connection = FailingConnection(EtcdAddress(tuple(single.endpoints())), changes)
        try:
            store = EtcdStore(connection, cluster, "warren@test", CIPHER)
            await store.move_in(LONE_REVISION, LONE | {"stray": (1, b"")})
        except KeyboardInterrupt:
            pass
        finally:
            await connection.close()
        async with connected(*single.endpoints()) as sound:
            return await EtcdStore(sound, cluster, "warren@test", CIPHER).begun()

    cluster = single.cluster()
    begun = await interrupted(cluster)
    # a wipe, a claim, four pieces, a marker
    assert begun == (changes == 6)
    if not begun:
        async with store_at(*single.endpoints(), cluster=cluster, revision=LONE_REVISION, moved=LONE) as store:
            revision, entries = await store.snapshot()
            assert {key: (created, value) for key, (created, _, value) in entries.items()} == LONE
            assert await store.current() <= revision


@in_event_loop
async def test_of_two_nodes_that_move_their_metadata_in_at_once_one_is_refused(single: Members) -> None:
    cluster = single.cluster()
    async with connected(*single.endpoints()) as first, connected(*single.endpoints()) as second:
        stores = [EtcdStore(first, cluster, "warren@a", CIPHER), EtcdStore(second, cluster, "warren@b", CIPHER)]
        ends = await asyncio.gather(
            stores[0].move_in(10, {"a": (1, b"")}), stores[1].move_in(20, {"b": (2, b"")}), return_exceptions=True
        )
        winners = [number for number, end in enumerate(ends) if end is None]
        assert len(winners) == 1
        assert isinstance(ends[1 - winners[0]], StoreError)
        _, entries = await stores[winners[0]].snapshot()
        assert list(entries) == [["a"], ["b"]][winners[0]]


@in_event_loop
async def test_a_cluster_that_has_begun_is_not_moved_into(single: Members) -> None:
    cluster = single.cluster()
    async with store_at(*single.endpoints(), cluster=cluster, moved={"a": (1, b"")}) as store:
        with pytest.raises(StoreError, match="already"):
            await store.move_in(0, {})
        assert list((await store.snapshot())[1]) == ["a"]


@in_event_loop
async def test_entries_that_were_moved_in_are_taken_back_with_their_proof_until_another_node_joins(
    single: Members,
) -> None:
    cluster, own, others = single.cluster(), new_migration_id(), new_migration_id()
    async with connected(*single.endpoints()) as connection:
        store = EtcdStore(connection, cluster, "warren@test", CIPHER)
        await store.move_in(10, {"nodes/a": (1, b"")}, own)
        await store.take_back(others)
        assert await store.begun()
        await store.take_back(own)
        assert not await store.begun()
        await store.move_in(10, {"nodes/a": (1, b""), "queues/%2F/q": (2, b"")}, own)
        assert (await store.commit([("nodes/b", 0)], [("nodes/b", b"")])).outcome == COMMITTED
        await store.take_back(own)
        assert list((await store.snapshot())[1]) == ["nodes/a", "nodes/b", "queues/%2F/q"]


@in_event_loop
async def test_a_snapshot_of_many_pages_is_whole(single: Members) -> None:
    moved: Snapshot = {f"k/{number}": (number, bytes(10)) for number in range(1, 1201)}
    async with store_at(*single.endpoints(), cluster=single.cluster(), revision=2000, moved=moved) as store:
        _, entries = await store.snapshot()
        assert {key: (created, value) for key, (created, _, value) in entries.items()} == moved
