"""Public client libraries, over a crash of their node."""

import asyncio

import aio_pika

from tests.durability.visiting import DEADLINE_S
from tests.support.node_process import NodeProcess


def test_a_robust_client_finds_its_queue_and_its_messages_again(node: NodeProcess) -> None:
    asyncio.run(asyncio.wait_for(_publish_crash_consume(node), 2 * DEADLINE_S))


async def _publish_crash_consume(node: NodeProcess) -> None:
    host, port = node.amqp
    connection = await aio_pika.connect_robust(host=host, port=port, reconnect_interval=0.05)
    async with connection:
        channel = await connection.channel()
        queue = await channel.declare_queue("q", durable=True)
        received: asyncio.Queue[tuple[bytes, bool | None]] = asyncio.Queue()

        async def take(message: aio_pika.abc.AbstractIncomingMessage) -> None:
            received.put_nowait((message.body, message.redelivered))

        await queue.consume(take)
        await channel.default_exchange.publish(_persistent(b"first"), "q")
        assert await received.get() == (b"first", False)
        await asyncio.to_thread(node.crash)
        assert await received.get() == (b"first", True)
        await channel.default_exchange.publish(_persistent(b"second"), "q")
        assert await received.get() == (b"second", False)


def _persistent(body: bytes) -> aio_pika.Message:
    return aio_pika.Message(body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
