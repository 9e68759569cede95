"""Real nodes that hold a stream are killed under load, and every offset keeps its message."""

from collections.abc import Iterator

import pytest

from tests.cluster.mirrored import await_another_master, await_in_sync, standing
from tests.cluster.stream_clients import Reader, Register, Writer
from tests.cluster.trio import DEADLINE_S, Trio, declare, eventually
from tests.support.node_process import NodeProcess

pytestmark = pytest.mark.timeout(240)

STREAM = "ledger"


@pytest.fixture
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trio]:
    made = Trio(tmp_path_factory.mktemp("streams"))
    yield made
    made.destroy()


class Load:
    """Who writes and reads over every node; those of a node that is lost go to another."""

    def __init__(self, trio: Trio) -> None:
        self.register = Register()
        nodes = trio.nodes
        orders = [[*nodes[place:], *nodes[:place]] for place in range(len(nodes))]
        self.writers = [Writer(f"writer {place}", order, STREAM, self.register) for place, order in enumerate(orders)]
        self.readers = [Reader(f"reader {place}", order, STREAM, self.register) for place, order in enumerate(orders)]

    def await_progress(self, count: int = 200) -> None:
        """So many more are confirmed, and have been read by everybody."""
        wanted = len(self.register.confirmed) + count
        eventually(lambda: len(self.register.confirmed) >= wanted, "more is confirmed", 2 * DEADLINE_S)
        eventually(lambda: min(reader.next for reader in self.readers) >= wanted, "everybody reads on")

    def settle(self) -> None:
        for writer in self.writers:
            writer.end()
        confirmed = len(self.register.confirmed)
        eventually(lambda: min(reader.next for reader in self.readers) >= confirmed, "everything is read")
        end = max(reader.next for reader in self.readers)
        eventually(lambda: min(reader.next for reader in self.readers) >= end, "everybody reads the same")
        for reader in self.readers:
            reader.end()
        self.register.check()


def test_every_offset_keeps_its_message_whichever_node_is_killed(trio: Trio) -> None:
    n1 = trio.nodes[0]
    declare(trio.channel(n1), STREAM, durable=True, arguments={"x-queue-type": "stream", "x-ha-mode": "all"})
    await_in_sync(trio, [STREAM])
    load = Load(trio)
    load.await_progress(600)
    n1.kill()
    await_another_master(trio, [STREAM], n1)
    load.await_progress()
    n1.start()
    await_in_sync(trio, [STREAM])
    load.await_progress()
    second = _named(trio, standing(trio, STREAM).master)
    second.kill()
    await_another_master(trio, [STREAM], second)
    load.await_progress()
    second.start()
    await_in_sync(trio, [STREAM])
    # one that was killed before, so that there is a node that never was
    mirror = next(node for node in (n1, second) if node.name != standing(trio, STREAM).master)
    mirror.kill()
    load.await_progress()
    mirror.start()
    await_in_sync(trio, [STREAM])
    load.settle()
    # those of nodes that were there all the while went on without a new connection
    assert min(reader.connections for reader in load.readers) == 1
    print(f"{len(load.register.by_offset)} messages")


def _named(trio: Trio, name: str) -> NodeProcess:
    return next(node for node in trio.nodes if node.name == name)
