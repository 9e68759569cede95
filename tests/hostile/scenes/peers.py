"""Hostile clients at the peer port."""

import random

from tests.hostile.scenes.scene import Scene, close_sockets, open_sockets
from tests.support.node_process import NodeProcess
from warren.broker.cluster.hello import HEADER, OPENING

PEER = "peer port"


def flood(node: NodeProcess) -> None:
    for _ in range(5):
        close_sockets(open_sockets(node.addresses["peer"], 400))


def random_hellos(node: NodeProcess) -> None:
    draw = random.Random(3)
    for size in (1, 10, 1000, 60_000):
        for _ in range(10):
            close_sockets(open_sockets(node.addresses["peer"], 10, draw.randbytes(size)))


def half_hellos(node: NodeProcess) -> None:
    """The header of the hello, a length, then octets one at a time."""
    opened = open_sockets(node.addresses["peer"], 60, HEADER + bytes((OPENING, 1, 0)))
    for one in opened:
        try:
            for octet in random.Random(5).randbytes(20):
                one.send(bytes([octet]))
        except OSError:
            # the node keeps a few of an address
            continue
    close_sockets(opened)


SCENES = [
    Scene(PEER, "2,000 connections that say nothing", "nothing", flood, quick=True),
    Scene(PEER, "400 hellos of random octets", "nothing", random_hellos, quick=True),
    Scene(PEER, "60 hellos, an octet at a time", "nothing", half_hellos, quick=True),
]
