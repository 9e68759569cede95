"""The etcd process of a disc node: it outlives its supervisor, comes back, and never returns under an id it lost."""

import asyncio
import io
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.etcd_world import Members, connected, member_of, store_at
from tests.support.deadlines import in_event_loop, run, until
from warren.broker.metadata.store import object_id
from warren.errors import ConfigError, StoreError
from warren.node.etcd import member as quorum
from warren.node.etcd import program
from warren.node.logs import Log, LogLevels

# Founds a member, prints its pid, and waits to be killed.
FOUNDER = """
import asyncio, sys, time
from tests.cluster.etcd_world import member_of
from pathlib import Path
async def main():
    member = member_of(Path(sys.argv[1]), "warren@0")
    await member.found()
    print(member.pid, flush=True)
    await asyncio.sleep(1000)
asyncio.run(main())
"""


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Members]:
    """One running member, and a second that is not started."""
    members = Members(tmp_path, 1)
    members.make()
    yield members
    members.count = 2
    members.destroy()


def test_a_member_outlives_its_supervisor_and_is_adopted_by_the_next(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", FOUNDER, tmp_path / "etcd"], stdout=subprocess.PIPE) as founder:
        assert founder.stdout is not None
        pid = int(founder.stdout.readline())
        founder.kill()

    async def scenario() -> None:
        member = member_of(tmp_path / "etcd", "warren@0")
        await member.resume()
        await member.ready()
        assert member.pid == pid
        await member.close()
        os.kill(pid, 0)
        again = member_of(tmp_path / "etcd", "warren@0")
        await again.resume()
        assert again.pid == pid
        await again.stop()
        assert again.pid == 0
        assert again._process.find() == 0

    run(scenario())


@in_event_loop
async def test_a_member_that_dies_is_started_again_and_is_the_same(single: Members) -> None:
    lines = io.StringIO()
    member = single.member(0, Log(LogLevels({}), stream=lines))
    await member.resume()
    await member.ready()
    before = await member.status()
    first = member.pid
    os.kill(first, signal.SIGKILL)
    await until(lambda: member.pid not in (0, first))
    async with store_at(member.endpoint, cluster=single.cluster()) as store:
        assert (await store.commit([("a", 0)], [("a", b"")])).outcome == "agreed"
    assert (await member.status()).member_id == before.member_id
    assert "event=etcd.ended" in lines.getvalue()
    await member.close()


@in_event_loop
async def test_a_member_that_lost_its_data_joins_as_another(three_members: Members) -> None:
    cluster = three_members.cluster()
    async with store_at(*three_members.endpoints()[:2], cluster=cluster) as store:
        await store.commit([("a", 0)], [("a", b"1")])
        before = {found.name: found.id for found in await quorum.list_members(store._connection)}
        three_members.kill(2)
        shutil.rmtree(three_members.directory(2))
        member = three_members.member(2)
        assert not member.has_data
        await member.join(three_members.endpoints_of(0, 1))
        after = {found.name: found.id for found in await quorum.list_members(store._connection)}
        assert {name: before[name] for name in ("warren@0", "warren@1")} == {
            name: after[name] for name in ("warren@0", "warren@1")
        }
        assert len(after) == 3
        assert after["warren@2"] != before["warren@2"]
        assert not any(found.learner for found in await quorum.list_members(store._connection))
    async with store_at(member.endpoint, cluster=cluster) as through_it:
        assert (await through_it.snapshot())[1]["a"][2] == b"1"
    await member.close()


@in_event_loop
async def test_joining_may_be_interrupted_before_the_first_start(pair: Members) -> None:
    first, second = pair.endpoints()[0], pair.member(1)
    second._prepare([first])
    async with connected(first) as connection:
        await quorum.add_learner(connection, "warren@1", second.peer_url)
        await second.join([first])
        listed = await quorum.list_members(connection)
    assert sorted(found.name for found in listed) == ["warren@0", "warren@1"]
    assert not any(found.learner for found in listed)
    await second.close()


@in_event_loop
async def test_a_learner_whose_supervisor_went_is_promoted_by_the_next(pair: Members) -> None:
    first, second = pair.endpoints()[0], pair.member(1)
    joining = asyncio.create_task(second.join([first]))
    await until(lambda: second.has_data)
    joining.cancel()
    await asyncio.gather(joining, return_exceptions=True)
    await second.close()
    again = pair.member(1)
    await again.resume()
    await again.ready()
    assert not (await again.status()).learner
    assert len(await again.members()) == 2
    await again.close()


@in_event_loop
async def test_a_member_that_the_others_removed_is_given_up(pair: Members) -> None:
    first, second = pair.endpoints()[0], pair.member(1)
    await second.join([first])
    async with connected(first) as connection:
        assert await quorum.remove_member(connection, "warren@1")
        assert not await quorum.remove_member(connection, "warren@1")
        await until(lambda: bool(second.trouble))
        assert second.trouble == "the other members of etcd have removed this node's member"
        with pytest.raises(StoreError, match="removed"):
            await second.ready()
        assert [found.name for found in await quorum.list_members(connection)] == ["warren@0"]
    await second.stop()


@in_event_loop
async def test_a_member_that_leaves_takes_its_data_with_it(pair: Members) -> None:
    first, second = pair.endpoints()[0], pair.member(1)
    await second.join([first])
    await second.leave()
    assert not second.has_data
    assert second.pid == 0
    async with connected(first) as connection:
        assert [found.name for found in await quorum.list_members(connection)] == ["warren@0"]


@in_event_loop
async def test_a_join_that_is_abandoned_leaves_the_first_member_alone_and_able(pair: Members) -> None:
    first, second = pair.endpoints()[0], pair.member(1)
    await second.join([first])
    await second.close()
    pair.kill(1)
    again = pair.member(1)
    await again.abandon()
    assert not again.has_data
    assert again._process.find() == 0
    async with store_at(first, cluster=pair.cluster()) as store:
        assert (await store.commit([("a", 0)], [("a", b"")])).outcome == "agreed"
        assert [found.name for found in await quorum.list_members(store._connection)] == ["warren@0"]


@in_event_loop
async def test_a_member_whose_others_are_lost_goes_on_alone_with_its_data(pair: Members) -> None:
    first, second = pair.member(0), pair.member(1)
    await second.join([first.endpoint])
    await second.close()
    cluster = pair.cluster()
    async with store_at(first.endpoint, cluster=cluster) as store:
        before = await store.commit([("a", 0)], [("a", b"1")])
    pair.kill(1)
    await first.resume_alone()
    assert [found.name for found in await first.members()] == ["warren@0"]
    async with store_at(first.endpoint, cluster=cluster) as store:
        assert (await store.snapshot())[1]["a"] == (object_id(before.revision, "a"), before.revision, b"1")
        assert (await store.commit([("a", before.revision)], [("a", b"2")])).outcome == "agreed"
    # it can join others again, and a restart after that works
    os.kill(first.pid, signal.SIGKILL)
    await until(lambda: first.pid != 0)
    third = member_of(pair.directory(2), "warren@2")
    await third.join([first.endpoint])
    assert sorted(found.name for found in await third.members()) == ["warren@0", "warren@2"]
    await third.stop()
    await first.stop()


@in_event_loop
async def test_a_founding_that_is_abandoned_leaves_nothing(tmp_path: Path) -> None:
    member = member_of(tmp_path / "etcd", "warren@0")
    await member.abandon()
    await member.found()
    await member.close()
    again = member_of(tmp_path / "etcd", "warren@0")
    await again.abandon()
    assert not (tmp_path / "etcd").exists()
    assert again._process.find() == 0


@in_event_loop
async def test_another_etcd_at_the_address_is_not_taken_for_ours(pair: Members) -> None:
    ours = pair.member(0)
    ours._notes["member_id"] += 1
    await ours.resume()
    with pytest.raises(StoreError, match="is not the member whose data is in"):
        await ours.ready()
    await ours.close()


@in_event_loop
async def test_a_member_neither_founds_nor_joins_over_existing_data(pair: Members) -> None:
    member = pair.member(0)
    with pytest.raises(StoreError, match="holds the data of an etcd member already"):
        await member.found()
    with pytest.raises(StoreError, match="holds the data of an etcd member already"):
        await member.join(["127.0.0.1:1"])


@in_event_loop
async def test_a_member_that_cannot_start_says_why(tmp_path: Path) -> None:
    pretender = tmp_path / "pretender"
    pretender.write_text(
        f"#!/bin/sh\n[ $1 = --version ] && exec {program.find_binary('')} --version\necho no luck >&2\nexit 1\n"
    )
    pretender.chmod(0o700)
    member = member_of(tmp_path / "etcd", "warren@0", binary=str(pretender))
    founding = asyncio.create_task(member.found())
    await until(lambda: "no luck" in member._process.last_sentence())
    with pytest.raises(StoreError, match=r"does not answer.*no luck"):
        await member.ready(0.1)
    founding.cancel()
    await asyncio.gather(founding, return_exceptions=True)
    await member.stop()


def test_a_member_does_not_start_if_its_port_is_in_use(tmp_path: Path) -> None:
    member = member_of(tmp_path / "etcd", "warren@0", host="192.0.2.1", client_port=1, peer_port=1)
    with pytest.raises(
        StoreError, match=r"cannot listen on port 1 of 192\.0\.2\.1 \(Cannot assign requested address\)"
    ):
        run(member.found())


def test_a_missing_binary_is_named(tmp_path: Path) -> None:
    member = member_of(tmp_path / "etcd", "warren@0", binary="/nowhere/etcd")
    with pytest.raises(ConfigError, match=r"^cluster\.etcd\.binary /nowhere/etcd is not a program that can be run$"):
        run(member.found())
