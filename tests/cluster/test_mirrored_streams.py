"""Real nodes that hold a stream are killed under load, and every offset keeps its message."""

import pytest

from tests.cluster.mirrored import await_another_master, await_in_sync, standing
from tests.cluster.stream_clients import Reader, Register, Writer
from tests.cluster.trio import Trio, declare
from tests.support.deadlines import DEADLINE_S, eventually
from tests.support.node_process import NodeProcess

pytestmark = pytest.mark.timeout(240)

STREAM = "ledger"


class Load:
    """A writer and a reader at every node; those of a lost node go to another."""

    def __init__(self, trio: Trio) -> None:
        self.register = Register()
        nodes = trio.nodes
        orders = [[*nodes[place:], *nodes[:place]] for place in range(len(nodes))]
        self.writers = [Writer(f"writer {place}", order, STREAM, self.register) for place, order in enumerate(orders)]
        self.readers = [Reader(f"reader {place}", order, STREAM, self.register) for place, order in enumerate(orders)]

    def await_progress(self, count: int = 200) -> None:
        """So many more messages are confirmed, and read by all readers."""
        wanted = len(self.register.confirmed) + count
        eventually(lambda: len(self.register.confirmed) >= wanted, "more is confirmed", 2 * DEADLINE_S)
        eventually(lambda: min(reader.next for reader in self.readers) >= wanted, "all readers go on")

    def settle(self) -> None:
        for writer in self.writers:
            writer.end()
        confirmed = len(self.register.confirmed)
        eventually(lambda: min(reader.next for reader in self.readers) >= confirmed, "everything is read")
        end = max(reader.next for reader in self.readers)
        eventually(lambda: min(reader.next for reader in self.readers) >= end, "all readers read the same")
        for reader in self.readers:
            reader.end()
        self.register.check()


def test_every_offset_keeps_its_message_when_any_node_is_killed(fresh_trio: Trio) -> None:
    n1 = fresh_trio.nodes[0]
    declare(fresh_trio.channel(n1), STREAM, durable=True, arguments={"x-queue-type": "stream", "x-ha-mode": "all"})
    await_in_sync(fresh_trio, [STREAM])
    load = Load(fresh_trio)
    load.await_progress(600)
    n1.kill()
    await_another_master(fresh_trio, [STREAM], n1)
    load.await_progress()
    n1.start()
    await_in_sync(fresh_trio, [STREAM])
    load.await_progress()
    second = _named(fresh_trio, standing(fresh_trio, STREAM).master)
    second.kill()
    await_another_master(fresh_trio, [STREAM], second)
    load.await_progress()
    second.start()
    await_in_sync(fresh_trio, [STREAM])
    # one that was killed before, so that there is a node that never was
    mirror = next(node for node in (n1, second) if node.name != standing(fresh_trio, STREAM).master)
    mirror.kill()
    load.await_progress()
    mirror.start()
    await_in_sync(fresh_trio, [STREAM])
    load.settle()
    # those of nodes that were there all the while went on without a new connection
    assert min(reader.connections for reader in load.readers) == 1
    print(f"{len(load.register.by_offset)} messages")


def _named(trio: Trio, name: str) -> NodeProcess:
    return next(node for node in trio.nodes if node.name == name)
