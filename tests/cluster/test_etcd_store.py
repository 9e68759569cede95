"""The store that nodes share, in a real etcd: watches, leased keys, and the current revision."""

import asyncio

import pytest

from tests.cluster.etcd_world import CIPHER, Members, Watcher, carry_out, connected, store_at
from tests.support.background import background_tasks
from tests.support.deadlines import in_event_loop, until
from warren.broker.metadata.policy_definitions import ParameterDefinition
from warren.broker.metadata.store import COMMITTED, OUTDATED, CommitResult, object_id
from warren.broker.model.journal import MetadataChange
from warren.errors import InvariantBroken, StoreError
from warren.node.etcd import messages
from warren.node.etcd.connection import EtcdAddress, EtcdConnection
from warren.node.etcd.keys import RevisionMap
from warren.node.etcd.messages import ProtobufMessage
from warren.node.etcd.store import EtcdStore
from warren.node.etcd.watch import MetadataChanged, MetadataReplaced

LEASE_S = 6
"""Long enough for its renewal to be late by seconds."""


class PatientConnection(EtcdConnection):
    """Holds its answer back until the test says so."""

    def __init__(self, address: EtcdAddress) -> None:
        super().__init__(address)
        self.has_answer = asyncio.Event()
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()

    async def call(self, method: str, request: bytes, deadline_s: float = 2.0, endpoint: str = "") -> ProtobufMessage:
        answer = await super().call(method, request, deadline_s, endpoint)
        self.has_answer.set()
        await self.may_go_on.wait()
        return answer


@in_event_loop
async def test_a_watch_reports_each_commit_of_its_cluster_whole_and_in_order(single: Members) -> None:
    cluster = single.cluster()
    async with (
        store_at(*single.endpoints(), cluster=cluster, revision=5000) as store,
        store_at(*single.endpoints(), cluster=cluster, node="warren@other") as other,
        store_at(*single.endpoints(), cluster=single.cluster()) as foreign,
    ):
        start, _ = await store.snapshot()
        first = await other.commit([("a", 0), ("b", 0)], [("b", b"1"), ("a", b"2")])
        await foreign.commit([("a", 0)], [("a", b"")])
        watcher = Watcher(store, start)
        second = await store.commit([("a", first.revision)], [("a", None)])
        await watcher.until_told(second.revision)
        await watcher.end()
        first_told, second_told = watcher.told
        assert isinstance(first_told, MetadataChanged)
        assert first_told.revision == first.revision
        assert sorted(first_told.changes, key=lambda change: change.key) == [
            MetadataChange(first.revision, "a", b"2"),
            MetadataChange(first.revision, "b", b"1"),
        ]
        assert second_told == MetadataChanged(second.revision, [MetadataChange(second.revision, "a", None)])


@in_event_loop
async def test_a_watch_whose_place_is_forgotten_gets_everything_anew_and_goes_on(single: Members) -> None:
    async with (
        store_at(*single.endpoints(), cluster=single.cluster()) as store,
        connected(*single.endpoints()) as raw,
    ):
        start, _ = await store.snapshot()
        first = await store.commit([("a", 0)], [("a", b"1")])
        second = await store.commit([("a", first.revision)], [("a", b"2")])
        await carry_out(raw, messages.COMPACT, messages.compaction(RevisionMap().of_etcd(second.revision)))
        watcher = Watcher(store, start)
        await watcher.until_told(second.revision)
        third = await store.commit([("b", 0)], [("b", b"3")])
        await watcher.until_told(third.revision)
        await watcher.end()
        replaced, changed = watcher.told
        assert isinstance(replaced, MetadataReplaced)
        assert replaced.snapshot == {"a": (object_id(first.revision, "a"), second.revision, b"2")}
        assert changed == MetadataChanged(third.revision, [MetadataChange(third.revision, "b", b"3")])


@in_event_loop
async def test_the_current_revision_is_that_of_the_last_commit_of_any_node(single: Members) -> None:
    cluster = single.cluster()
    async with (
        store_at(*single.endpoints(), cluster=cluster) as store,
        store_at(*single.endpoints(), cluster=cluster, node="warren@other") as other,
        store_at(*single.endpoints(), cluster=single.cluster()) as foreign,
    ):
        decision = await other.commit([("a", 0)], [("a", b"")])
        await foreign.commit([("a", 0)], [("a", b"")])
        assert await store.current() == decision.revision


@in_event_loop
async def test_a_watch_may_be_quicker_than_the_answer_about_the_current_revision(single: Members) -> None:
    cluster = single.cluster()
    connection = PatientConnection(EtcdAddress(tuple(single.endpoints())))
    async with store_at(*single.endpoints(), cluster=cluster, node="warren@other") as other:
        store = EtcdStore(connection, cluster, "warren@test", CIPHER)
        assert await store.begun()
        first = await other.commit([("a", 0)], [("a", b"")])
        watcher = Watcher(store, first.revision)
        connection.has_answer.clear()
        connection.may_go_on.clear()
        asking = asyncio.create_task(store.current())
        await connection.has_answer.wait()
        second = await other.commit([("b", 0)], [("b", b"")])
        await watcher.until_told(second.revision)
        connection.may_go_on.set()
        assert await asking == first.revision
        assert await store.current() == second.revision
        await watcher.end()
    await connection.close()


@in_event_loop
async def test_a_store_that_was_made_anew_is_not_taken_for_the_old_one(single: Members) -> None:
    cluster = single.cluster()
    async with store_at(*single.endpoints(), cluster=cluster) as store, connected(*single.endpoints()) as raw:
        prefix = f"/warren/{cluster}/".encode()
        wiping = messages.delete_operation(prefix, messages.prefix_end(prefix))
        await carry_out(raw, messages.TXN, messages.txn([], [wiping], []))
        with pytest.raises(StoreError, match="made anew"):
            await store.current()


@in_event_loop
async def test_a_held_key_goes_when_its_holder_is_silent_and_at_once_when_it_is_released(single: Members) -> None:
    cluster = single.cluster()
    async with store_at(*single.endpoints(), cluster=cluster) as store:
        start, _ = await store.snapshot()
        watcher = Watcher(store, start)
        async with store_at(*single.endpoints(), cluster=cluster, node="warren@b") as silent:
            holding = silent.hold("alive/b", b"1", LEASE_S, background_tasks())
            await holding.held()
            # it is renewed beyond its time
            await until_renewed(store, "alive/b", LEASE_S + 1.0)
            holding._keeper.cancel()
        await until(lambda: len(watcher.told) == 2)
        released = store.hold("alive/a", b"7", 60, background_tasks())
        await released.held()
        await released.release()
        await until(lambda: len(watcher.told) == 4)
        await watcher.end()
        values = [change.value for item in watcher.told if isinstance(item, MetadataChanged) for change in item.changes]
        assert values == [b"1", None, b"7", None]


async def until_renewed(store: EtcdStore, key: str, for_s: float) -> None:
    """It stays there for so long."""
    loop = asyncio.get_running_loop()
    end = loop.time() + for_s
    while loop.time() < end:
        assert key in (await store.snapshot())[1]
        await asyncio.sleep(0.25)


@in_event_loop
async def test_a_held_key_that_was_deleted_is_put_again(single: Members) -> None:
    async with store_at(*single.endpoints(), cluster=single.cluster()) as store:
        start, _ = await store.snapshot()
        watcher = Watcher(store, start)
        holding = store.hold("alive/a", b"1", LEASE_S, background_tasks())
        await holding.held()
        _, entries = await store.snapshot()
        deleted = await store.commit([("alive/a", entries["alive/a"][1])], [("alive/a", None)])
        assert deleted.outcome == COMMITTED
        await until(lambda: len(watcher.told) == 3)
        await watcher.end()
        values = [change.value for item in watcher.told if isinstance(item, MetadataChanged) for change in item.changes]
        assert values == [b"1", None, b"1"]
        await holding.release()
        assert (await store.snapshot())[1] == {}


@in_event_loop
async def test_a_held_key_is_taken_over_by_its_next_holder(single: Members) -> None:
    cluster = single.cluster()
    async with store_at(*single.endpoints(), cluster=cluster) as store:
        first = store.hold("alive/a", b"1", 60, background_tasks())
        await first.held()
        second = store.hold("alive/a", b"2", 60, background_tasks())
        await second.held()
        await first.release()
        _, entries = await store.snapshot()
        assert entries["alive/a"][2] == b"2"
        await second.release()
        assert (await store.snapshot())[1] == {}


@in_event_loop
async def test_a_held_key_is_put_again_after_its_lease_has_ended_unless_it_has_another_holder(single: Members) -> None:
    async with store_at(*single.endpoints(), cluster=single.cluster()) as store:

        async def said() -> list[bytes]:
            return [value for _created, _modified, value in (await store.snapshot())[1].values()]

        first = store.hold("alive/a", b"1", 60, background_tasks())
        await first.held()
        second = store.hold("alive/a", b"2", 60, background_tasks())
        await second.held()
        first._keeper.cancel()
        await first._take()
        assert await said() == [b"2"]
        await second.release()
        await first._take()
        assert await said() == [b"1"]
        await first._take()
        await first.release()
        assert await said() == []


@in_event_loop
async def test_many_commits_at_once_each_end_truthfully(single: Members) -> None:
    async with store_at(*single.endpoints(), cluster=single.cluster()) as store:

        async def rivals(key: str) -> list[CommitResult]:
            return await asyncio.gather(*[store.commit([(key, 0)], [(key, b"%d" % at)]) for at in range(8)])

        rounds = await asyncio.gather(*[rivals(f"key{number}") for number in range(8)])
        _, entries = await store.snapshot()
        for number, decisions in enumerate(rounds):
            agreed = [(at, told) for at, told in enumerate(decisions) if told.outcome == COMMITTED]
            assert len(agreed) == 1
            at, told = agreed[0]
            assert entries[f"key{number}"] == (object_id(told.revision, f"key{number}"), told.revision, b"%d" % at)
            assert all(told.outcome in (COMMITTED, OUTDATED) for told in decisions)


@in_event_loop
async def test_a_commit_that_changes_a_key_it_does_not_compare_is_a_bug(single: Members) -> None:
    async with store_at(*single.endpoints(), cluster=single.cluster()) as store:
        with pytest.raises(InvariantBroken):
            await store.commit([("a", 0)], [("b", b"")])


@in_event_loop
async def test_etcd_holds_parameters_only_in_encrypted_form(single: Members) -> None:
    cluster = single.cluster()
    written = ParameterDefinition("/", "shovel", "orders", {"src-uri": "amqp://user:geheim@far"})
    key, value = written.key(), written.value()
    async with (
        store_at(*single.endpoints(), cluster=cluster) as store,
        store_at(*single.endpoints(), cluster=cluster, node="warren@other") as other,
        connected(*single.endpoints()) as raw,
    ):
        start, _ = await other.snapshot()
        decision = await store.commit([(key, 0)], [(key, value)])
        request = messages.range_request(b"\0", b"\0")
        stored = messages.key_values(await raw.ask(messages.RANGE, request))
        assert any(key in found.key.decode() for found in stored)
        assert not any(b"geheim" in found.value for found in stored)
        watcher = Watcher(other, start)
        await watcher.until_told(decision.revision)
        await watcher.end()
        assert watcher.told == [MetadataChanged(decision.revision, [MetadataChange(decision.revision, key, value)])]
        _, snapshot = await other.snapshot()
        assert snapshot[key][2] == value
