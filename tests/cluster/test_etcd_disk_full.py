"""The disks of etcd members are filled, for real: definitions cannot change without a majority, and all else goes on.

Of three nodes two have a small disk for their etcd member, and for nothing else.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.cluster.promises import Load
from tests.cluster.trio import Trio, declare, refusal
from tests.support.deadlines import eventually
from tests.support.machine import need
from tests.support.node_process import NodeProcess
from tests.support.small_disk import SmallDisk, obstacle

pytestmark = pytest.mark.timeout(240)

DISK_MEGABYTES = 160
"""Etcd allocates two files of 64 MB at its start, and the file with its data grows."""

PADDING = {"x-padding": "x" * 20_000}
DECLARES_MAX = 500


class CrampedTrio(Trio):
    """n1 and n2 have little room for etcd."""

    def __init__(self, directory: Path) -> None:
        self.disks: dict[str, SmallDisk] = {}
        super().__init__(directory)

    def launch(self, directory: Path, *options: str, command: Sequence[str] = NodeProcess.COMMAND) -> NodeProcess:
        if directory.name == "n3":
            return super().launch(directory, *options, command=command)
        # a node must own its data directory before a file system is mounted in it
        super().launch(directory).stop()
        disk = self.disks[directory.name] = SmallDisk(directory / "data" / "etcd", DISK_MEGABYTES)
        return super().launch(directory, *options, command=disk.joined(list(command)))

    def destroy(self) -> None:
        super().destroy()
        for disk in self.disks.values():
            disk.unmount()


@pytest.fixture
def trio(tmp_path: Path) -> Iterator[CrampedTrio]:
    need(obstacle())
    made = CrampedTrio(tmp_path)
    yield made
    made.destroy()


def is_out_of_room(node: NodeProcess) -> bool:
    return any("event=etcd.ended" in line and "no space left on device" in line for line in node.log().splitlines())


def test_full_disks_of_etcd_stop_definitions_and_nothing_else_until_there_is_room(
    trio: CrampedTrio, load: Load
) -> None:
    n1, n2, n3 = trio.nodes
    for home in (n1, n3):
        queue = f"work at {home.name}"
        declare(trio.channel(home), queue, durable=True)
        load.on(queue, publishing=n2, consuming=n1)
    load.await_progress()
    asking = trio.channel(n1)
    for number in range(DECLARES_MAX):
        trio.disks["n1"].top_up()
        if is_out_of_room(n1):
            break
        declare(asking, f"declared {number}", durable=True, arguments=PADDING)
    assert is_out_of_room(n1), "etcd writes to its disk"
    refused = (0, "")
    for number in range(DECLARES_MAX):
        for disk in trio.disks.values():
            # a restarted member frees most of its space
            disk.top_up()
        refused = refusal(n3, "queue.declare", queue=f"perhaps {number}", durable=True, arguments=PADDING)
        if refused != (0, ""):
            break
    assert refused[0] == 406
    assert refused[1].startswith("PRECONDITION_FAILED - the nodes of the cluster could not agree: ")
    load.await_everybody()
    for disk in trio.disks.values():
        disk.make_room()
    for node in trio.nodes:
        eventually(
            lambda node=node: refusal(node, "queue.declare", queue="room", durable=True) == (0, ""),  # type: ignore[misc]
            f"{node.name} can change definitions again",
        )
    for node in (n1, n2):
        eventually(lambda node=node: bool(trio.etcd_pid(node)), f"the member of {node.name} is back")  # type: ignore[misc]
    load.settle()
