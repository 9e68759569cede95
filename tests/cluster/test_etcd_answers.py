"""Commits to a real etcd with lost answers or late requests: the reported outcomes are true."""

import asyncio

import pytest

from tests.cluster.etcd_world import LossyProxy, Members, store_at
from tests.support.deadlines import in_event_loop, until
from warren.broker.metadata.store import COMMITTED, FAILED, OUTDATED, UNKNOWN, object_id
from warren.node.etcd import messages
from warren.node.etcd.connection import EtcdUnavailable


@in_event_loop
async def test_a_commit_whose_answer_is_lost_is_reported_as_committed_with_its_revision(single: Members) -> None:
    async with (
        LossyProxy(single.endpoints()[0]) as proxy,
        store_at(proxy.endpoint, *single.endpoints(), cluster=single.cluster()) as store,
    ):
        await store.commit([("warm", 0)], [("warm", b"")])
        proxy.loses_answers = True
        decision = await store.commit([("a", 0)], [("a", b"1")])
        assert decision.outcome == COMMITTED
        _, entries = await store.snapshot()
        assert entries["a"] == (object_id(decision.revision, "a"), decision.revision, b"1")


@in_event_loop
async def test_an_outdated_commit_whose_answer_is_lost_is_reported_as_outdated(single: Members) -> None:
    async with (
        LossyProxy(single.endpoints()[0]) as proxy,
        store_at(proxy.endpoint, *single.endpoints(), cluster=single.cluster()) as store,
    ):
        first = await store.commit([("a", 0)], [("a", b"1")])
        proxy.loses_answers = True
        decision = await store.commit([("a", 0)], [("a", b"2")])
        assert decision.outcome == OUTDATED
        assert (await store.snapshot())[1]["a"] == (object_id(first.revision, "a"), first.revision, b"1")


@in_event_loop
async def test_a_commit_that_arrives_late_is_not_made_twice_or_after_it_was_reported_as_failed(
    single: Members,
) -> None:
    async with (
        LossyProxy(single.endpoints()[0]) as proxy,
        store_at(proxy.endpoint, *single.endpoints(), cluster=single.cluster()) as store,
    ):
        await store.commit([("warm", 0)], [("warm", b"")])
        proxy.keeps_requests = True
        committing = asyncio.create_task(store.commit([("a", 0)], [("a", b"the late one")]))
        # other frames of the connection may come first
        await until(lambda: any(b"the late one" in data for _writer, data in proxy.kept))
        on_its_way = list(proxy.kept)
        decision = await committing
        assert decision.outcome == COMMITTED
        gone = await store.commit([("a", decision.revision)], [("a", None)])
        assert gone.outcome == COMMITTED
        # without the cancellation that followed it
        proxy.kept = on_its_way
        answered_bytes = proxy.answered_bytes
        await proxy.deliver()
        await until(lambda: proxy.answered_bytes > answered_bytes)
        await store.commit([("later", 0)], [("later", b"")])
        assert "a" not in (await store.snapshot())[1]


@in_event_loop
async def test_a_store_that_cannot_be_reached_fails_with_a_reason(single: Members) -> None:
    async with (
        LossyProxy(single.endpoints()[0]) as proxy,
        store_at(proxy.endpoint, cluster=single.cluster()) as store,
    ):
        proxy.keeps_requests = True
        decision = await store.commit([("a", 0)], [("a", b"1")], patience_s=1.0)
        assert decision.outcome == FAILED
        assert "does not answer in time" in decision.reason
        with pytest.raises(EtcdUnavailable):
            await store._connection.ask(messages.RANGE, messages.range_request(b"x"), 1.0)


@in_event_loop
async def test_a_commit_under_way_when_the_store_goes_is_unknown(single: Members) -> None:
    async with (
        LossyProxy(single.endpoints()[0]) as proxy,
        store_at(proxy.endpoint, cluster=single.cluster()) as store,
    ):
        first = await store.commit([("a", 0)], [("a", b"1")])
        proxy.loses_answers = True
        decision = await store.commit([("a", first.revision)], [("a", b"2")], patience_s=3.0)
        assert (decision.outcome, decision.revision) == (UNKNOWN, 0)
        proxy.loses_answers = False
        # the commit was made, and the store works as before
        entries = (await store.snapshot())[1]
        assert entries["a"][2] == b"2"
        assert (await store.commit([("a", entries["a"][1])], [("a", b"3")])).outcome == COMMITTED
