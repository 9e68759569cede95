"""Three real members of etcd, one of which dies or stops: what was promised holds, and watches go on."""

import asyncio

from tests.cluster.etcd_world import DEADLINE_S, Members, Watcher, play, store_at, until
from warren.broker.metadata.store import COMMITTED, FAILED, UNKNOWN, CommitResult, object_id
from warren.node.etcd.store import EtcdStore
from warren.node.etcd.watch import MetadataChanged

PATIENCE_S = 40.0
"""A commit waits for another leader, which a busy machine takes its time to choose."""

LEASE_S = 10
"""So long that whoever has to renew it may be late by seconds."""


async def commit_in_a_row(store: EtcdStore, name: str, count: int) -> dict[str, CommitResult]:
    """New keys one after the other, and what was told of each."""
    told = {}
    for number in range(count):
        key = f"{name}/{number}"
        told[key] = await store.commit([(key, 0)], [(key, b"")], patience_s=PATIENCE_S)
    return told


async def check_truth(store: EtcdStore, told: dict[str, CommitResult]) -> None:
    """What was agreed is there with its revision, what failed is not."""
    _, entries = await store.snapshot()
    for key, decision in told.items():
        assert decision.outcome in (COMMITTED, FAILED), decision
        if decision.outcome == COMMITTED:
            assert entries[key][:2] == (object_id(decision.revision, key), decision.revision)
        else:
            assert key not in entries


def nearest_first(members: Members, number: int) -> list[str]:
    endpoints = members.endpoints()
    return [endpoints[number], *endpoints[:number], *endpoints[number + 1 :]]


def test_commits_and_watches_go_on_when_the_leader_is_killed(trio: Members) -> None:
    async def scenario() -> None:
        leader = await trio.leader()
        async with store_at(*nearest_first(trio, leader), cluster=trio.cluster()) as store:
            start, _ = await store.snapshot()
            watcher = Watcher(store, start)
            rows = [asyncio.create_task(commit_in_a_row(store, f"row{number}", 60)) for number in range(4)]
            await until(lambda: len(watcher.told) > 20)
            trio.kill(leader)
            told = {key: decision for row in rows for key, decision in (await row).items()}
            assert all(decision.outcome == COMMITTED for decision in told.values())
            await watcher.until_told(max(decision.revision for decision in told.values()))
            await watcher.end()
            assert watcher.revisions() == sorted(decision.revision for decision in told.values())
            assert sorted(watcher.keys()) == sorted(told)
            await check_truth(store, told)
            assert await store.current() == watcher.told[-1].revision

    play(scenario())


def test_commits_under_way_while_the_leader_is_stopped_are_told_truthfully(trio: Members) -> None:
    async def scenario() -> None:
        leader = await trio.leader()
        async with store_at(*nearest_first(trio, leader), cluster=trio.cluster()) as store:
            rows = [asyncio.create_task(commit_in_a_row(store, f"row{number}", 150)) for number in range(8)]
            async with asyncio.timeout(DEADLINE_S):
                while len((await store.snapshot())[1]) < 100:
                    await asyncio.sleep(0.01)
            trio.pause(leader)
            told = {key: decision for row in rows for key, decision in (await row).items()}
            trio.go_on(leader)
            await check_truth(store, told)
            assert sum(decision.outcome == COMMITTED for decision in told.values()) > 0.9 * len(told)
            # nor does the member that went on carry out anything afterwards
            late = await commit_in_a_row(store, "late", 20)
            await check_truth(store, told | late)

    play(scenario())


def test_a_watch_leaves_a_member_that_is_stopped(trio: Members) -> None:
    async def scenario() -> None:
        follower = (await trio.leader() + 1) % 3
        cluster = trio.cluster()
        async with (
            store_at(*nearest_first(trio, follower), cluster=cluster) as watching,
            store_at(*nearest_first(trio, (follower + 1) % 3), cluster=cluster, node="warren@other") as other,
        ):
            start, _ = await watching.snapshot()
            watcher = Watcher(watching, start)
            first = await other.commit([("a", 0)], [("a", b"")])
            await watcher.until_told(first.revision)
            trio.pause(follower)
            second = await other.commit([("b", 0)], [("b", b"")], patience_s=PATIENCE_S)
            await watcher.until_told(second.revision)
            await watcher.end()
            assert watcher.revisions() == [first.revision, second.revision]

    play(scenario())


def test_without_a_majority_nothing_is_agreed_and_with_it_everything_goes_on(trio: Members) -> None:
    async def scenario() -> None:
        async with store_at(*nearest_first(trio, 0), cluster=trio.cluster()) as store:
            first = await store.commit([("a", 0)], [("a", b"1")])
            watcher = Watcher(store, first.revision)
            trio.kill(1)
            trio.kill(2)
            decision = await store.commit([("a", first.revision)], [("a", b"2")], patience_s=3.0)
            assert decision.outcome in (FAILED, UNKNOWN)
            assert decision.reason
            await trio.revive(1, 2)
            _, entries = await store.snapshot()
            again = await store.commit([("a", entries["a"][1])], [("a", b"3")], patience_s=PATIENCE_S)
            assert again.outcome == COMMITTED
            await watcher.until_told(again.revision)
            await watcher.end()
            assert all(isinstance(item, MetadataChanged) for item in watcher.told)
            assert await store.current() == again.revision

    play(scenario())


def test_a_member_that_was_away_serves_what_happened_meanwhile(trio: Members) -> None:
    async def scenario() -> None:
        cluster = trio.cluster()
        async with store_at(*nearest_first(trio, 0), cluster=cluster) as store:
            trio.kill(2)
            told = await commit_in_a_row(store, "meanwhile", 10)
            await trio.revive(2)
        async with store_at(trio.endpoints()[2], cluster=cluster) as through_it:
            await check_truth(through_it, told)
            assert all(decision.outcome == COMMITTED for decision in told.values())

    play(scenario())


def test_a_held_key_stays_while_the_leader_changes(trio: Members) -> None:
    async def scenario() -> None:
        leader = await trio.leader()
        async with store_at(*nearest_first(trio, leader), cluster=trio.cluster()) as store:
            start, _ = await store.snapshot()
            watcher = Watcher(store, start)
            holding = store.hold("alive/a", b"1", LEASE_S)
            await holding.held()
            trio.kill(leader)
            ended = await store.commit([("b", 0)], [("b", b"")], patience_s=PATIENCE_S)
            await asyncio.sleep(LEASE_S + 0.5)
            last = await store.commit([("c", 0)], [("c", b"")], patience_s=PATIENCE_S)
            await watcher.until_told(last.revision)
            assert watcher.keys() == ["alive/a", "b", "c"]
            assert ended.outcome == COMMITTED
            await holding.release()
            await watcher.end()

    play(scenario())
