"""A link that is wanted no more clears up what it has made upstream, unless another link lives by it."""

from collections.abc import Callable

import pytest

from tests.bridges.conftest import url_of
from tests.bridges.federation.attached_host import AttachedHost, running
from tests.bridges.federation.test_links_alone import HERE, delivered, has_exchange, run
from tests.support.node_process import NodeProcess
from warren.bridges.federation.links import ExchangeLink
from warren.bridges.federation.upstream_topology import internal_exchange_name, link_id
from warren.bridges.federation.upstreams import FederationUpstream
from warren.client import connect

Unique = Callable[[str], str]


def link_of(upstream: str, name: str, url: str) -> ExchangeLink:
    return ExchangeLink(
        "/", name, "topic", FederationUpstream(upstream, (url,), name, name, "tag", reconnect_delay_s=0.2), HERE
    )


async def internal_exchanges(url: str, link: ExchangeLink) -> list[str]:
    """Those of a link that are there."""
    queue = f"federation: {link.name} -> {HERE}"
    names = [internal_exchange_name(queue, link_id(link.key), suffix) for suffix in "AB"]
    return [name for name in names if await has_exchange(url, name)]


def test_an_upstream_that_takes_the_place_of_another_one_of_the_same_broker_keeps_what_waits_there(
    near: NodeProcess, upstream_url: str, unique: Unique
) -> None:
    name = unique("fx")

    async def scenario() -> None:
        host = AttachedHost(url_of(near), HERE)
        host.bind("a")
        old, new = link_of("old", name, upstream_url), link_of("new", name, upstream_url + "?heartbeat=7")
        async with await connect(url_of(near)) as here, await connect(upstream_url) as there:
            own, far = await here.channel(), await there.channel(confirms=True)
            await own.declare_exchange(name, "topic")
            await own.declare_queue(name)
            await own.bind_queue(name, name, "a")
            async with running(host, old):
                pass
            await far.publish(b"waits", name, "a", mandatory=True)
            await old.retire(host, [new])
            await far.publish(b"between", name, "a", mandatory=True)
            assert await internal_exchanges(upstream_url, old) == []
            async with running(host, new):
                assert [each.body for each in await delivered(own, name, 2)] == [b"waits", b"between"]
                await far.publish(b"comes", name, "a", mandatory=True)
                assert [each.body for each in await delivered(own, name, 1)] == [b"comes"]
            await new.retire(host, [])
            assert await internal_exchanges(upstream_url, new) == []
            assert host.log.of("federation.leftovers_kept") == []
            await far.delete_exchange(name)
            await own.delete_exchange(name)

    run(scenario())


def test_a_queue_that_somebody_consumes_is_left_and_that_is_told(
    near: NodeProcess, upstream_url: str, unique: Unique, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = unique("fx")

    async def scenario() -> None:
        host = AttachedHost(url_of(near), HERE)
        host.bind("a")
        link = link_of("up", name, upstream_url)
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

    run(scenario())
