"""A disk that is really full: a small file system, filled to its last block."""

from pathlib import Path

from tests.unit.node.disk.mounts import run_in_namespace

PRELUDE = """
import os, sys
from pathlib import Path
from tests.unit.node.disk.rig import DEADLINE_S, WriterRig, store
from warren.broker.model.effects import DropSegments, SealSegment
from warren.broker.model.events import DiskFull, FlushCompleted
from warren.broker.model.journal import MetadataChange

root = Path(sys.argv[1])

def fill():
    '''Leave no free block.'''
    with open(root / "filler", "ab", buffering=0) as file:
        try:
            while True:
                file.write(bytes(65536))
        except OSError:
            pass
        try:
            while True:
                file.write(bytes(1))
        except OSError:
            pass

def free():
    os.unlink(root / "filler")

rig = WriterRig(root)
rig.order(store(1, b"head", 0))
rig.stored(1)
"""


def run_on_small_disk(folder: Path, program: str) -> str:
    """The output of the prelude followed by this program."""
    return run_in_namespace(folder, "size=8m", PRELUDE + program)


def test_a_write_that_finds_no_room_waits_for_it_and_nothing_overtakes(tmp_path: Path) -> None:
    printed = run_on_small_disk(
        tmp_path,
        """
fill()
big = b"b" * 2_000_000
rig.order(store(2, big, 4), store(3, b"after", 2_000_004), store(4, b"next", 0, segment=2))
print(rig.until_full().reason)
assert rig.reports.empty()
assert rig.names() == ["000000000001.seg"]
free()
reports = rig.stored(4)
print([report.reason for report in reports if isinstance(report, DiskFull)])
print(rig.content("000000000001.seg")[4:2_000_009] == big + b"after")
print(rig.close(), rig.failures.empty(), rig.names())
""",
    )
    assert printed.splitlines() == [
        "No space left on device",
        "['']",
        "True",
        "0 True ['000000000001.seg', '000000000002.seg']",
    ]


def test_metadata_that_finds_no_room_waits_for_it_too(tmp_path: Path) -> None:
    printed = run_on_small_disk(
        tmp_path,
        """
fill()
change = MetadataChange(1, "queue/a", b"v" * 1_000_000)
rig.order(store(2, b"data", 4, changes=[change]))
print(rig.until_full().reason)
assert rig.content("000000000001.seg")[4:8] == bytes(4)
free()
rig.stored(2)
print(rig.metadata.snapshot() == (1, {"queue/a": (1, change.value)}), rig.content("000000000001.seg")[4:8])
rig.close()
""",
    )
    assert printed.splitlines() == [f"{tmp_path}/metadata.db: No space left on device", "True b'data'"]


def test_no_room_for_zeros_ahead_is_no_matter(tmp_path: Path) -> None:
    printed = run_on_small_disk(
        tmp_path,
        """
rig.order(store(2, b"L" * 1_048_576, 4))
rig.stored(2)
fill()
# up to the end of the last block the segment has
rig.order(store(3, b"s" * 4092, 1_048_580))
print([(report.written_no, report.flushed_no) for report in rig.stored(3)])
rig.close()
""",
    )
    assert printed.splitlines() == ["[(3, 3)]"]


def test_the_spare_is_given_up_before_a_write_has_to_wait(tmp_path: Path) -> None:
    printed = run_on_small_disk(
        tmp_path,
        """
rig.order(store(2, b"s" * 2_000_000, 4), SealSegment(1, b"index", 2_000_004))
rig.order(store(3, b"L" * 100_000, 0, segment=2), DropSegments([1]))
rig.order(store(4, b"x", 100_000, segment=2))
rig.stored(4)
print(rig.names())
fill()
rig.order(store(5, b"y" * 1_900_000, 100_001, segment=2))
print([type(report).__name__ for report in rig.stored(5)], rig.names())
rig.close()
""",
    )
    assert printed.splitlines() == ["['000000000002.seg', 'spare']", "['FlushCompleted'] ['000000000002.seg']"]


def test_closing_on_a_full_disk_gives_up_in_time(tmp_path: Path) -> None:
    printed = run_on_small_disk(
        tmp_path,
        """
fill()
rig.order(store(2, b"b" * 2_000_000, 4))
rig.until_full()
print(rig.writer.close(patience_s=0.2))
rig.writer.thread.join(DEADLINE_S)
print(rig.writer.thread.is_alive(), rig.failures.empty(), rig.reports.empty())
""",
    )
    assert printed.splitlines() == ["1", "False True True"]
