"""Federation of a cluster: a link runs on one node; when that node is killed, it runs on another one, without loss."""

import asyncio

import pytest

from tests.cluster.mirrored import await_in_sync
from tests.cluster.trio import Trio, declare, url_of
from tests.support.deadlines import eventually, in_event_loop
from tests.support.node_process import NodeProcess
from tests.support.operator import Operator
from warren.client import ClientError, Message, Properties, connect

pytestmark = pytest.mark.timeout(240)

QUEUE = "mirrored work"
EXCHANGE = "news"
COUNT = 3000


def federate(trio: Trio, far: NodeProcess, *, exchange: bool) -> None:
    operator = Operator(trio.nodes[0].addresses["http"])
    operator.parameter("federation-upstream", "up", {"uri": url_of(far), "reconnect-delay": 1})
    mirrored = {"ha-mode": "all", "ha-sync-mode": "automatic"}
    operator.policy("work", f"^{QUEUE}$", mirrored if exchange else {**mirrored, "federation-upstream": "up"})
    if exchange:
        definition = '{"federation-upstream": "up"}'
        trio.ctl(trio.nodes[0], "set_policy", "--apply-to", "exchanges", "news", f"^{EXCHANGE}$", definition)
    channel = trio.channel(trio.nodes[0])
    declare(channel, QUEUE, durable=True)
    if exchange:
        channel.call("exchange.declare", exchange=EXCHANGE, type="fanout", durable=True)
        channel.call("queue.bind", queue=QUEUE, exchange=EXCHANGE, routing_key="")
    await_in_sync(trio, [QUEUE])


def runners(trio: Trio) -> list[str]:
    """The nodes on which the link runs, as every running node reports it."""
    told = [
        sorted(
            row["node"]
            for row in Operator(node.addresses["http"]).read("federation-links")
            if row["status"] == "running"
        )
        for node in trio.nodes
        if node.alive
    ]
    return told[0] if all(each == told[0] for each in told) else []


async def publish(far: NodeProcess, exchange: str, key: str, numbers: range) -> None:
    async with await connect(url_of(far)) as connection:
        channel = await connection.channel(confirms=True)
        messages = [Message(b"%d" % at, Properties(message_id=f"m{at}", delivery_mode=2)) for at in numbers]
        await channel.send_many(messages, exchange, key)
        await channel.wait_for_confirms()


async def collect(trio: Trio, found: set[bytes]) -> None:
    """Consume, from a node that runs, until all messages have arrived."""
    while len(found) < COUNT:
        try:
            alive = [node for node in trio.nodes if node.alive]
            async with await connect(url_of(*alive)) as connection, await connection.channel() as channel:
                await channel.prefetch(100)
                consumer = await channel.consume(QUEUE)
                while len(found) < COUNT:
                    for delivery in await consumer.batch(timeout_s=0.5):
                        found.add(delivery.body)
                        channel.ack(delivery)
        except ClientError:
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("exchange", [True, False], ids=["exchange", "queue"])
@in_event_loop
async def test_a_link_goes_on_on_another_node_when_its_own_is_killed_and_nothing_is_lost(
    fresh_trio: Trio, far: NodeProcess, exchange: bool
) -> None:
    federate(fresh_trio, far, exchange=exchange)
    eventually(lambda: len(runners(fresh_trio)) == 1, "one node runs it")
    [name] = runners(fresh_trio)
    runner = next(node for node in fresh_trio.nodes if node.name == name)
    if not exchange:
        assert runner is fresh_trio.nodes[0], "the queue lives there"
    fresh_trio.hang_up()
    to = (EXCHANGE, "") if exchange else ("", QUEUE)
    found: set[bytes] = set()
    collecting = asyncio.ensure_future(collect(fresh_trio, found))
    await publish(far, *to, range(COUNT // 2))
    while not found:
        await asyncio.sleep(0.01)
    runner.kill()
    await publish(far, *to, range(COUNT // 2, COUNT))
    await asyncio.to_thread(
        eventually, lambda: runners(fresh_trio) not in ([], [runner.name]), "another node runs the link"
    )
    await collecting
    assert found == {b"%d" % at for at in range(COUNT)}
