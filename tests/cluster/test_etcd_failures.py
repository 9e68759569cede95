"""Three real members of etcd, one of which dies or stops: promises hold, and watches go on."""

import asyncio

from tests.cluster.etcd_world import Members, Watcher, store_at
from tests.support.background import background_tasks
from tests.support.deadlines import DEADLINE_S, in_event_loop, until
from warren.broker.metadata.store import COMMITTED, FAILED, UNKNOWN, CommitResult, object_id
from warren.node.etcd.store import EtcdStore
from warren.node.etcd.watch import MetadataChanged

PATIENCE_S = 40.0
"""A commit waits for another leader; on a busy machine an election takes long."""

LEASE_S = 10
"""So long that its renewal may be late by seconds."""


async def commit_in_a_row(store: EtcdStore, name: str, count: int) -> dict[str, CommitResult]:
    """Commit new keys one after the other; the reported outcome of each."""
    told = {}
    for number in range(count):
        key = f"{name}/{number}"
        told[key] = await store.commit([(key, 0)], [(key, b"")], patience_s=PATIENCE_S)
    return told


async def check_truth(store: EtcdStore, told: dict[str, CommitResult]) -> None:
    """Committed keys are there with their revisions, failed ones are not."""
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


@in_event_loop
async def test_commits_and_watches_go_on_when_the_leader_is_killed(three_members: Members) -> None:
    leader = await three_members.leader()
    async with store_at(*nearest_first(three_members, leader), cluster=three_members.cluster()) as store:
        start, _ = await store.snapshot()
        watcher = Watcher(store, start)
        rows = [asyncio.create_task(commit_in_a_row(store, f"row{number}", 60)) for number in range(4)]
        await until(lambda: len(watcher.told) > 20)
        three_members.kill(leader)
        told = {key: decision for row in rows for key, decision in (await row).items()}
        assert all(decision.outcome == COMMITTED for decision in told.values())
        await watcher.until_told(max(decision.revision for decision in told.values()))
        await watcher.end()
        assert watcher.revisions() == sorted(decision.revision for decision in told.values())
        assert sorted(watcher.keys()) == sorted(told)
        await check_truth(store, told)
        assert await store.current() == watcher.told[-1].revision


@in_event_loop
async def test_commits_under_way_while_the_leader_is_stopped_are_reported_truthfully(three_members: Members) -> None:
    leader = await three_members.leader()
    async with store_at(*nearest_first(three_members, leader), cluster=three_members.cluster()) as store:
        rows = [asyncio.create_task(commit_in_a_row(store, f"row{number}", 150)) for number in range(8)]
        async with asyncio.timeout(DEADLINE_S):
            while len((await store.snapshot())[1]) < 100:
                await asyncio.sleep(0.01)
        three_members.pause(leader)
        told = {key: decision for row in rows for key, decision in (await row).items()}
        three_members.go_on(leader)
        await check_truth(store, told)
        assert sum(decision.outcome == COMMITTED for decision in told.values()) > 0.9 * len(told)
        # nor does the resumed member carry out a commit afterwards
        late = await commit_in_a_row(store, "late", 20)
        await check_truth(store, told | late)


@in_event_loop
async def test_a_watch_leaves_a_member_that_is_stopped(three_members: Members) -> None:
    follower = (await three_members.leader() + 1) % 3
    cluster = three_members.cluster()
    async with (
        store_at(*nearest_first(three_members, follower), cluster=cluster) as watching,
        store_at(*nearest_first(three_members, (follower + 1) % 3), cluster=cluster, node="warren@other") as other,
    ):
        start, _ = await watching.snapshot()
        watcher = Watcher(watching, start)
        first = await other.commit([("a", 0)], [("a", b"")])
        await watcher.until_told(first.revision)
        three_members.pause(follower)
        second = await other.commit([("b", 0)], [("b", b"")], patience_s=PATIENCE_S)
        await watcher.until_told(second.revision)
        await watcher.end()
        assert watcher.revisions() == [first.revision, second.revision]


@in_event_loop
async def test_without_a_majority_nothing_is_agreed_and_with_it_everything_goes_on(three_members: Members) -> None:
    async with store_at(*nearest_first(three_members, 0), cluster=three_members.cluster()) as store:
        first = await store.commit([("a", 0)], [("a", b"1")])
        watcher = Watcher(store, first.revision)
        three_members.kill(1)
        three_members.kill(2)
        decision = await store.commit([("a", first.revision)], [("a", b"2")], patience_s=3.0)
        assert decision.outcome in (FAILED, UNKNOWN)
        assert decision.reason
        await three_members.revive(1, 2)
        _, entries = await store.snapshot()
        again = await store.commit([("a", entries["a"][1])], [("a", b"3")], patience_s=PATIENCE_S)
        assert again.outcome == COMMITTED
        await watcher.until_told(again.revision)
        await watcher.end()
        assert all(isinstance(item, MetadataChanged) for item in watcher.told)
        assert await store.current() == again.revision


@in_event_loop
async def test_a_member_that_was_away_serves_the_changes_it_missed(three_members: Members) -> None:
    cluster = three_members.cluster()
    async with store_at(*nearest_first(three_members, 0), cluster=cluster) as store:
        three_members.kill(2)
        told = await commit_in_a_row(store, "meanwhile", 10)
        await three_members.revive(2)
    async with store_at(three_members.endpoints()[2], cluster=cluster) as through_it:
        await check_truth(through_it, told)
        assert all(decision.outcome == COMMITTED for decision in told.values())


@in_event_loop
async def test_a_held_key_stays_while_the_leader_changes(three_members: Members) -> None:
    leader = await three_members.leader()
    async with store_at(*nearest_first(three_members, leader), cluster=three_members.cluster()) as store:
        start, _ = await store.snapshot()
        watcher = Watcher(store, start)
        holding = store.hold("alive/a", b"1", LEASE_S, background_tasks())
        await holding.held()
        three_members.kill(leader)
        ended = await store.commit([("b", 0)], [("b", b"")], patience_s=PATIENCE_S)
        await asyncio.sleep(LEASE_S + 0.5)
        last = await store.commit([("c", 0)], [("c", b"")], patience_s=PATIENCE_S)
        await watcher.until_told(last.revision)
        assert watcher.keys() == ["alive/a", "b", "c"]
        assert ended.outcome == COMMITTED
        await holding.release()
        await watcher.end()
