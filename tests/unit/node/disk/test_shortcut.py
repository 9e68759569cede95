"""The loop that flushes a lone batch itself, on real files: when it does, when it must not, and how it fails."""

import asyncio
import errno
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.unit.node.disk.mounts import run_in_namespace
from tests.unit.node.disk.rig import DEADLINE_S, WriterRig, store
from tests.unit.node.shell import ScriptedCore, listening, run_on
from warren.broker.model.effects import AppendRecords, DropSegments, Effect, SealSegment, SendBytes, WriteCheckpoint
from warren.broker.model.events import BytesReceived, Event, FlushCompleted
from warren.broker.model.journal import MetadataChange
from warren.errors import StoreError
from warren.node.disk.disk import INLINE_FLUSH_BYTES_MAX, InlineFlush
from warren.node.disk.journal_writer import SMALL_BATCH_BYTES, JournalWriterThread

FIRST = "000000000001.seg"


class Flush:
    """Flushes, and records the thread; fails, waits or takes long when the test says so."""

    def __init__(self) -> None:
        self.by_loop: list[bool] = []
        self.error: OSError | None = None
        self.takes_s = 0.0
        self.begun = threading.Event()
        self.let_go = threading.Event()
        self.let_go.set()

    def __call__(self, descriptor: int) -> None:
        self.by_loop.append(threading.current_thread() is threading.main_thread())
        self.begun.set()
        assert self.let_go.wait(DEADLINE_S)
        time.sleep(self.takes_s)
        if self.error is not None:
            raise self.error
        os.fdatasync(descriptor)


class Turns:
    """Turns that do nothing but remember, and are due if a test says so."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.at_once: list[Event] = []
        self.is_due = False

    def add(self, event: Event) -> None:
        raise AssertionError("the writer's rig takes what the thread reports")

    def add_now(self, event: Event) -> None:
        self.at_once.append(event)

    def due(self) -> bool:
        return self.is_due


class Rig:
    """A writer with a segment begun, at rest, on a disk that has been quick; and the short way to it."""

    def __init__(self, directory: Path) -> None:
        self.flush = Flush()
        self.loop = asyncio.new_event_loop()
        self.turns = Turns(self.loop)
        self.writing = WriterRig(directory, self.flush)
        self.shortcut = InlineFlush(self.writing.writer, self.turns)
        self.writing.order(store(1, b"head", 0))
        self.writing.stored(1)
        make_ready(self.writing.writer)
        self.flush.by_loop.clear()

    def go_round(self, times: int = 1) -> None:
        for _ in range(times):
            self.loop.call_soon(self.loop.stop)
            self.loop.run_forever()

    def stored_at_once(self) -> list[int]:
        return [event.flushed_no for event in self.turns.at_once if isinstance(event, FlushCompleted)]

    def close(self) -> None:
        self.flush.let_go.set()
        self.shortcut.close()
        self.writing.close()
        self.loop.close()


def await_rest(writer: JournalWriterThread) -> None:
    """A thread reports a moment before it is at rest, and before it lets go of the files."""
    deadline_s = time.monotonic() + DEADLINE_S
    while not writer.at_rest() or writer._lock.locked():
        assert time.monotonic() < deadline_s
        os.sched_yield()


@pytest.fixture
def no_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread flushes no batch without waiters, even in a slow test."""
    monkeypatch.setattr("warren.node.disk.journal_writer.FLUSH_WITHIN_S", 10 * DEADLINE_S)


def make_ready(writer: JournalWriterThread) -> None:
    """At rest, on a disk that has been quick."""
    await_rest(writer)
    for _ in range(100):
        writer.pace.took(0.0)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path)
    yield rig
    rig.close()


def test_a_lone_small_batch_is_flushed_by_the_loop_after_it_went_round(rig: Rig) -> None:
    rig.shortcut.order(store(2, b"one", 4))
    assert rig.flush.by_loop == []
    rig.go_round()
    assert rig.stored_at_once() == [2]
    assert rig.flush.by_loop == [True]
    assert rig.writing.content(FIRST)[:7] == b"headone"


def test_a_batch_that_may_be_waited_for_is_written_before_the_loop_goes_round(rig: Rig) -> None:
    rig.shortcut.order(store(2, b"one", 4))
    assert rig.writing.content(FIRST)[:7] == b"headone"
    assert (rig.stored_at_once(), rig.flush.by_loop) == ([], [])
    rig.turns.is_due = True
    rig.go_round()
    rig.writing.stored(2)
    assert rig.flush.by_loop == [False]


def test_records_written_ahead_are_not_written_again(rig: Rig) -> None:
    """Flushed by the loop, by the thread, or by the thread at its deadline for an earlier batch."""
    written = rig.writing.io.writes
    for batch_no, is_due in ((2, False), (3, True)):
        rig.turns.is_due = is_due
        rig.shortcut.order(store(batch_no, b"12", 2 * batch_no))
        rig.go_round()
        if is_due:
            rig.writing.stored(batch_no)
        make_ready(rig.writing.writer)
        assert rig.writing.io.writes == written + batch_no - 1
    rig.turns.is_due = False
    rig.shortcut.order(store(4, b"ack", 8, flush=False))
    assert isinstance(rig.writing.reports.get(timeout=DEADLINE_S), FlushCompleted)
    make_ready(rig.writing.writer)
    rig.shortcut.order(store(5, b"one", 11))
    rig.writing.stored(4)
    await_rest(rig.writing.writer)
    rig.go_round()
    assert rig.stored_at_once() == [2, 5]
    assert rig.writing.content(FIRST)[:14] == b"head1212ackone"
    assert rig.writing.io.writes == written + 4


def test_the_thread_goes_on_where_the_loop_left_off(rig: Rig) -> None:
    rig.shortcut.order(store(2, b"one", 4))
    rig.go_round()
    rig.shortcut.order(store(3, b"two", 7, flush=False))
    rig.go_round()
    reports = rig.writing.stored(3)
    assert [(report.written_no, report.flushed_no) for report in reports if isinstance(report, FlushCompleted)] == [
        (3, 2),
        (3, 3),
    ]
    assert rig.writing.content(FIRST)[:10] == b"headonetwo"


@pytest.mark.usefixtures("no_deadline")
def test_records_that_the_thread_has_written_are_flushed_along(rig: Rig) -> None:
    """A batch without waiters, then one with a waiter: one flush, and none is left for the deadline."""
    rig.shortcut.order(store(2, b"ack", 4, flush=False))
    report = rig.writing.reports.get(timeout=DEADLINE_S)
    assert isinstance(report, FlushCompleted)
    assert (report.written_no, report.flushed_no) == (2, 1)
    await_rest(rig.writing.writer)
    rig.shortcut.order(store(3, b"one", 7))
    rig.go_round()
    assert rig.stored_at_once() == [3]
    rig.shortcut.close()
    assert rig.writing.close() == 0
    assert rig.flush.by_loop == [True]


def test_a_turn_that_is_due_leaves_the_flush_to_the_thread(rig: Rig) -> None:
    rig.shortcut.order(store(2, b"one", 4))
    rig.turns.is_due = True
    rig.go_round()
    rig.writing.stored(2)
    assert (rig.stored_at_once(), rig.flush.by_loop) == ([], [False])


def test_a_disk_that_is_not_quick_is_left_to_the_thread(rig: Rig) -> None:
    rig.writing.writer.pace.took(1.0)
    rig.shortcut.order(store(2, b"one", 4))
    rig.writing.stored(2)
    assert rig.flush.by_loop == [False]


def test_a_loop_that_found_the_disk_slow_does_not_wait_for_it_again(rig: Rig) -> None:
    rig.flush.takes_s = 0.1
    rig.shortcut.order(store(2, b"one", 4))
    rig.go_round()
    rig.shortcut.order(store(3, b"two", 7))
    rig.writing.stored(3)
    assert rig.flush.by_loop == [True, False]


@pytest.mark.parametrize(
    "batch",
    [
        store(2, b"x" * (INLINE_FLUSH_BYTES_MAX + 1), 4),
        store(2, b"nobody waits", 4, flush=False),
        store(2, b"change", 4, changes=[MetadataChange(1, "queue/a", b"1")]),
        store(2, b"new", 0, segment=2),
    ],
    ids=["large", "nobody waits", "metadata", "new segment"],
)
def test_a_batch_that_takes_more_than_a_small_flush_goes_to_the_thread(rig: Rig, batch: AppendRecords) -> None:
    rig.shortcut.order(batch)
    rig.go_round(2)
    rig.writing.stored(2)
    assert rig.stored_at_once() == []
    assert True not in rig.flush.by_loop


def test_room_ahead_is_made_by_the_thread(rig: Rig) -> None:
    end = len(rig.writing.content(FIRST))
    rig.shortcut.order(store(2, b"12", end - 1))
    rig.go_round()
    rig.writing.stored(2)
    assert rig.flush.by_loop == [False]
    assert len(rig.writing.content(FIRST)) > end + 1


@pytest.mark.usefixtures("no_deadline")
def test_much_that_is_not_flushed_yet_is_the_threads(rig: Rig) -> None:
    rig.shortcut.order(store(2, b"p" * (SMALL_BATCH_BYTES + 1), 4, flush=False))
    assert isinstance(rig.writing.reports.get(timeout=DEADLINE_S), FlushCompleted)
    await_rest(rig.writing.writer)
    rig.shortcut.order(store(3, b"one", 5 + SMALL_BATCH_BYTES))
    rig.go_round()
    rig.writing.stored(3)
    assert True not in rig.flush.by_loop


def test_a_batch_does_not_overtake_those_the_thread_has(rig: Rig) -> None:
    rig.flush.let_go.clear()
    rig.writing.order(store(2, b"a" * (INLINE_FLUSH_BYTES_MAX + 1), 4))
    assert rig.flush.begun.wait(DEADLINE_S)
    rig.shortcut.order(store(3, b"b", 5 + INLINE_FLUSH_BYTES_MAX))
    rig.go_round()
    assert rig.stored_at_once() == []
    rig.flush.let_go.set()
    rig.writing.stored(3)
    assert True not in rig.flush.by_loop


def test_a_batch_that_is_held_goes_before_the_next_order(rig: Rig) -> None:
    """A turn with two batches, or one that ends a segment: nothing is left behind."""
    # the thread does not rest before the last of them has come
    rig.flush.let_go.clear()
    rig.shortcut.order(store(2, b"one", 4))
    for effect in (
        SealSegment(1, b"index", 7),
        WriteCheckpoint(b"state"),
        store(3, b"head", 0, segment=2),
        DropSegments([1]),
    ):
        rig.shortcut.order(effect)
    rig.shortcut.order(store(4, b"more", 4, segment=2))
    rig.go_round(2)
    rig.flush.let_go.set()
    rig.writing.stored(4)
    assert rig.stored_at_once() == []
    assert rig.writing.content("spare")[:7] == b"headone"
    assert rig.writing.content("000000000002.seg")[:8] == b"headmore"


def test_a_batch_that_is_held_when_the_node_stops_is_written(rig: Rig) -> None:
    rig.shortcut.order(store(2, b"last", 4))
    rig.shortcut.close()
    assert rig.writing.close() == 0
    rig.go_round()
    assert rig.writing.content(FIRST)[:8] == b"headlast"


def test_nothing_is_written_by_the_loop_once_the_thread_has_ended(rig: Rig) -> None:
    assert rig.writing.close() == 0
    rig.shortcut.order(store(2, b"late", 4))
    rig.go_round()
    assert rig.stored_at_once() == []
    assert rig.writing.content(FIRST)[4:8] == bytes(4)


def test_a_flush_that_fails_on_the_loop_ends_all_writing(rig: Rig) -> None:
    rig.flush.error = OSError(errno.EIO, "Input/output error")
    rig.shortcut.order(store(2, b"one", 4))
    rig.go_round()
    failure = rig.writing.failures.get(timeout=DEADLINE_S)
    assert isinstance(failure, StoreError)
    assert str(failure) == f"{rig.writing.journal}/{FIRST} cannot be flushed: Input/output error"
    rig.flush.error = None
    rig.shortcut.order(store(3, b"two", 7))
    rig.go_round()
    assert rig.writing.close() == 0
    assert rig.writing.failures.empty()
    assert rig.writing.reports.empty()
    assert (rig.stored_at_once(), rig.flush.by_loop) == ([], [True])
    assert rig.writing.content(FIRST)[7:10] == bytes(3)


def test_a_write_of_the_loop_that_finds_no_room_is_taken_again_by_the_thread(tmp_path: Path) -> None:
    """A segment whose file is long enough and has no blocks, as some tools leave them when they copy."""
    printed = run_in_namespace(
        tmp_path,
        "size=8m",
        """
import os, sys
from pathlib import Path
from tests.unit.node.disk.rig import store
from tests.unit.node.disk.test_shortcut import Rig

root = Path(sys.argv[1])
rig = Rig(root)
os.truncate(rig.writing.journal / "000000000001.seg", 4096)
os.truncate(rig.writing.journal / "000000000001.seg", 1_048_580)
with open(root / "filler", "ab", buffering=0) as file:
    try:
        while True:
            file.write(bytes(4096))
    except OSError:
        pass
rig.shortcut.order(store(2, b"data", 8192))
rig.go_round()
print(rig.writing.until_full().reason, rig.stored_at_once())
os.unlink(root / "filler")
rig.writing.stored(2)
print(rig.writing.content("000000000001.seg")[8192:8196])
rig.close()
""",
    )
    assert printed.splitlines() == ["No space left on device []", "b'data'"]


@pytest.mark.parametrize("loop_name", ["uvloop", "asyncio"])
def test_the_bytes_of_a_turn_are_sent_before_the_loop_waits_for_the_disk(loop_name: str, tmp_path: Path) -> None:
    """The flush begins only when the client has the output of the same turn; otherwise it would wait for ever."""
    arrived = threading.Event()

    def flush_then(descriptor: int) -> None:
        if threading.current_thread() is threading.main_thread():
            assert arrived.wait(DEADLINE_S)
        os.fdatasync(descriptor)

    writing = WriterRig(tmp_path, flush_then)
    writing.order(store(1, b"head", 0))
    writing.stored(1)
    make_ready(writing.writer)

    def answer(event: Event) -> list[Effect]:
        if isinstance(event, BytesReceived):
            return [store(2, b"one", 4), SendBytes(event.connection_id, b"delivery")]
        return []

    async def conversation() -> None:
        async with listening(ScriptedCore(answer)) as shell:
            shell.turns.attach({AppendRecords: InlineFlush(writing.writer, shell.turns).order})
            client = _Client(shell.port, arrived.set)
            await shell.core.until(lambda: shell.core.of(FlushCompleted))
            assert client.received() == b"delivery"

    run_on(loop_name, conversation())
    writing.close()


class _Client:
    """In a thread of its own: sends, and says when the answer is there."""

    def __init__(self, port: int, heard: Callable[[], None]) -> None:
        self._answer = b""
        self._heard = heard
        self._thread = threading.Thread(target=self._talk, args=(port,))
        self._thread.start()

    def received(self) -> bytes:
        self._thread.join(DEADLINE_S)
        return self._answer

    def _talk(self, port: int) -> None:
        with socket.create_connection(("127.0.0.1", port), DEADLINE_S) as connection:
            connection.sendall(b"publish")
            self._answer = connection.recv(100)
            self._heard()
