"""The store that nodes share, in a real etcd: moving in, watching, holding, and what became of a lost answer."""

import asyncio

import pytest

from tests.cluster.etcd_world import LossyProxy, Members, Watcher, connected, play, store_at, until
from warren.errors import InvariantBroken, StoreError
from warren.model.journal import Change
from warren.node.etcd import messages
from warren.node.etcd.connection import EtcdAddress, EtcdConnection, NoAnswer
from warren.node.etcd.protobuf import Message
from warren.node.etcd.store import EtcdStore
from warren.node.etcd.watching import Changed, Replaced
from warren.store.metadata import AGREED, FAILED, OUTDATED, UNKNOWN, Decision, Snapshot

LONE_REVISION = 5000
LONE: Snapshot = {f"queues/%2F/{number}": (4000 + number, b"value %d" % number) for number in range(200)}


class FailingConnection(EtcdConnection):
    """Breaks off after so many changes; the last one is carried out, but nobody is told."""

    def __init__(self, address: EtcdAddress, changes: int) -> None:
        super().__init__(address)
        self.changes = changes

    async def call(self, method: str, request: bytes, deadline_s: float = 2.0, endpoint: str = "") -> Message:
        answer = await super().call(method, request, deadline_s, endpoint)
        if method == messages.TXN:
            self.changes -= 1
            if self.changes < 0:
                raise KeyboardInterrupt
        return answer


class PatientConnection(EtcdConnection):
    """Has an answer, but does not give it before it is told to."""

    def __init__(self, address: EtcdAddress) -> None:
        super().__init__(address)
        self.has_answer = asyncio.Event()
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()

    async def call(self, method: str, request: bytes, deadline_s: float = 2.0, endpoint: str = "") -> Message:
        answer = await super().call(method, request, deadline_s, endpoint)
        self.has_answer.set()
        await self.may_go_on.wait()
        return answer


def test_what_a_lone_node_had_keeps_its_names_and_later_revisions_are_above_all_of_its(single: Members) -> None:
    async def scenario() -> None:
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
            assert entries[gone] == (again.revision, again.revision, b"again")

    play(scenario())


@pytest.mark.parametrize("changes", range(7))
def test_moving_in_may_end_anywhere_and_begins_anew(single: Members, changes: int) -> None:
    async def interrupted(cluster: str) -> bool:
        """Whether the cluster has begun by then."""
        connection = FailingConnection(EtcdAddress(tuple(single.endpoints())), changes)
        try:
            await EtcdStore(connection, cluster, "warren@test").move_in(LONE_REVISION, LONE | {"stray": (1, b"")})
        except KeyboardInterrupt:
            pass
        finally:
            await connection.close()
        async with connected(*single.endpoints()) as sound:
            return await EtcdStore(sound, cluster, "warren@test").begun()

    async def scenario() -> None:
        cluster = single.cluster()
        begun = await interrupted(cluster)
        # a wipe, a claim, four pieces, a marker
        assert begun == (changes == 6)
        if not begun:
            async with store_at(*single.endpoints(), cluster=cluster, revision=LONE_REVISION, moved=LONE) as store:
                revision, entries = await store.snapshot()
                assert {key: (created, value) for key, (created, _, value) in entries.items()} == LONE
                assert await store.current() <= revision

    play(scenario())


def test_of_two_nodes_that_move_in_at_once_one_is_told(single: Members) -> None:
    async def scenario() -> None:
        cluster = single.cluster()
        async with connected(*single.endpoints()) as first, connected(*single.endpoints()) as second:
            stores = [EtcdStore(first, cluster, "warren@a"), EtcdStore(second, cluster, "warren@b")]
            ends = await asyncio.gather(
                stores[0].move_in(10, {"a": (1, b"")}), stores[1].move_in(20, {"b": (2, b"")}), return_exceptions=True
            )
            winners = [number for number, end in enumerate(ends) if end is None]
            assert len(winners) == 1
            assert isinstance(ends[1 - winners[0]], StoreError)
            _, entries = await stores[winners[0]].snapshot()
            assert list(entries) == [["a"], ["b"]][winners[0]]

    play(scenario())


def test_a_cluster_that_has_begun_is_not_moved_into(single: Members) -> None:
    async def scenario() -> None:
        cluster = single.cluster()
        async with store_at(*single.endpoints(), cluster=cluster, moved={"a": (1, b"")}) as store:
            with pytest.raises(StoreError, match="already"):
                await store.move_in(0, {})
            assert list((await store.snapshot())[1]) == ["a"]

    play(scenario())


def test_a_snapshot_of_many_pages_is_whole(single: Members) -> None:
    async def scenario() -> None:
        moved: Snapshot = {f"k/{number}": (number, bytes(10)) for number in range(1, 1201)}
        async with store_at(*single.endpoints(), cluster=single.cluster(), revision=2000, moved=moved) as store:
            _, entries = await store.snapshot()
            assert {key: (created, value) for key, (created, _, value) in entries.items()} == moved

    play(scenario())


def test_a_watch_tells_each_commit_whole_and_in_order_and_of_no_other_cluster(single: Members) -> None:
    async def scenario() -> None:
        cluster = single.cluster()
        async with (
            store_at(*single.endpoints(), cluster=cluster, revision=LONE_REVISION) as store,
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
            assert isinstance(first_told, Changed)
            assert first_told.revision == first.revision
            assert sorted(first_told.changes, key=lambda change: change.key) == [
                Change(first.revision, "a", b"2"),
                Change(first.revision, "b", b"1"),
            ]
            assert second_told == Changed(second.revision, [Change(second.revision, "a", None)])

    play(scenario())


def test_a_watch_whose_place_is_forgotten_gets_everything_anew_and_goes_on(single: Members) -> None:
    async def scenario() -> None:
        async with (
            store_at(*single.endpoints(), cluster=single.cluster()) as store,
            connected(*single.endpoints()) as raw,
        ):
            start, _ = await store.snapshot()
            first = await store.commit([("a", 0)], [("a", b"1")])
            second = await store.commit([("a", first.revision)], [("a", b"2")])
            await raw.call(messages.COMPACT, messages.compaction(second.revision))
            watcher = Watcher(store, start)
            await watcher.until_told(second.revision)
            third = await store.commit([("b", 0)], [("b", b"3")])
            await watcher.until_told(third.revision)
            await watcher.end()
            replaced, changed = watcher.told
            assert isinstance(replaced, Replaced)
            assert replaced.snapshot == {"a": (first.revision, second.revision, b"2")}
            assert changed == Changed(third.revision, [Change(third.revision, "b", b"3")])

    play(scenario())


def test_the_current_revision_is_that_of_the_last_commit_whoever_made_it(single: Members) -> None:
    async def scenario() -> None:
        cluster = single.cluster()
        async with (
            store_at(*single.endpoints(), cluster=cluster) as store,
            store_at(*single.endpoints(), cluster=cluster, node="warren@other") as other,
            store_at(*single.endpoints(), cluster=single.cluster()) as foreign,
        ):
            decision = await other.commit([("a", 0)], [("a", b"")])
            await foreign.commit([("a", 0)], [("a", b"")])
            assert await store.current() == decision.revision

    play(scenario())


def test_a_watch_may_be_quicker_than_the_answer_what_is_current(single: Members) -> None:
    async def scenario() -> None:
        cluster = single.cluster()
        connection = PatientConnection(EtcdAddress(tuple(single.endpoints())))
        async with store_at(*single.endpoints(), cluster=cluster, node="warren@other") as other:
            store = EtcdStore(connection, cluster, "warren@test")
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

    play(scenario())


def test_a_store_that_was_made_anew_is_not_taken_for_the_old_one(single: Members) -> None:
    async def scenario() -> None:
        cluster = single.cluster()
        async with store_at(*single.endpoints(), cluster=cluster) as store, connected(*single.endpoints()) as raw:
            prefix = f"/warren/{cluster}/".encode()
            wiping = messages.deleting(prefix, messages.end_of(prefix))
            await raw.call(messages.TXN, messages.txn([], [wiping], []))
            with pytest.raises(StoreError, match="made anew"):
                await store.current()

    play(scenario())


def test_a_held_key_goes_when_its_holder_is_silent_and_at_once_when_it_is_released(single: Members) -> None:
    async def scenario() -> None:
        cluster = single.cluster()
        async with store_at(*single.endpoints(), cluster=cluster) as store:
            start, _ = await store.snapshot()
            watcher = Watcher(store, start)
            async with store_at(*single.endpoints(), cluster=cluster, node="warren@b") as silent:
                holding = silent.hold("alive/b", b"1", 2)
                await holding.held()
                # it is renewed beyond its time
                await until_renewed(store, "alive/b", 3.0)
                holding._keeper.cancel()
            await until(lambda: len(watcher.told) == 2)
            released = store.hold("alive/a", b"7", 60)
            await released.held()
            await released.release()
            await until(lambda: len(watcher.told) == 4)
            await watcher.end()
            values = [change.value for item in watcher.told if isinstance(item, Changed) for change in item.changes]
            assert values == [b"1", None, b"7", None]

    play(scenario())


async def until_renewed(store: EtcdStore, key: str, for_s: float) -> None:
    """It stays there for so long."""
    loop = asyncio.get_running_loop()
    end = loop.time() + for_s
    while loop.time() < end:
        assert key in (await store.snapshot())[1]
        await asyncio.sleep(0.25)


def test_a_held_key_is_taken_over_by_its_next_holder(single: Members) -> None:
    async def scenario() -> None:
        cluster = single.cluster()
        async with store_at(*single.endpoints(), cluster=cluster) as store:
            first = store.hold("alive/a", b"1", 60)
            await first.held()
            second = store.hold("alive/a", b"2", 60)
            await second.held()
            await first.release()
            _, entries = await store.snapshot()
            assert entries["alive/a"][2] == b"2"
            await second.release()
            assert (await store.snapshot())[1] == {}

    play(scenario())


def test_a_commit_whose_answer_is_lost_is_told_to_be_agreed_with_its_revision(single: Members) -> None:
    async def scenario() -> None:
        async with (
            LossyProxy(single.endpoints()[0]) as proxy,
            store_at(proxy.endpoint, *single.endpoints(), cluster=single.cluster()) as store,
        ):
            await store.commit([("warm", 0)], [("warm", b"")])
            proxy.loses_answers = True
            decision = await store.commit([("a", 0)], [("a", b"1")])
            assert decision.outcome == AGREED
            _, entries = await store.snapshot()
            assert entries["a"] == (decision.revision, decision.revision, b"1")

    play(scenario())


def test_an_outdated_commit_whose_answer_is_lost_is_told_to_be_outdated(single: Members) -> None:
    async def scenario() -> None:
        async with (
            LossyProxy(single.endpoints()[0]) as proxy,
            store_at(proxy.endpoint, *single.endpoints(), cluster=single.cluster()) as store,
        ):
            first = await store.commit([("a", 0)], [("a", b"1")])
            proxy.loses_answers = True
            decision = await store.commit([("a", 0)], [("a", b"2")])
            assert decision.outcome == OUTDATED
            assert (await store.snapshot())[1]["a"] == (first.revision, first.revision, b"1")

    play(scenario())


def test_a_commit_that_arrives_late_does_not_come_about_twice_or_after_it_was_told_to_have_failed(
    single: Members,
) -> None:
    async def scenario() -> None:
        async with (
            LossyProxy(single.endpoints()[0]) as proxy,
            store_at(proxy.endpoint, *single.endpoints(), cluster=single.cluster()) as store,
        ):
            await store.commit([("warm", 0)], [("warm", b"")])
            proxy.keeps_requests = True
            committing = asyncio.create_task(store.commit([("a", 0)], [("a", b"1")]))
            await until(lambda: bool(proxy.kept))
            on_its_way = list(proxy.kept)
            decision = await committing
            assert decision.outcome == AGREED
            gone = await store.commit([("a", decision.revision)], [("a", None)])
            assert gone.outcome == AGREED
            # without the cancellation that followed it
            proxy.kept = on_its_way
            answered_bytes = proxy.answered_bytes
            await proxy.deliver()
            await until(lambda: proxy.answered_bytes > answered_bytes)
            await store.commit([("later", 0)], [("later", b"")])
            assert "a" not in (await store.snapshot())[1]

    play(scenario())


def test_a_store_that_cannot_be_reached_fails_with_a_reason(single: Members) -> None:
    async def scenario() -> None:
        async with (
            LossyProxy(single.endpoints()[0]) as proxy,
            store_at(proxy.endpoint, cluster=single.cluster()) as store,
        ):
            proxy.keeps_requests = True
            decision = await store.commit([("a", 0)], [("a", b"1")], patience_s=1.0)
            assert decision.outcome == FAILED
            assert "does not answer in time" in decision.reason
            with pytest.raises(NoAnswer):
                await store._connection.ask(messages.RANGE, messages.range_of(b"x"), 1.0)

    play(scenario())


def test_a_commit_under_way_when_the_store_goes_is_unknown(single: Members) -> None:
    async def scenario() -> None:
        async with (
            LossyProxy(single.endpoints()[0]) as proxy,
            store_at(proxy.endpoint, cluster=single.cluster()) as store,
        ):
            first = await store.commit([("a", 0)], [("a", b"1")])
            proxy.loses_answers = True
            decision = await store.commit([("a", first.revision)], [("a", b"2")], patience_s=3.0)
            assert (decision.outcome, decision.revision) == (UNKNOWN, 0)
            proxy.loses_answers = False
            # it did come about, and the store is as good as ever
            entries = (await store.snapshot())[1]
            assert entries["a"][2] == b"2"
            assert (await store.commit([("a", entries["a"][1])], [("a", b"3")])).outcome == AGREED

    play(scenario())


def test_many_commits_at_once_each_end_truthfully(single: Members) -> None:
    async def scenario() -> None:
        async with store_at(*single.endpoints(), cluster=single.cluster()) as store:

            async def rivals(key: str) -> list[Decision]:
                return await asyncio.gather(*[store.commit([(key, 0)], [(key, b"%d" % at)]) for at in range(8)])

            rounds = await asyncio.gather(*[rivals(f"key{number}") for number in range(8)])
            _, entries = await store.snapshot()
            for number, decisions in enumerate(rounds):
                agreed = [(at, told) for at, told in enumerate(decisions) if told.outcome == AGREED]
                assert len(agreed) == 1
                at, told = agreed[0]
                assert entries[f"key{number}"] == (told.revision, told.revision, b"%d" % at)
                assert all(told.outcome in (AGREED, OUTDATED) for told in decisions)

    play(scenario())


def test_a_commit_that_changes_a_key_it_does_not_compare_is_a_bug(single: Members) -> None:
    async def scenario() -> None:
        async with store_at(*single.endpoints(), cluster=single.cluster()) as store:
            with pytest.raises(InvariantBroken):
                await store.commit([("a", 0)], [("b", b"")])

    play(scenario())
