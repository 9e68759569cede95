"""A real node at its limits: descriptors and memory."""

import socket
import subprocess
import sys
import time

from tests.node.conftest import Connect, Serve
from tests.node.serving import cpu_s

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"

DESCRIPTORS = 64
CLIENTS = 100
SPUN_S = 1.0


def test_a_node_out_of_descriptors_neither_spins_nor_dies(serve: Serve, connect: Connect) -> None:
    node = serve(descriptors=DESCRIPTORS)
    early = connect(node, opened=True)
    crowd = [socket.create_connection(node.address(), timeout=10) for _ in range(CLIENTS)]
    crowd[0].sendall(PROTOCOL_HEADER)
    assert crowd[0].recv(1) == b"\x01"
    spent_s = node.cpu_s()
    # on a busy machine a process that spins gets a part of a core only: this one gets as much as a spinning node would
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as spinning:
        while cpu_s(spinning) < SPUN_S:
            early.channel()
            time.sleep(0.1)
        spinning.kill()
    assert node.cpu_s() - spent_s < SPUN_S / 2
    node.wait_for(lambda: node.events("descriptors.exhausted"))
    [line] = node.events("descriptors.exhausted")
    assert f"limit={DESCRIPTORS}" in line
    for client in crowd:
        client.close()
    node.wait_for(lambda: _is_served(node.address()))
    assert node.process.poll() is None
    early.close()
    assert node.stop() == 0


def test_the_limit_of_descriptors_is_raised_as_far_as_allowed(serve: Serve) -> None:
    node = serve()
    with open(f"/proc/{node.process.pid}/limits") as limits:
        [line] = [line.split() for line in limits if line.startswith("Max open files")]
    assert line[3] == line[4]


def test_publishers_are_blocked_above_the_memory_watermark(serve: Serve, connect: Connect) -> None:
    node = serve(configuration="vm_memory_high_watermark.absolute = 1MB\nvm_memory_high_watermark_paging_ratio = 10\n")
    client = connect(node, opened=True)
    channel = client.channel()
    channel.call("queue.declare", queue="full")
    # one frame for each body: the received part of a longer one counts, and its publisher would be blocked inside it
    for _ in range(3):
        channel.publish("", "full", bytes(100_000))
    assert channel.counts("full") == (3, 0)
    channel.publish("", "full", b"one too many")
    assert client.expect(0, "connection.blocked").reason == "low on memory"


def _is_served(address: tuple[str, int]) -> bool:
    with socket.create_connection(address, timeout=10) as client:
        client.sendall(PROTOCOL_HEADER)
        try:
            return client.recv(1) == b"\x01"
        except ConnectionResetError:
            return False
