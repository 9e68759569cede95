"""Brokers that have shovels: the same HTTP calls for Warren and for RabbitMQ."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.bridges.conftest import url_of
from tests.bridges.federation.broker_api import BrokerApi
from tests.support.deadlines import PATIENCE_S, eventually
from tests.support.node_process import NodeProcess
from tests.support.rabbitmq import RabbitMQ
from warren.client import Delivery, Message, Properties, blocking


class Shoveller(BrokerApi):
    """A broker with shovels, and the calls that tests make to it."""

    @contextmanager
    def shovel(self, name: str, **definition: object) -> Iterator[None]:
        """One that is there as long as this lasts; `src_queue` is the field `src-queue`."""
        self.define(name, **definition)
        try:
            yield
        finally:
            self.call("DELETE", "parameters", "shovel", "/", name)

    def define(self, name: str, **definition: object) -> None:
        value = {key.replace("_", "-"): each for key, each in definition.items()}
        status, told = self.call("PUT", "parameters", "shovel", "/", name, body={"value": value})
        assert status in (201, 204), told

    def row(self, name: str) -> dict[str, Any]:
        rows = [row for row in self.call("GET", "shovels")[1] if row["name"] == name]
        return rows[0] if rows else {"state": "gone"}

    def until_state(self, name: str, state: str) -> dict[str, Any]:
        return self._until_row(name, lambda row: row["state"] == state)

    def until_reason(self, name: str) -> str:
        return str(self._until_row(name, lambda row: "reason" in row)["reason"])

    def _until_row(self, name: str, is_so: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The row as it was when it was so: one that is tried again and again is otherwise a moment later."""
        seen: dict[str, Any] = {}

        def look() -> bool:
            seen.clear()
            seen.update(self.row(name))
            return is_so(seen)

        eventually(look, lambda: str(seen))
        return seen

    def is_defined(self, name: str) -> bool:
        return self.call("GET", "parameters", "shovel", "/", name)[0] == 200

    def fill(self, queue: str, count: int) -> None:
        """Messages with ids, in order."""
        with blocking.connect(self.amqp) as connection:
            channel = connection.channel(confirms=True)
            channel.declare_queue(queue, durable=True)
            messages = [Message(b"%d" % at, Properties(message_id=f"m{at}", delivery_mode=2)) for at in range(count)]
            channel.send_many(messages, routing_key=queue)
            channel.wait_for_confirms()

    def take(self, queue: str, count: int) -> list[Delivery]:
        """So many messages, as soon as they are there."""
        found: list[Delivery] = []
        with blocking.connect(self.amqp) as connection:
            channel = connection.channel()
            channel.declare_queue(queue, durable=True)
            consumer = channel.consume(queue, no_ack=True)
            while len(found) < count:
                batch = consumer.batch(PATIENCE_S)
                assert batch, f"only {len(found)} of {count}"
                found += batch
            consumer.cancel()
        return found

    def length(self, queue: str) -> int:
        with blocking.connect(self.amqp) as connection:
            return connection.channel().declare_queue(queue, durable=True).messages

    def forget_queues(self, *names: str) -> None:
        for name in names:
            self.call("DELETE", "queues", "/", name)


def shoveller_of(node: NodeProcess) -> Shoveller:
    host, port = node.addresses["http"]
    return Shoveller(f"http://{host}:{port}", url_of(node))


@pytest.fixture(scope="session")
def shovelling_rabbitmq() -> Iterator[RabbitMQ]:
    broker = RabbitMQ(plugins=["rabbitmq_shovel_management"])
    yield broker
    broker.close()


@pytest.fixture
def here(near: NodeProcess) -> Shoveller:
    return shoveller_of(near)


@pytest.fixture
def there(far: NodeProcess) -> Shoveller:
    return shoveller_of(far)


@pytest.fixture
def rabbit(shovelling_rabbitmq: RabbitMQ) -> Shoveller:
    return Shoveller(shovelling_rabbitmq.http_url, shovelling_rabbitmq.url)
