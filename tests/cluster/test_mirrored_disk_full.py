"""The disk of a mirror is really filled, under load: confirmed messages are kept, and all goes on when there is room.

Of three nodes one has a small disk for its journal.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.cluster.mirrored import Scene, mirror_everything
from tests.cluster.promises import Load
from tests.cluster.trio import Trio
from tests.support.deadlines import eventually
from tests.support.machine import need
from tests.support.node_process import NodeProcess
from tests.support.small_disk import SmallDisk, obstacle

pytestmark = pytest.mark.timeout(240)

DISK_MEGABYTES = 64


class CrampedTrio(Trio):
    """n3 has little room for messages, and no limit below which it would block publishers beforehand."""

    disk: SmallDisk

    def launch(self, directory: Path, *options: str, command: Sequence[str] = NodeProcess.COMMAND) -> NodeProcess:
        self.configuration = self.configuration.partition("disk_free_limit")[0] + "disk_free_limit.absolute = 0\n"
        if directory.name != "n3":
            return super().launch(directory, *options, command=command)
        # a node must own its data directory before a file system is mounted in it
        super().launch(directory).stop()
        (directory / "data" / "journal").rename(directory / "unused")
        self.disk = SmallDisk(directory / "data" / "journal", DISK_MEGABYTES)
        return super().launch(directory, *options, command=self.disk.joined(list(command)))

    def destroy(self) -> None:
        super().destroy()
        self.disk.unmount()


@pytest.fixture
def trio(tmp_path: Path) -> Iterator[CrampedTrio]:
    need(obstacle())
    made = CrampedTrio(tmp_path)
    mirror_everything(made)
    yield made
    made.destroy()


def test_a_full_disk_of_a_mirror_delays_confirms_and_loses_nothing(trio: CrampedTrio, load: Load) -> None:
    n1, _n2, n3 = trio.nodes
    scene = Scene(trio, load, "without room", n1, cut=[])
    scene.populate()

    def is_out_of_room() -> bool:
        # the journal also frees space
        trio.disk.top_up()
        return "event=disk.full" in n3.log()

    eventually(is_out_of_room, "n3 says that its disk is full")
    trio.disk.make_room()
    scene.settle()
    assert not load.ledger.refused
