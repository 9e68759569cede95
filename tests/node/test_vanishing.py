"""Clients that vanish at any moment, in any manner, from a real node."""

import random
import socket
import struct
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.node.conftest import Connect, Serve
from tests.support.amqp_client import Connection

Address = tuple[str, int]
ROUNDS = 60


def reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def vanish_before_a_word(address: Address, chance: random.Random) -> None:
    reset(socket.create_connection(address))


def vanish_after_noise(address: Address, chance: random.Random) -> None:
    client = socket.create_connection(address)
    client.sendall(chance.randbytes(chance.randrange(1, 5000)))
    reset(client)


def vanish_while_publishing(address: Address, chance: random.Random) -> None:
    connection = Connection.opened(address)
    channel = connection.channel()
    for _ in range(chance.randrange(1, 30)):
        channel.publish("", "nowhere", bytes(chance.randrange(50_000)))
    reset(connection.socket)


def vanish_while_being_served(address: Address, chance: random.Random) -> None:
    connection = Connection.opened(address)
    channel = connection.channel()
    queue = channel.call("queue.declare", exclusive=True).queue
    channel.send("basic.consume", queue=queue, no_ack=True)
    for _ in range(100):
        channel.publish("", queue, bytes(20_000))
    reset(connection.socket)


def vanish_while_closing(address: Address, chance: random.Random) -> None:
    connection = Connection.opened(address)
    connection.send(0, "connection.close", reply_code=200, reply_text="done")
    reset(connection.socket)


def vanish_by_halves(address: Address, chance: random.Random) -> None:
    connection = Connection.opened(address)
    connection.socket.shutdown(socket.SHUT_WR)
    connection.socket.close()


MANNERS = [
    vanish_before_a_word,
    vanish_after_noise,
    vanish_while_publishing,
    vanish_while_being_served,
    vanish_while_closing,
    vanish_by_halves,
]


@pytest.mark.parametrize("seed", [1, 2])
def test_clients_that_vanish_at_any_moment_do_not_disturb_others(serve: Serve, connect: Connect, seed: int) -> None:
    node = serve()
    bystander = connect(node, opened=True).channel()
    queue = bystander.call("queue.declare", exclusive=True).queue

    def vanish(number: int) -> None:
        chance = random.Random(seed * 1000 + number)
        chance.choice(MANNERS)(node.address(), chance)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(vanish, range(ROUNDS)))
    bystander.publish("", queue, b"still here")
    delivery = bystander.get(queue)
    assert delivery is not None
    assert delivery.body == b"still here"
    assert "Traceback" not in node.log()
    bystander.connection.close()
    assert node.stop() == 0
