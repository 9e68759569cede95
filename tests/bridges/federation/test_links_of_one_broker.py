"""Two upstreams that lead to one broker, whatever they call it: their links leave each other alone."""

import asyncio
from collections.abc import Callable

import pytest

from tests.bridges.conftest import url_of
from tests.bridges.federation.attached_host import AttachedHost, running
from tests.bridges.federation.test_links_alone import HERE, delivered, has_exchange, is_routed, run, until_routed
from tests.bridges.federation.test_links_retired import internal_exchanges, link_of
from tests.support.node_process import NodeProcess
from warren.bridges.federation.upstream_topology import UpstreamTopology, shared_exchange_names
from warren.client import connect

Unique = Callable[[str], str]
CHECKS = 6
MESSAGES = 50


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[UpstreamTopology]:
    """Which link has looked, each time that one has, whether what it lives by is still there."""
    looked: list[UpstreamTopology] = []
    check = UpstreamTopology.check

    async def counted(end: UpstreamTopology) -> None:
        await check(end)
        looked.append(end)

    monkeypatch.setattr(UpstreamTopology, "check", counted)
    monkeypatch.setattr("warren.bridges.federation.links.CHECK_EVERY_S", 0.05)
    return looked


def test_two_upstreams_that_name_one_broker_differently_neither_break_each_other_nor_double_anything(
    near: NodeProcess, upstream_url: str, unique: Unique, checks: list[UpstreamTopology]
) -> None:
    name = unique("fx")
    by_name = upstream_url.replace("127.0.0.1", "localhost")
    assert by_name != upstream_url

    async def scenario() -> None:
        host = AttachedHost(url_of(near), HERE)
        host.bind("a")
        one, two = link_of("one", name, upstream_url), link_of("two", name, by_name)
        async with await connect(url_of(near)) as here, await connect(upstream_url) as there:
            own, far = await here.channel(), await there.channel(confirms=True)
            await own.declare_exchange(name, "topic")
            await own.declare_queue(name)
            await own.bind_queue(name, name, "a")
            async with running(host, one) as first, running(host, two) as second:
                while sum(checks.count(end) >= CHECKS for end in set(checks)) < 2:
                    await asyncio.sleep(0.01)
                for at in range(MESSAGES):
                    await far.publish(b"%d" % at, name, "a", mandatory=True)
                arrived = await delivered(own, name, MESSAGES)
                host.bind("b")
                await until_routed(far, name, "b")
                host.bindings = host.bindings[1:]
                host.change()
                while await is_routed(far, name, "a"):
                    await asyncio.sleep(0.01)
            assert sorted(int(each.body) for each in arrived) == list(range(MESSAGES))
            assert (first.lives, second.lives) == (1, 1)
            assert host.log.of("bridge.broke") == []
            await two.retire(host, [one])
            await one.retire(host, [])
            assert host.log.of("federation.leftovers_kept") == []
            await far.delete_exchange(name)

    run(scenario())


def test_a_link_that_goes_takes_nothing_from_one_that_stays(
    near: NodeProcess, upstream_url: str, unique: Unique, checks: list[UpstreamTopology]
) -> None:
    name = unique("fx")

    async def scenario() -> None:
        host = AttachedHost(url_of(near), HERE)
        host.bind("a")
        going, staying = link_of("going", name, upstream_url), link_of("staying", name, upstream_url)
        async with await connect(url_of(near)) as here, await connect(upstream_url) as there:
            await (await here.channel()).declare_exchange(name, "topic")
            far = await there.channel(confirms=True)
            async with running(host, staying) as keeper:
                async with running(host, going):
                    pass
                await going.retire(host, [staying])
                assert await internal_exchanges(upstream_url, going) == []
                assert await is_routed(far, name, "a")
                looked = len(checks)
                while len(checks) < looked + CHECKS:
                    await asyncio.sleep(0.01)
                assert keeper.lives == 1
            await staying.retire(host, [])
            await far.delete_exchange(name)

    run(scenario())


def test_an_internal_exchange_without_an_id_goes_when_that_of_the_link_has_all_bindings(
    near: NodeProcess, upstream_url: str, unique: Unique
) -> None:
    name = unique("fx")

    async def scenario() -> None:
        host = AttachedHost(url_of(near), HERE)
        host.bind("a")
        link = link_of("up", name, upstream_url)
        unnamed = shared_exchange_names(f"federation: {name} -> {HERE}")
        async with await connect(url_of(near)) as here, await connect(upstream_url) as there:
            await (await here.channel()).declare_exchange(name, "topic")
            far = await there.channel(confirms=True)
            for each in unnamed:
                await far.declare_exchange(each, "fanout", durable=True, internal=True)
            async with running(host, link):
                assert await is_routed(far, name, "a")
                assert [await has_exchange(upstream_url, each) for each in unnamed] == [False, False]
            await link.retire(host, [])
            await far.delete_exchange(name)

    run(scenario())
