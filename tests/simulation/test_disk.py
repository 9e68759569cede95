"""The simulated disk carries out orders in steps, in order, and knows what a power loss has taken."""

import heapq
from collections.abc import Callable
from random import Random

from warren.broker.model.effects import AppendRecords, DropSegments, ReadJournal, SealSegment, WriteCheckpoint
from warren.broker.model.events import DiskFull, Event, FlushCompleted, JournalRead
from warren.broker.model.journal import MetadataChange
from warren.sim.disk import SimulatedDisk
from warren.sim.files import index_name, segment_name


class Bench:
    """A disk with a clock of its own."""

    def __init__(self, seed: int = 1) -> None:
        self.now_ms = 0
        self.told: list[Event] = []
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._serial = 0
        self.disk = SimulatedDisk(Random(seed), self._schedule, self.told.append)
        self.disk.start()

    def store(self, number: int, offset: int, data: bytes, flush: bool = True, segment: int = 1) -> int:
        self.disk.order(AppendRecords(number, [], segment, offset, data, flush))
        return offset + len(data)

    def step(self) -> bool:
        if self._heap:
            self.now_ms, _serial, action = heapq.heappop(self._heap)
            action()
        return bool(self._heap)

    def settle(self) -> None:
        while self.step():
            pass

    def content(self, name: str) -> bytes | None:
        file = self.disk.directory.find(name)
        return None if file is None else file.read()

    def stored(self) -> list[tuple[int, int]]:
        return [(event.written_no, event.flushed_no) for event in self.told if isinstance(event, FlushCompleted)]

    def _schedule(self, delay_ms: int, action: Callable[[], None]) -> None:
        self._serial += 1
        heapq.heappush(self._heap, (self.now_ms + delay_ms, self._serial, action))


def test_batches_that_wait_share_a_flush() -> None:
    bench = Bench()
    end = bench.store(1, 0, b"one")
    end = bench.store(2, end, b"two", flush=False)
    bench.store(3, end, b"three")
    assert bench.stored() == []
    bench.settle()
    assert bench.stored() == [(1, 1), (3, 3)]
    assert bench.content(segment_name(1))[:11] == b"onetwothree"


def test_a_batch_that_asks_for_no_flush_gets_one_in_the_end() -> None:
    bench = Bench()
    end = bench.store(1, 0, b"one")
    bench.settle()
    bench.store(2, end, b"two", flush=False)
    bench.settle()
    assert bench.stored() == [(1, 1), (2, 1), (2, 2)]


def test_batches_reported_as_flushed_survive_a_loss_of_power_at_any_step() -> None:
    lost = 0
    for seed in range(200):
        bench = Bench(seed)
        end, written = 0, b""
        for number in range(1, 8):
            data = bytes([number]) * Random(f"{seed}/{number}").choice((1, 100, 900))
            end, written = bench.store(number, end, data, flush=number % 3 != 0), written + data
            for _ in range(seed % 7):
                bench.step()
        flushed_no = max([flushed for _written, flushed in bench.stored()], default=0)
        bench.disk.lose_power()
        assert flushed_no <= bench.disk.survived_no
        survived = bench.content(segment_name(1)) or b""
        expected = b"".join(
            bytes([number]) * Random(f"{seed}/{number}").choice((1, 100, 900))
            for number in range(1, bench.disk.survived_no + 1)
        )
        assert survived.startswith(expected)
        lost += bench.disk.survived_no < 7
    assert lost > 50


def test_a_killed_process_loses_nothing_that_it_wrote() -> None:
    bench = Bench()
    end = bench.store(1, 0, b"one")
    bench.settle()
    bench.store(2, end, b"two", flush=False)
    while (bench.content(segment_name(1)) or b"")[3:6] != b"two":
        bench.step()
    bench.disk.kill()
    assert bench.disk.survived_no == 2


def test_unflushed_bytes_that_outlived_a_killed_process_may_go_with_the_power_until_they_are_sealed() -> None:
    survived = set()
    for seed in range(60):
        for sealed in (False, True):
            bench = Bench(seed)
            end = bench.store(1, 0, b"1" * 600)
            bench.settle()
            bench.disk.slow = True
            bench.store(2, end, b"2" * 600)
            while bench.disk.written_no < 2:
                bench.step()
            bench.disk.kill()
            bench.disk.start()
            if sealed:
                bench.disk.order(SealSegment(1, b"", 1200))
                bench.settle()
            bench.disk.lose_power()
            survived.add((sealed, bench.disk.survived_no))
    assert survived == {(False, 1), (False, 2), (True, 2)}


def test_a_sealed_segment_ends_where_its_last_batch_does() -> None:
    longer = 0
    for seed in range(60):
        bench = Bench(seed)
        end = bench.store(1, 0, b"1" * 600)
        bench.settle()
        longer += len(bench.content(segment_name(1)) or b"") > end
        bench.disk.kill()
        bench.disk.start()
        bench.disk.order(SealSegment(1, b"", end))
        bench.settle()
        assert bench.content(segment_name(1)) == b"1" * 600
    assert longer > 5


def test_metadata_changes_all_at_once_and_before_the_data() -> None:
    for steps in range(12):
        bench = Bench(steps)
        bench.store(1, 0, b"one")
        changes = [
            MetadataChange(1, "a", b"1"),
            MetadataChange(2, "b", b"2"),
            MetadataChange(3, "a", None),
            MetadataChange(4, "a", b"4"),
        ]
        bench.disk.order(AppendRecords(2, changes, 1, 3, b"two", True))
        for _ in range(steps):
            bench.step()
        bench.disk.lose_power()
        assert bench.disk.values in ({}, {"a": (4, b"4"), "b": (2, b"2")})
        if bench.disk.survived_no == 2:
            assert bench.disk.revision == 4
    assert bench.disk.revision == 4


def test_a_segment_has_its_name_once_its_first_batch_is_certain() -> None:
    for seed in range(40):
        for steps in range(8):
            bench = Bench(seed)
            bench.store(1, 0, b"x" * 700)
            for _ in range(steps):
                bench.step()
            bench.disk.lose_power()
            survived = bench.content(segment_name(1))
            assert survived is None or survived.rstrip(b"\0") == b"x" * 700


def test_a_checkpoint_is_the_old_one_or_the_new_one() -> None:
    seen = set()
    for steps in range(12):
        bench = Bench(steps)
        bench.disk.order(WriteCheckpoint(b"old"))
        bench.settle()
        bench.disk.order(WriteCheckpoint(b"new"))
        for _ in range(steps):
            bench.step()
        bench.disk.lose_power()
        seen.add(bench.content("checkpoint"))
    assert seen == {b"old", b"new"}


def test_a_dropped_segment_becomes_the_next_one_with_its_old_bytes_behind_the_new_ones() -> None:
    bench = Bench()
    bench.store(1, 0, b"a longer row of bytes")
    bench.disk.order(SealSegment(1, b"rows", 21))
    bench.store(2, 0, b"two", segment=2)
    bench.disk.order(DropSegments([1]))
    bench.settle()
    assert bench.content(index_name(1)) is None
    bench.store(3, 0, b"three", segment=3)
    bench.settle()
    assert bench.content(segment_name(3)).startswith(b"threeger row of bytes")


def test_a_full_disk_says_so_once_and_goes_on_when_there_is_room() -> None:
    bench = Bench()
    end = bench.store(1, 0, b"one")
    bench.settle()
    bench.disk.full = True
    bench.store(2, end, b"two")
    for _ in range(50):
        bench.step()
    assert [event.reason for event in bench.told if isinstance(event, DiskFull)] == ["No space left on device"]
    assert bench.stored() == [(1, 1)]
    bench.disk.full = False
    bench.settle()
    assert [event.reason for event in bench.told if isinstance(event, DiskFull)][1:] == [""]
    assert bench.stored() == [(1, 1), (2, 2)]


def test_pieces_are_read_as_they_stand_and_a_missing_segment_is_named() -> None:
    bench = Bench()
    bench.store(1, 0, b"0123456789")
    bench.settle()
    bench.disk.read(ReadJournal(7, 1, [(2, 3), (8, 2)]))
    bench.disk.read(ReadJournal(8, 9, [(0, 1)]))
    bench.settle()
    answers = [(event.ticket, event.blocks, event.error) for event in bench.told if isinstance(event, JournalRead)]
    assert answers == [(7, [b"234", b"89"], ""), (8, [], f"{segment_name(9)} is not there")]


def test_unfinished_files_are_gone_at_the_next_start() -> None:
    bench = Bench()
    bench.disk.directory.create("checkpoint.new")
    bench.disk.directory.create(index_name(4))
    bench.disk.kill()
    bench.disk.start()
    assert bench.disk.directory.names() == []
