"""The journal's writer on real files: order of writes, group commit, and how it stops."""

import errno
import os
import queue
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.node.disk.rig import DEADLINE_S, WriterRig, store
from warren.broker.model.effects import DropSegments, SealSegment, WriteCheckpoint
from warren.broker.model.events import FlushCompleted
from warren.broker.model.journal import MetadataChange
from warren.errors import StoreError
from warren.node.disk.journal_writer import GROUP_BYTES_MAX, SMALL_BATCH_BYTES, ZEROS_AHEAD_BYTES
from warren.node.disk.sqlite_store import SqliteStore

FIRST = "000000000001.seg"
SECOND = "000000000002.seg"
MIB = 1024 * 1024


class HeldFlush:
    """A flush that counts, and whose first call waits until it is let go."""

    def __init__(self, hold: bool = True) -> None:
        self.calls = 0
        self.begun = threading.Event()
        self.let_go = threading.Event()
        if not hold:
            self.let_go.set()

    def __call__(self, descriptor: int) -> None:
        self.calls += 1
        self.begun.set()
        assert self.let_go.wait(DEADLINE_S)
        os.fdatasync(descriptor)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[WriterRig]:
    rig = WriterRig(tmp_path)
    yield rig
    rig.close()


def numbers(reports: list[object]) -> list[tuple[int, int]]:
    return [(report.written_no, report.flushed_no) for report in reports if isinstance(report, FlushCompleted)]


def test_batches_are_written_at_their_offsets_and_reported_flushed(rig: WriterRig) -> None:
    rig.order(store(1, b"head", 0), store(2, b"tail", 4))
    rig.stored(2)
    assert rig.content(FIRST)[:8] == b"headtail"


def test_batches_that_come_while_a_flush_runs_share_the_next_one(tmp_path: Path) -> None:
    flush = HeldFlush()
    rig = WriterRig(tmp_path, flush)
    rig.order(store(1, b"h" * 64, 0))
    assert flush.begun.wait(DEADLINE_S)
    rig.order(*[store(2 + i, bytes([i]), 64 + i) for i in range(50)])
    flush.let_go.set()
    assert numbers(rig.stored(51)) == [(1, 1), (51, 51)]
    assert flush.calls == 2
    assert rig.content(FIRST)[64:114] == bytes(range(50))
    rig.close()


def test_a_group_is_bounded_so_that_reports_come_while_much_waits(tmp_path: Path) -> None:
    flush = HeldFlush()
    rig = WriterRig(tmp_path, flush)
    rig.order(store(1, b"h" * 64, 0))
    assert flush.begun.wait(DEADLINE_S)
    half = bytes(GROUP_BYTES_MAX // 2)
    rig.order(*[store(2 + i, half, 64 + i * len(half)) for i in range(4)])
    flush.let_go.set()
    assert numbers(rig.stored(5)) == [(1, 1), (3, 3), (5, 5)]
    rig.close()


def test_a_batch_without_a_flush_is_reported_written_and_flushed_soon_after(rig: WriterRig) -> None:
    rig.order(store(1, b"head", 0))
    rig.stored(1)
    rig.order(store(2, b"paged", 4, flush=False))
    assert numbers(rig.stored(2)) == [(2, 1), (2, 2)]


def test_batches_without_a_flush_are_flushed_in_time_though_more_keep_coming(tmp_path: Path) -> None:
    rig = WriterRig(tmp_path)
    rig.order(store(1, b"head", 0))
    rig.stored(1)
    flushed_no, batch_no = 1, 1
    while flushed_no < 3 and batch_no < 100_000:
        batch_no += 1
        rig.order(store(batch_no, b"x", 3 + batch_no, flush=False))
        report = rig.reports.get(timeout=DEADLINE_S)
        assert isinstance(report, FlushCompleted)
        flushed_no = report.flushed_no
    assert flushed_no >= 3
    rig.close()


def test_a_batch_with_a_flush_takes_the_ones_before_it_along(tmp_path: Path) -> None:
    flush = HeldFlush(hold=False)
    rig = WriterRig(tmp_path, flush)
    rig.order(store(1, b"head", 0), store(2, b"a", 4, flush=False), store(3, b"b", 5))
    assert numbers(rig.stored(3))[-1] == (3, 3)
    rig.close()


def test_metadata_is_durable_before_the_data_of_its_batch_is_written(tmp_path: Path) -> None:
    found: list[tuple[int, list[str], bool]] = []
    journal = tmp_path / "journal"

    def look(descriptor: int) -> None:
        """The metadata that a reader of a copy sees at the first flush of the journal."""
        if not found:
            copy = tmp_path / "copy"
            copy.mkdir()
            for name in ("metadata.db", "metadata.db-wal"):
                (copy / name).write_bytes((tmp_path / name).read_bytes())
            seen = SqliteStore(str(copy / "metadata.db"))
            revision, values = seen.snapshot()
            seen.close()
            found.append((revision, sorted(values), (journal / FIRST).exists()))
        os.fdatasync(descriptor)

    rig = WriterRig(tmp_path, look)
    changes = [MetadataChange(1, "queue/a", b"1"), MetadataChange(2, "queue/b", b"2")]
    rig.order(store(1, b"head", 0, changes=changes))
    rig.stored(1)
    assert found == [(2, ["queue/a", "queue/b"], False)]
    rig.close()


def test_a_deletion_waits_until_the_data_before_it_is_flushed(tmp_path: Path) -> None:
    """Orders that wait together: data, then a deletion. At the flush of the data, the key is still there."""
    first = HeldFlush()
    seen: list[int] = []

    def look(descriptor: int) -> None:
        if FIRST in rig.names() and rig.content(FIRST)[4:8] == b"last" and not seen:
            seen.append(rig.metadata.snapshot()[0])
        first(descriptor)

    rig = WriterRig(tmp_path, look)
    rig.order(store(1, b"head", 0, changes=[MetadataChange(1, "queues/q", b"1")]))
    first.let_go.set()
    rig.stored(1)
    rig.order(store(2, b"last", 4), store(3, b"", 8, changes=[MetadataChange(2, "queues/q", None)]))
    rig.stored(3)
    assert seen == [1]
    assert rig.metadata.snapshot()[0] == 2
    rig.close()


def test_changes_of_a_whole_group_are_made_in_order(tmp_path: Path) -> None:
    flush = HeldFlush()
    rig = WriterRig(tmp_path, flush)
    rig.order(store(1, b"head", 0))
    assert flush.begun.wait(DEADLINE_S)
    values = [b"1", b"2", None, b"4"]
    rig.order(*[store(2 + i, b"", 4, changes=[MetadataChange(1 + i, "k", value)]) for i, value in enumerate(values)])
    flush.let_go.set()
    assert numbers(rig.stored(5)) == [(1, 1), (5, 5)]
    assert rig.metadata.snapshot() == (4, {"k": (4, b"4")})
    rig.close()


def test_a_segment_has_its_name_only_when_its_first_batch_is_on_disk(tmp_path: Path) -> None:
    flush = HeldFlush()
    rig = WriterRig(tmp_path, flush)
    rig.order(store(1, b"head", 0))
    assert flush.begun.wait(DEADLINE_S)
    assert rig.names() == [f"{FIRST}.new"]
    flush.let_go.set()
    rig.stored(1)
    assert rig.names() == [FIRST]
    rig.close()


def test_a_sealed_segment_has_its_index_and_the_next_one_goes_on(rig: WriterRig) -> None:
    rig.order(
        store(1, b"one", 0), SealSegment(1, b"index", 3), WriteCheckpoint(b"state"), store(2, b"two", 0, segment=2)
    )
    rig.stored(2)
    assert rig.names() == ["000000000001.idx", FIRST, SECOND, "checkpoint"]
    assert (rig.content("000000000001.idx"), rig.content("checkpoint")) == (b"index", b"state")
    rig.order(WriteCheckpoint(b"later"), store(3, b"x", 3, segment=2))
    rig.stored(3)
    assert rig.content("checkpoint") == b"later"


def test_a_sealed_segment_ends_where_its_last_batch_does(rig: WriterRig) -> None:
    rig.order(
        store(1, b"o" * 99_999, 0), SealSegment(1, b"index", 99_999), store(2, b"two", 0, segment=2), DropSegments([1])
    )
    rig.order(store(3, b"head", 0, segment=3), store(4, b"tail", 4, segment=3), SealSegment(3, b"index", 8))
    rig.order(SealSegment(2, b"index", 3), store(5, b"four", 0, segment=4))
    rig.stored(5)
    # one began among the leavings of another, one with zeros ahead
    assert rig.content("000000000003.seg") == b"headtail"
    assert rig.content(SECOND) == b"two"


def test_sealing_flushes_a_segment_of_an_earlier_run(tmp_path: Path) -> None:
    """A node that was killed leaves pages that can be read and are not on disk."""
    flushed: list[str] = []

    def look(descriptor: int) -> None:
        flushed.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)
        os.fdatasync(descriptor)

    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / FIRST).write_bytes(b"left behind")
    rig = WriterRig(tmp_path, look)
    rig.order(SealSegment(1, b"index", 11), store(1, b"two", 0, segment=2))
    rig.stored(1)
    assert flushed == [FIRST, "000000000001.idx.new", f"{SECOND}.new"]
    assert rig.content(FIRST) == b"left behind"
    rig.close()


def test_a_segment_of_an_earlier_run_gives_back_its_room_when_it_is_sealed(tmp_path: Path) -> None:
    """A killed node leaves preallocated space, and old bytes of a recycled file."""
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / FIRST).write_bytes(b"batches" + bytes(5000))
    (tmp_path / "journal" / SECOND).write_bytes(b"nothing that could be read")
    rig = WriterRig(tmp_path)
    rig.order(SealSegment(1, b"index", 7), SealSegment(2, b"index", 0), store(1, b"head", 0, segment=3))
    rig.stored(1)
    assert rig.content(FIRST) == b"batches"
    assert rig.content(SECOND) == b"nothing that could be read"
    rig.close()


def test_records_before_a_checkpoint_are_flushed_before_it_is_there(tmp_path: Path) -> None:
    checkpoints: list[bool] = []
    journal = tmp_path / "journal"

    def look(descriptor: int) -> None:
        checkpoints.append((journal / "checkpoint.new").exists())
        os.fdatasync(descriptor)

    rig = WriterRig(tmp_path, look)
    rig.order(store(1, b"head", 0), store(2, b"x", 4, flush=False), WriteCheckpoint(b"state"))
    rig.close()
    # the segment's first batch, the second one, the checkpoint
    assert checkpoints == [False, False, True]


def test_a_dropped_segment_becomes_the_next_new_one(rig: WriterRig) -> None:
    rig.order(
        store(1, b"o" * 99_999, 0), SealSegment(1, b"index", 99_999), store(2, b"two", 0, segment=2), DropSegments([1])
    )
    rig.order(store(3, b"x", 3, segment=2))
    rig.stored(3)
    assert rig.names() == [SECOND, "spare"]
    assert rig.forgotten == [1]
    spare = (rig.journal / "spare").stat().st_ino
    rig.order(store(4, b"three", 0, segment=3))
    rig.stored(4)
    assert rig.names() == [SECOND, "000000000003.seg"]
    assert (rig.journal / "000000000003.seg").stat().st_ino == spare
    assert rig.content("000000000003.seg")[:7] == b"threeoo"


def test_a_spare_is_still_the_spare_after_a_restart(tmp_path: Path) -> None:
    rig = WriterRig(tmp_path)
    rig.order(store(1, b"one", 0), DropSegments([1]))
    rig.close()
    assert rig.names() == ["spare"]
    rig = WriterRig(tmp_path)
    rig.order(store(1, b"two", 0, segment=2))
    rig.close()
    assert rig.names() == [SECOND]


def test_one_spare_is_kept_and_no_more(rig: WriterRig) -> None:
    for number in (1, 2, 3):
        rig.order(store(number, b"head", 0, segment=number), SealSegment(number, b"index", 4))
    rig.order(DropSegments([1, 2]), store(4, b"x", 4, segment=3))
    rig.stored(4)
    assert rig.names() == ["000000000003.idx", "000000000003.seg", "spare"]
    assert rig.forgotten == [1, 2]


def test_a_very_large_segment_is_no_spare(rig: WriterRig) -> None:
    rig.order(
        store(1, b"head", 0), store(2, b"x", 128 * MIB), SealSegment(1, b"index", 128 * MIB + 1), DropSegments([1])
    )
    rig.order(store(3, b"next", 0, segment=2))
    rig.stored(3)
    assert rig.names() == [SECOND]
    assert rig.content(SECOND)[:4] == b"next"
    assert len(rig.content(SECOND)) < 2 * ZEROS_AHEAD_BYTES


def test_small_batches_find_zeros_ahead_of_them_and_large_ones_do_not(rig: WriterRig) -> None:
    rig.order(store(1, b"small", 0))
    rig.stored(1)
    assert rig.content(FIRST) == b"small" + bytes(ZEROS_AHEAD_BYTES)
    rig.order(store(2, b"more", 5))
    rig.stored(2)
    assert len(rig.content(FIRST)) == 5 + ZEROS_AHEAD_BYTES
    rig.order(store(3, b"L" * SMALL_BATCH_BYTES, 0, segment=2))
    rig.stored(3)
    assert len(rig.content(SECOND)) == SMALL_BATCH_BYTES


def test_a_flush_that_fails_ends_all_writing(tmp_path: Path) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    rig = WriterRig(tmp_path, fail)
    rig.order(store(1, b"head", 0))
    failure = rig.failures.get(timeout=DEADLINE_S)
    assert isinstance(failure, StoreError)
    assert str(failure) == f"{rig.journal}/{FIRST}.new cannot be flushed: Input/output error"
    rig.order(store(2, b"more", 0, segment=2))
    assert rig.close() == 0
    assert rig.names() == [f"{FIRST}.new"]
    with pytest.raises(queue.Empty):
        rig.reports.get_nowait()


def test_a_flush_that_finds_no_room_is_a_failure_too(tmp_path: Path) -> None:
    """The kernel may have dropped the pages: there is nothing left to try again with."""

    def fail(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    rig = WriterRig(tmp_path, fail)
    rig.order(store(1, b"head", 0))
    assert isinstance(rig.failures.get(timeout=DEADLINE_S), StoreError)
    rig.close()


def test_any_other_error_is_a_failure(rig: WriterRig) -> None:
    rig.order(store(1, b"tail of a segment that is not there", 64))
    failure = rig.failures.get(timeout=DEADLINE_S)
    assert isinstance(failure, FileNotFoundError)


def test_closing_carries_out_and_flushes_all_that_was_ordered(tmp_path: Path) -> None:
    rig = WriterRig(tmp_path)
    rig.order(store(1, b"head", 0))
    rig.stored(1)
    rig.order(*[store(2 + i, bytes([i]), 4 + i, flush=False) for i in range(200)])
    assert rig.close() == 0
    assert numbers(rig.stored(201))[-1] == (201, 201)
    assert rig.content(FIRST)[4:204] == bytes(range(200))


def test_closing_does_not_wait_for_ever_and_reports_unwritten_orders(tmp_path: Path) -> None:
    flush = HeldFlush()
    rig = WriterRig(tmp_path, flush)
    rig.order(store(1, b"head", 0))
    assert flush.begun.wait(DEADLINE_S)
    rig.order(store(2, b"x", 4), store(3, b"y", 5))
    assert rig.writer.close(patience_s=0.05) == 2
    flush.let_go.set()
    rig.writer.thread.join(DEADLINE_S)
    rig.metadata.close()
