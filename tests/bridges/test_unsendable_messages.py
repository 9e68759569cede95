"""One message that cannot be encoded for its destination: it is named, and those in front of it are transferred."""

import asyncio
from collections.abc import Callable

import pytest

from tests.bridges.conftest import url_of
from tests.bridges.lone_host import LoneHost, life_of
from tests.bridges.queue_pair import Unique, fill, take, to_queue
from tests.support.deadlines import run
from tests.support.node_process import NodeProcess
from warren.bridges.settlement import MessageRefused
from warren.bridges.shovel_definition import parse_shovel
from warren.bridges.shovels import SHOVELLED, shovel_rewrite
from warren.bridges.transfer import transfer
from warren.bridges.transfer_options import AckMode, Rewrite, TransferOptions
from warren.broker.policies.parameters import Parameter
from warren.client import Channel, Message, Properties, connect
from warren.wire.field_tables import Table
from warren.wire.field_types import DEPTH_MAX

COUNT = 20
SMALL_FRAMES = "?frame_max=4096"
LONG: Table = {"long": "x" * 8000}


def deep() -> Table:
    """No list, and as deep as it can be: there is no room for it below another header."""
    value: Table = {}
    for _ in range(int(DEPTH_MAX) - 2):
        value = {"a": value}
    return {SHOVELLED: value}


def telling_the_way(goal: str) -> Rewrite:
    value = {"src-uri": "amqp://", "src-queue": "q", "dest-uri": "amqp://", "dest-queue": goal}
    definition = parse_shovel(Parameter("/", "shovel", "s", {**value, "dest-add-forward-headers": True}))
    return shovel_rewrite(definition, "cluster", "amqp://", "amqp://")


async def fill_with_one_bad(channel: Channel, queue: str, headers: Table) -> None:
    await channel.declare_queue(queue)
    await fill(channel, queue, COUNT)
    await channel.publish(Message(b"bad", Properties(message_id="bad", headers=headers)), routing_key=queue)
    await channel.publish(Message(b"behind", Properties(message_id="behind")), routing_key=queue)


async def stopped_by(
    near: NodeProcess,
    far: NodeProcess,
    unique: Unique,
    headers: Table,
    rewrite: Callable[[str], Rewrite],
    mode: AckMode,
) -> str:
    """The logged reason; the messages in front of the bad one are transferred, once, and no others leave the source."""
    source, goal = unique("source"), unique("destination")
    reasons: list[str] = []
    async with await connect(url_of(near)) as here, await connect(url_of(far) + SMALL_FRAMES) as there:
        filling, taking = await here.channel(confirms=True), await there.channel()
        await taking.declare_queue(goal)
        await fill_with_one_bad(filling, source, headers)
        for _ in range(2):
            life = life_of(LoneHost())
            with pytest.raises(MessageRefused) as refused:
                await transfer(here, source, there, rewrite(goal), TransferOptions(ack_mode=mode), life)
            reasons.append(str(refused.value))
            assert life.stats.uncertain == 0
        arrived = await take(taking, goal, COUNT)
        assert [each.body for each in arrived] == [b"%d" % at for at in range(COUNT)]
        left = await take(filling, source, 2)
        assert [each.body for each in left] == [b"bad", b"behind"]
        await filling.delete_queue(source)
        await taking.delete_queue(goal)
    assert len(set(reasons)) == 1
    return reasons[0].replace(source, "SOURCE")


@pytest.mark.parametrize("mode", ["on-confirm", "on-publish"])
def test_a_message_with_properties_too_large_for_a_frame_is_named_and_stays(
    near: NodeProcess, far: NodeProcess, unique: Unique, mode: AckMode
) -> None:
    sentence = run(stopped_by(near, far, unique, LONG, to_queue, mode))
    assert sentence.startswith("message 'bad', published to exchange '' with routing key 'SOURCE', cannot be sent to")
    assert "properties of" in sentence
    assert "it stays at the source, in front of all others" in sentence


def test_a_message_with_too_deeply_nested_headers_is_named_and_stays(
    near: NodeProcess, far: NodeProcess, unique: Unique
) -> None:
    sentence = run(stopped_by(near, far, unique, deep(), telling_the_way, "on-confirm"))
    assert "message 'bad'" in sentence
    assert f"nests at most {DEPTH_MAX} deep" in sentence


def test_without_acks_only_the_unsendable_message_is_lost_and_logged(
    near: NodeProcess, far: NodeProcess, unique: Unique
) -> None:
    source, goal = unique("source"), unique("destination")
    host = LoneHost()

    async def scenario() -> list[bytes]:
        async with await connect(url_of(near)) as here, await connect(url_of(far) + SMALL_FRAMES) as there:
            filling, taking = await here.channel(confirms=True), await there.channel()
            await taking.declare_queue(goal)
            await fill_with_one_bad(filling, source, LONG)
            terms = TransferOptions(ack_mode="no-ack")
            carrying = asyncio.ensure_future(transfer(here, source, there, to_queue(goal), terms, life_of(host)))
            arrived = await take(taking, goal, COUNT + 1)
            carrying.cancel()
            await asyncio.gather(carrying, return_exceptions=True)
            await filling.delete_queue(source)
            await taking.delete_queue(goal)
            return [each.body for each in arrived]

    assert run(scenario()) == [*(b"%d" % at for at in range(COUNT)), b"behind"]
    [dropped] = host.log.of("bridge.dropped")
    assert str(dropped["reason"]).startswith("message 'bad', published to exchange ''")
