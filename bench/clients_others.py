"""The programs of `clients_ours.py` with other clients, each in the fastest way that its documentation shows.

Not here: running them (`clients_compared.py`).
"""

import asyncio
from collections.abc import Callable
from typing import Any

import aio_pika
import kombu
import pika
import uvloop
from clients_work import CONTENT_TYPE, IN_FLIGHT, PREFETCH, Work, run

# aio-pika


def aio_message(work: Work, number: int) -> aio_pika.Message:
    mode = aio_pika.DeliveryMode.NOT_PERSISTENT
    return aio_pika.Message(work.body, content_type=CONTENT_TYPE, message_id=f"m-{number}", delivery_mode=mode)


async def aio_publish_each(channel: aio_pika.abc.AbstractChannel, work: Work) -> None:
    while work.goes_on():
        await channel.default_exchange.publish(aio_message(work, work.done), work.queue)
        work.did(1)


async def aio_publish_gathered(channel: aio_pika.abc.AbstractChannel, work: Work) -> None:
    exchange = channel.default_exchange
    while work.goes_on():
        numbers = range(work.done, work.done + IN_FLIGHT)
        await asyncio.gather(*(exchange.publish(aio_message(work, number), work.queue) for number in numbers))
        work.did(IN_FLIGHT)


async def aio_consume(channel: aio_pika.abc.AbstractChannel, work: Work) -> None:
    await channel.set_qos(prefetch_count=PREFETCH)
    queue = await channel.get_queue(work.queue, ensure=False)
    over = asyncio.Event()

    async def came(delivery: aio_pika.abc.AbstractIncomingMessage) -> None:
        if not over.is_set():
            work.saw(delivery.body, delivery.message_id)
            await delivery.ack()
            if not work.is_next():
                over.set()

    work.begins()
    await queue.consume(came)
    await over.wait()


async def aio(program: Callable[..., Any], work: Work) -> None:
    connection = await aio_pika.connect(work.url)
    channel = await connection.channel(publisher_confirms=True)
    work.begins()
    await program(channel, work)
    work.ends()
    await connection.close()


# pika


def pika_properties(number: int) -> pika.BasicProperties:
    return pika.BasicProperties(content_type=CONTENT_TYPE, message_id=f"m-{number}", delivery_mode=1)


def pika_publish_each(work: Work) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(work.url))
    channel = connection.channel()
    channel.confirm_delivery()
    work.begins()
    while work.goes_on():
        channel.basic_publish("", work.queue, work.body, pika_properties(work.done))
        work.did(1)
    work.ends()
    connection.close()


def pika_consume(work: Work) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(work.url))
    channel = connection.channel()
    channel.basic_qos(prefetch_count=PREFETCH)

    def came(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        work.saw(body, properties.message_id)
        channel.basic_ack(method.delivery_tag)
        if not work.is_next():
            channel.stop_consuming()

    channel.basic_consume(work.queue, came)
    work.begins()
    channel.start_consuming()
    work.ends()
    connection.close()


class PikaWithCallbacks:
    """pika's SelectConnection: callbacks drive it, and publishes do not wait."""

    def __init__(self, work: Work, began: Callable[["PikaWithCallbacks"], None]) -> None:
        self.work = work
        self.unconfirmed = 0
        self.sent = 0
        self._began = began
        self.connection = pika.SelectConnection(pika.URLParameters(work.url), self._opened)
        self.channel: Any = None

    def _opened(self, connection: Any) -> None:
        connection.channel(on_open_callback=self._channel_opened)

    def _channel_opened(self, channel: Any) -> None:
        self.channel = channel
        self._began(self)

    def end(self) -> None:
        self.work.ends()
        self.connection.ioloop.stop()

    def publish(self) -> None:
        self.channel.confirm_delivery(self._confirmed, lambda _: self._confirms())

    def _confirms(self) -> None:
        self.work.begins()
        self._fill()

    def _fill(self) -> None:
        work = self.work
        while self.sent - work.done < IN_FLIGHT:
            self.channel.basic_publish("", work.queue, work.body, pika_properties(self.sent))
            self.sent += 1

    def _confirmed(self, frame: Any) -> None:
        self.work.done = frame.method.delivery_tag
        if self.work.goes_on():
            self._fill()
        elif self.work.done == self.sent:
            self.end()

    def consume(self) -> None:
        self.channel.basic_qos(prefetch_count=PREFETCH)
        self.work.begins()
        self.channel.basic_consume(self.work.queue, self._came)

    def _came(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        if self.work.took_s:
            return
        self.work.saw(body, properties.message_id)
        channel.basic_ack(method.delivery_tag)
        if not self.work.is_next():
            self.end()


def pika_callbacks_publish(work: Work) -> None:
    PikaWithCallbacks(work, PikaWithCallbacks.publish).connection.ioloop.start()


def pika_callbacks_consume(work: Work) -> None:
    PikaWithCallbacks(work, PikaWithCallbacks.consume).connection.ioloop.start()


# kombu


def kombu_publish_each(work: Work) -> None:
    with kombu.Connection(work.url, transport_options={"confirm_publish": True}) as connection:
        producer = connection.Producer()
        publish = {"content_type": CONTENT_TYPE, "content_encoding": "binary", "delivery_mode": 1}
        producer.publish(work.body, routing_key=work.queue, message_id="first", **publish)
        work.begins()
        while work.goes_on():
            producer.publish(work.body, routing_key=work.queue, message_id=f"m-{work.done}", **publish)
            work.did(1)
        work.ends()


def kombu_consume(work: Work) -> None:
    over = False

    def came(body: object, message: kombu.Message) -> None:
        nonlocal over
        if not over:
            work.saw(message.body, message.properties["message_id"])
            message.ack()
            over = not work.is_next()

    with kombu.Connection(work.url) as connection:
        queue = kombu.Queue(work.queue, no_declare=True)
        consumer = connection.Consumer([queue], callbacks=[came], accept=[CONTENT_TYPE], prefetch_count=PREFETCH)
        with consumer:
            work.begins()
            while not over:
                connection.drain_events(timeout=60)
            work.ends()


AIO = {"aio-publish-each": aio_publish_each, "aio-publish-gathered": aio_publish_gathered, "aio-consume": aio_consume}
BLOCKING = {
    "pika-publish-each": pika_publish_each,
    "pika-consume": pika_consume,
    "pika-callbacks-publish": pika_callbacks_publish,
    "pika-callbacks-consume": pika_callbacks_consume,
    "kombu-publish-each": kombu_publish_each,
    "kombu-consume": kombu_consume,
}


def start(name: str, work: Work) -> None:
    if name in AIO:
        uvloop.run(aio(AIO[name], work))
    else:
        BLOCKING[name](work)


if __name__ == "__main__":
    run(start)
