"""A link that is deleted removes the queue and exchanges that it declared upstream, unless another link uses them."""

import pytest

from tests.bridges.conftest import url_of
from tests.bridges.federation.attached_host import AttachedHost, running
from tests.bridges.federation.link_ends import HERE, bound_exchange, exchange_link, internal_exchanges
from tests.bridges.queue_pair import Unique, take
from tests.support.deadlines import in_event_loop
from tests.support.node_process import NodeProcess
from warren.client import connect


@in_event_loop
async def test_an_upstream_that_replaces_another_one_of_the_same_broker_keeps_the_messages_that_wait_there(
    near: NodeProcess, upstream_url: str, unique: Unique
) -> None:
    name = unique("fx")
    host = AttachedHost(url_of(near), HERE)
    host.bind("a")
    old = exchange_link(name, upstream_url, "old")
    new = exchange_link(name, upstream_url + "?heartbeat=7", "new")
    async with bound_exchange(url_of(near), upstream_url, name, "a") as (own, far):
        async with running(host, old):
            pass
        await far.publish(b"waits", name, "a", mandatory=True)
        await old.retire(host, [new])
        await far.publish(b"between", name, "a", mandatory=True)
        assert await internal_exchanges(upstream_url, old) == []
        async with running(host, new):
            assert [each.body for each in await take(own, name, 2)] == [b"waits", b"between"]
            await far.publish(b"comes", name, "a", mandatory=True)
            assert [each.body for each in await take(own, name, 1)] == [b"comes"]
        await new.retire(host, [])
        assert await internal_exchanges(upstream_url, new) == []
        assert host.log.of("federation.leftovers_kept") == []


@in_event_loop
async def test_a_queue_that_still_has_a_consumer_is_left_and_logged(
    near: NodeProcess, upstream_url: str, unique: Unique, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = unique("fx")
    host = AttachedHost(url_of(near), HERE)
    host.bind("a")
    link = exchange_link(name, upstream_url)
    async with await connect(upstream_url) as there:
        far = await there.channel(confirms=True)
        async with running(host, link):
            while not (await far.declare_queue(f"federation: {name} -> {HERE}", passive=True)).consumers:
                pass
            with monkeypatch.context() as impatient:
                impatient.setattr("warren.bridges.federation.links.UNUSED_WITHIN_S", 0.0)
                await link.retire(host, [])
            [kept] = host.log.of("federation.leftovers_kept")
            assert "PRECONDITION_FAILED" in str(kept["reason"])
            await far.publish(b"routed", name, "a", mandatory=True)
        await link.retire(host, [])
        assert len(host.log.of("federation.leftovers_kept")) == 1
        await far.delete_exchange(name)
