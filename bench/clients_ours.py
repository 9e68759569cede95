"""Programs that publish and consume with this project's client. `bench/clients` runs each as a process of its own.

Not here: the same with other clients (`clients_others.py`), running them (`clients_compared.py`).
"""

import asyncio
from collections.abc import Iterator

import uvloop
from clients_work import BATCH, CONTENT_TYPE, IN_FLIGHT, PREFETCH, Program, Work, run

from warren.client import Channel, Delivery, Message, Properties, blocking, connect, recovering
from warren.client.listening import Arrival, Listener
from warren.client.transport import Outgoing, Transport


def message(body: bytes, number: int) -> Message:
    return Message(body, Properties(content_type=CONTENT_TYPE, message_id=f"m-{number}", delivery_mode=1))


def batches(work: Work, size: int) -> Iterator[list[Message]]:
    while work.goes_on():
        first = work.done
        yield [message(work.body, number) for number in range(first, first + size)]
        work.did(size)


def look_at(delivery: Delivery, work: Work) -> None:
    work.saw(delivery.body, delivery.properties.message_id)


# with asyncio


async def publish_each(channel: Channel, work: Work) -> None:
    while work.goes_on():
        await channel.publish(message(work.body, work.done), routing_key=work.queue)
        work.did(1)


async def publish_gathered(channel: Channel, work: Work) -> None:
    for batch in batches(work, IN_FLIGHT):
        await asyncio.gather(*(channel.publish(one, routing_key=work.queue) for one in batch))


async def send_each(channel: Channel, work: Work) -> None:
    while work.goes_on():
        for number in range(work.done, work.done + BATCH):
            await channel.send(message(work.body, number), routing_key=work.queue)
        work.did(BATCH)
    await channel.wait_for_confirms()


async def send_many(channel: Channel, work: Work) -> None:
    for batch in batches(work, BATCH):
        await channel.send_many(batch, routing_key=work.queue)
    await channel.wait_for_confirms()


async def consume(channel: Channel, work: Work) -> None:
    await channel.prefetch(PREFETCH)
    consumer = await channel.consume(work.queue)
    work.begins()
    async for delivery in consumer:
        look_at(delivery, work)
        channel.ack(delivery)
        if not work.is_next():
            return


async def on_transport(program: Program, work: Work) -> None:
    async with await recovering.open(work.url) as transport:
        work.begins()
        await program(transport, work)
        work.ends()


async def transport_publish_each(transport: Transport, work: Work) -> None:
    while work.goes_on():
        [error] = await transport.publish([Outgoing(message(work.body, work.done), "", work.queue, mandatory=False)])
        assert error is None
        work.did(1)


async def transport_publish_gathered(transport: Transport, work: Work) -> None:
    for batch in batches(work, IN_FLIGHT):
        calls = (transport.publish([Outgoing(one, "", work.queue, mandatory=False)]) for one in batch)
        outcomes = await asyncio.gather(*calls)
        assert not any(error for [error] in outcomes)


async def transport_publish_many(transport: Transport, work: Work) -> None:
    for batch in batches(work, BATCH):
        outcomes = await transport.publish([Outgoing(one, "", work.queue, mandatory=False) for one in batch])
        assert not any(outcomes)


async def transport_listen(transport: Transport, work: Work) -> None:
    over = asyncio.Event()

    async def handle(arrival: Arrival[bytes]) -> None:
        if not over.is_set():
            work.saw(arrival.body, arrival.properties.message_id)
            if not work.is_next():
                work.ends()
                over.set()

    listener = Listener(transport, work.queue, handle, prefetch=PREFETCH, declares=False)
    work.begins()
    await listener.start()
    await over.wait()
    await listener.stop()


async def on_loop(program: Program, work: Work) -> None:
    async with await connect(work.url) as connection:
        channel = await connection.channel(confirms=True)
        work.begins()
        await program(channel, work)
        work.ends()


# without


def blocking_publish_each(channel: blocking.Channel, work: Work) -> None:
    while work.goes_on():
        channel.publish(message(work.body, work.done), routing_key=work.queue)
        work.did(1)


def blocking_send_many(channel: blocking.Channel, work: Work) -> None:
    for batch in batches(work, BATCH):
        channel.send_many(batch, routing_key=work.queue)
    channel.wait_for_confirms()


def blocking_consume(channel: blocking.Channel, work: Work) -> None:
    channel.prefetch(PREFETCH)
    consumer = channel.consume(work.queue)
    work.begins()
    for delivery in consumer:
        look_at(delivery, work)
        channel.ack(delivery)
        if not work.is_next():
            return


def in_thread(program: Program, work: Work) -> None:
    with blocking.connect(work.url) as connection:
        channel = connection.channel(confirms=True)
        work.begins()
        program(channel, work)
        work.ends()


ON_TRANSPORT = {
    "transport-publish-each": transport_publish_each,
    "transport-publish-gathered": transport_publish_gathered,
    "transport-publish-many": transport_publish_many,
    "transport-consume": transport_listen,
}
ON_LOOP = {
    "publish-each": publish_each,
    "publish-gathered": publish_gathered,
    "send-each": send_each,
    "send-many": send_many,
    "consume": consume,
}
BLOCKING = {
    "blocking-publish-each": blocking_publish_each,
    "blocking-send-many": blocking_send_many,
    "blocking-consume": blocking_consume,
}


def start(name: str, work: Work) -> None:
    if name in BLOCKING:
        in_thread(BLOCKING[name], work)
    elif name in ON_TRANSPORT:
        uvloop.run(on_transport(ON_TRANSPORT[name], work))
    else:
        uvloop.run(on_loop(ON_LOOP[name], work))


if __name__ == "__main__":
    run(start)
