"""The contract of every metadata store, tested with each: a lone node's file, a real etcd, and the simulator's."""

import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from pathlib import Path
from typing import Protocol

import pytest

from tests.cluster.etcd_world import Members, store_at
from tests.support.deadlines import in_event_loop
from warren.broker.metadata.store import (
    COMMITTED,
    OUTDATED,
    CommitResult,
    Compares,
    RequestedChanges,
    id_slot,
    object_id,
)
from warren.broker.model.effects import ProposeTransaction
from warren.broker.model.events import MetadataSnapshot
from warren.node.disk.sqlite_store import SqliteStore
from warren.sim.cluster.metadata_store import SimulatedMetadataStore


class Store(Protocol):
    async def snapshot(self) -> tuple[int, MetadataSnapshot]: ...

    async def commit(
        self,
        compares: Compares,
        changes: RequestedChanges,
        touched: Sequence[str] = (),
        unchanged_under: Sequence[tuple[str, int]] = (),
    ) -> CommitResult: ...


class LoneStore:
    """The file of a lone node, called as the shared store is."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    async def snapshot(self) -> tuple[int, MetadataSnapshot]:
        modified = self._store.modifications()
        revision, found = self._store.snapshot()
        return revision, {key: (created, modified[key], value) for key, (created, value) in found.items()}

    async def commit(
        self,
        compares: Compares,
        changes: RequestedChanges,
        touched: Sequence[str] = (),
        unchanged_under: Sequence[tuple[str, int]] = (),
    ) -> CommitResult:
        return self._store.commit(compares, changes, touched, unchanged_under)


class StillClock:
    """A clock that stands still: these tests do not wait for later actions of the simulated store."""

    now_ms = 0

    def schedule(self, delay_ms: int, action: Callable[[], None]) -> None:
        pass


class SimulatedStore:
    """The store of the simulator, called as the real one is."""

    def __init__(self) -> None:
        self._store = SimulatedMetadataStore(StillClock(), lambda: 0)

    async def snapshot(self) -> tuple[int, MetadataSnapshot]:
        return self._store.snapshot()

    async def commit(
        self,
        compares: Compares,
        changes: RequestedChanges,
        touched: Sequence[str] = (),
        unchanged_under: Sequence[tuple[str, int]] = (),
    ) -> CommitResult:
        return self._store.commit(ProposeTransaction(0, compares, changes, list(touched), list(unchanged_under)))


Opening = Callable[[], AbstractAsyncContextManager[Store]]


@pytest.fixture(params=["sqlite", "etcd", "pretend"])
def opening(request: pytest.FixtureRequest, tmp_path: Path) -> Opening:
    """A function that opens the store under test; each call opens the same store."""
    if request.param == "etcd":
        members: Members = request.getfixturevalue("single")
        cluster = members.cluster()
        return lambda: store_at(*members.endpoints(), cluster=cluster)

    if request.param == "pretend":
        store = SimulatedStore()
        return lambda: nullcontext(store)

    @asynccontextmanager
    async def open_file() -> AsyncIterator[Store]:
        store = SqliteStore(str(tmp_path / "metadata.db"))
        try:
            yield LoneStore(store)
        finally:
            store.close()

    return open_file


async def put(store: Store, key: str, value: bytes, at: int = 0) -> int:
    decision = await store.commit([(key, at)], [(key, value)])
    assert decision.outcome == COMMITTED
    return decision.revision


def name(store: Store, revision: int, key: str) -> int:
    """The id of an object made with this revision: a lone node numbers changes one by one."""
    return revision if isinstance(store, LoneStore) else object_id(revision, key)


async def found(store: Store) -> MetadataSnapshot:
    return (await store.snapshot())[1]


@in_event_loop
async def test_a_store_begins_empty(opening: Opening) -> None:
    async with opening() as store:
        assert await found(store) == {}


@in_event_loop
async def test_a_commit_is_there_with_its_revision_also_when_the_store_is_opened_again(opening: Opening) -> None:
    async with opening() as store:
        before, _ = await store.snapshot()
        revision = await put(store, "queues/%2F/a b", b"\0\xff")
        assert revision > before
    async with opening() as store:
        at, entries = await store.snapshot()
        assert at >= revision
        created = name(store, revision, "queues/%2F/a b")
        assert before < created <= revision
        assert entries == {"queues/%2F/a b": (created, revision, b"\0\xff")}


@in_event_loop
async def test_a_key_that_must_be_missing_is_not(opening: Opening) -> None:
    async with opening() as store:
        revision = await put(store, "a", b"1")
        decision = await store.commit([("a", 0)], [("a", b"2")])
        assert decision.outcome == OUTDATED
        assert decision.revision >= revision
        assert await found(store) == {"a": (name(store, revision, "a"), revision, b"1")}


@pytest.mark.parametrize("value", [b"2", b"", b"1"], ids=["changed", "emptied", "the same"])
@in_event_loop
async def test_a_key_that_is_put_again_keeps_its_creation_and_its_modification_moves(
    opening: Opening, value: bytes
) -> None:
    async with opening() as store:
        made = await put(store, "a", b"1")
        created = name(store, made, "a")
        modified = await put(store, "a", value, made)
        assert modified > made
        assert await found(store) == {"a": (created, modified, value)}
        assert (await store.commit([("a", made)], [("a", b"3")])).outcome == OUTDATED
        assert await found(store) == {"a": (created, modified, value)}


@in_event_loop
async def test_a_key_that_is_touched_keeps_all_but_its_modification(opening: Opening) -> None:
    async with opening() as store:
        made = await put(store, "a", b"1")
        created = name(store, made, "a")
        decision = await store.commit([("a", made), ("b", 0), ("c", 0)], [("b", b"2")], ["a", "c"])
        assert decision.outcome == COMMITTED
        entries = await found(store)
        assert set(entries) == {"a", "b"}
        assert entries["a"][0] == created
        assert made < entries["a"][1] <= decision.revision
        assert entries["a"][2] == b"1"
        assert (await store.commit([("a", made)], [("a", None)])).outcome == OUTDATED
        # only touched
        again = await store.commit([("a", entries["a"][1])], [], ["a"])
        assert again.outcome == COMMITTED
        assert (await found(store))["a"] == (created, again.revision, b"1")


@in_event_loop
async def test_a_commit_relies_on_everything_under_a_beginning(opening: Opening) -> None:
    async with opening() as store:
        known = await put(store, "queues/a/1", b"")
        elsewhere = await put(store, "queues/b/1", b"")

        async def tried(prefix: str, at: int) -> str:
            return (await store.commit([("x", 0)], [], [], [(prefix, at)])).outcome

        assert await tried("queues/a/", known) == COMMITTED
        assert await tried("queues/a/", known - 1) == OUTDATED
        assert await tried("queues/", known) == OUTDATED
        assert await tried("queues/", elsewhere) == COMMITTED
        assert await tried("nothing/", 0) == COMMITTED
        came = await put(store, "queues/a/2", b"")
        assert await tried("queues/a/", known) == OUTDATED
        assert await tried("queues/a/", came) == COMMITTED
        assert await tried("queues/b/", elsewhere) == COMMITTED


@in_event_loop
async def test_a_key_that_was_deleted_and_put_again_is_another_one(opening: Opening) -> None:
    async with opening() as store:
        first = await put(store, "a", b"1")
        deleted = await store.commit([("a", first)], [("a", None)])
        assert deleted.outcome == COMMITTED
        assert await found(store) == {}
        second = await put(store, "a", b"1")
        assert first < deleted.revision < second
        created = name(store, second, "a")
        assert created > deleted.revision
        assert await found(store) == {"a": (created, second, b"1")}


@in_event_loop
async def test_all_changes_of_a_commit_come_about_or_none(opening: Opening) -> None:
    async with opening() as store:
        a = await put(store, "a", b"1")
        b = await put(store, "b", b"1")
        stale: Compares = [("a", a), ("b", a), ("c", 0)]
        changes: RequestedChanges = [("a", b"2"), ("b", None), ("c", b"1")]
        assert (await store.commit(stale, changes)).outcome == OUTDATED
        names = (name(store, a, "a"), name(store, b, "b"))
        assert await found(store) == {"a": (names[0], a, b"1"), "b": (names[1], b, b"1")}
        decision = await store.commit([("a", a), ("b", b), ("c", 0)], changes)
        assert decision.outcome == COMMITTED
        entries = await found(store)
        assert {key: value for key, (_, _, value) in entries.items()} == {"a": b"2", "c": b"1"}
        assert entries["a"][0] == names[0]
        assert all(b < modified <= decision.revision for _, modified, _ in entries.values())


@in_event_loop
async def test_objects_of_one_commit_have_ids_above_all_before_it_and_each_its_own(opening: Opening) -> None:
    keys = [f"queues/%2F/{number}" for number in range(60)]
    places = {id_slot(key) for key in keys}
    async with opening() as store:
        before = await put(store, "a", b"")
        decision = await store.commit([(key, 0) for key in keys], [(key, b"") for key in keys])
        after = await put(store, "b", b"")
        names = [(await found(store))[key][0] for key in keys]
        assert len(set(names)) >= len(places)
        assert all(before < made <= decision.revision < after for made in names)
        await store.commit([(keys[0], (await found(store))[keys[0]][1])], [(keys[0], None)])
        await store.commit([(keys[1], (await found(store))[keys[1]][1])], [(keys[1], b"again")])
    async with opening() as store:
        assert [(await found(store))[key][0] for key in keys[1:]] == names[1:]


@in_event_loop
async def test_a_commit_relies_on_keys_that_it_does_not_change(opening: Opening) -> None:
    async with opening() as store:
        vhost = await put(store, "vhosts/%2F", b"")
        queue = await put(store, "queues/%2F/a", b"")
        relied: Compares = [("vhosts/%2F", vhost), ("queues/%2F/b", 0)]
        await put(store, "vhosts/%2F", b"", vhost)
        assert (await store.commit(relied, [("queues/%2F/b", b"")])).outcome == OUTDATED
        missing: Compares = [("queues/%2F/a", queue), ("queues/%2F/c", 0), ("nothing", 0)]
        assert (await store.commit(missing, [("queues/%2F/c", b"")])).outcome == COMMITTED
        assert set(await found(store)) == {"vhosts/%2F", "queues/%2F/a", "queues/%2F/c"}


@in_event_loop
async def test_deleting_a_missing_key_is_committed(opening: Opening) -> None:
    async with opening() as store:
        assert (await store.commit([("a", 0)], [("a", None)])).outcome == COMMITTED
        assert await found(store) == {}


@in_event_loop
async def test_a_revision_that_never_was_is_outdated(opening: Opening) -> None:
    async with opening() as store:
        revision = await put(store, "a", b"1")
        for never in (-1, revision + 1, revision + 1000):
            assert (await store.commit([("a", never)], [("a", b"2")])).outcome == OUTDATED
        assert await found(store) == {"a": (name(store, revision, "a"), revision, b"1")}


@pytest.mark.parametrize("seed", range(3))
@in_event_loop
async def test_any_row_of_commits_has_the_effect_it_has_on_a_dictionary(opening: Opening, seed: int) -> None:
    dice = random.Random(seed)
    model: MetadataSnapshot = {}
    last = 0
    async with opening() as store:
        for step in range(80):
            chosen = dice.sample("abcdef", dice.randint(1, 3))
            compares = [(key, model[key][1] if key in model else 0) for key in chosen]
            stale = dice.random() < 0.3
            if stale:
                key, revision = compares[-1]
                compares[-1] = (key, revision + 1)
            changes: RequestedChanges = [
                (key, b"%d" % step if dice.random() < 0.7 else None) for key in chosen[: dice.randint(1, 3)]
            ]
            decision = await store.commit(compares, changes)
            assert decision.outcome == (OUTDATED if stale else COMMITTED)
            if stale:
                continue
            assert decision.revision > last
            last = decision.revision
            entries = await found(store)
            apply_to(model, store, changes, entries)
            assert entries == model


def apply_to(model: MetadataSnapshot, store: Store, changes: RequestedChanges, entries: MetadataSnapshot) -> None:
    """Apply the changes; the store chooses the revision, which must be above all before."""
    newest = max([modified for _, modified, _ in model.values()], default=0)
    for key, value in changes:
        if value is None:
            model.pop(key, None)
            continue
        modified = entries[key][1]
        assert modified > newest
        model[key] = (model[key][0] if key in model else name(store, modified, key), modified, value)
