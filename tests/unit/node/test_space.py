"""The watch on the disk's free space."""

import asyncio
import os
from pathlib import Path

from tests.support.background import background_tasks
from tests.unit.node.shell import run_on
from warren.broker.model.events import DiskMeasured, Event
from warren.node.resources import DiskWatch


def test_free_space_is_measured_at_the_start_and_then_at_intervals(tmp_path: Path) -> None:
    measured: list[Event] = []

    async def watch() -> None:
        enough = asyncio.Event()

        def add(event: Event) -> None:
            measured.append(event)
            if len(measured) == 3:
                enough.set()

        watch = DiskWatch(add, str(tmp_path), 12_345, interval_s=0.001)
        watch.start(background_tasks())
        assert len(measured) == 1
        await enough.wait()
        watch.stop()

    run_on("asyncio", watch())
    event = measured[0]
    assert isinstance(event, DiskMeasured)
    assert event.limit_bytes == 12_345
    disk = os.statvfs(tmp_path)
    total_bytes = disk.f_blocks * disk.f_frsize
    # others write to the same disk meanwhile
    assert abs(event.free_bytes - disk.f_bavail * disk.f_frsize) < max(total_bytes // 20, 2**30)


def test_a_disk_that_does_not_answer_is_asked_again(tmp_path: Path) -> None:
    measured: list[Event] = []
    path = tmp_path / "late"

    async def watch() -> None:
        answered = asyncio.Event()

        def add(event: Event) -> None:
            measured.append(event)
            answered.set()

        watch = DiskWatch(add, str(path), 1, interval_s=0.001)
        watch.start(background_tasks())
        assert measured == []
        path.mkdir()
        await answered.wait()
        watch.stop()

    run_on("asyncio", watch())
    assert isinstance(measured[0], DiskMeasured)
