"""The memory of the machine, and that of the process."""

import asyncio
from pathlib import Path

from tests.support.background import background_tasks
from tests.unit.node.shell import run_on
from warren.broker.model.events import Event, MemoryMeasured
from warren.node.resources import MemoryWatch, total_memory_bytes

GIB = 1024**3


def machine(root: Path, cgroup: str, limits: dict[str, str]) -> Path:
    """A root directory with 8 GiB of memory and these control group files."""
    for name, text in {
        "proc/meminfo": f"MemTotal:       {8 * GIB // 1024} kB\nMemFree: 1 kB\n",
        "proc/self/cgroup": cgroup,
        **{f"sys/fs/cgroup/{name}": text for name, text in limits.items()},
    }.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


def test_without_a_control_group_all_memory_of_the_machine_counts(tmp_path: Path) -> None:
    root = machine(tmp_path, "", {})
    assert total_memory_bytes(root) == 8 * GIB
    (root / "proc/self/cgroup").unlink()
    assert total_memory_bytes(root) == 8 * GIB


def test_the_smallest_limit_of_the_groups_above_counts(tmp_path: Path) -> None:
    limits = {"a/b/memory.max": "max\n", "a/memory.max": f"{2 * GIB}\n", "memory.max": f"{4 * GIB}\n"}
    assert total_memory_bytes(machine(tmp_path, "0::/a/b\n", limits)) == 2 * GIB


def test_a_limit_of_the_first_version_of_control_groups_counts(tmp_path: Path) -> None:
    limits = {
        "memory/docker/x/memory.limit_in_bytes": f"{GIB}\n",
        "memory/memory.limit_in_bytes": "9223372036854771712\n",
    }
    root = machine(tmp_path, "5:cpu,cpuacct:/docker/x\n4:memory:/docker/x\n", limits)
    assert total_memory_bytes(root) == GIB


def test_a_limit_above_the_machines_memory_is_none(tmp_path: Path) -> None:
    assert total_memory_bytes(machine(tmp_path, "0::/\n", {"memory.max": f"{64 * GIB}\n"})) == 8 * GIB


def test_memory_is_measured_at_the_start_and_then_at_intervals() -> None:
    measured: list[Event] = []

    async def watch() -> None:
        enough = asyncio.Event()

        def add(event: Event) -> None:
            measured.append(event)
            if len(measured) == 3:
                enough.set()

        watch = MemoryWatch(add, 64 * GIB, interval_s=0.001)
        watch.start(background_tasks())
        assert len(measured) == 1
        await enough.wait()
        watch.stop()

    run_on("asyncio", watch())
    event = measured[0]
    assert isinstance(event, MemoryMeasured)
    assert event.limit_bytes == 64 * GIB
    assert 10_000_000 < event.used_bytes < 4 * GIB


def test_memory_that_was_freed_is_given_back_before_the_limit_counts() -> None:
    """Every second block is freed, so the allocator cannot give the whole of them back by itself."""
    measured: list[MemoryMeasured] = []

    async def watch() -> None:
        def add(event: Event) -> None:
            assert isinstance(event, MemoryMeasured)
            measured.append(event)

        blocks = [bytes([1]) * 16_000 for _ in range(16_000)]
        patient = MemoryWatch(add, 64 * GIB)
        patient.start(background_tasks())
        del blocks[::2]
        patient.stop()
        pressed = MemoryWatch(add, 1)
        pressed.start(background_tasks())
        pressed.stop()

    run_on("asyncio", watch())
    before, after = measured
    assert before.used_bytes - after.used_bytes > 60_000_000
