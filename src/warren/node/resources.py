"""Measures the memory of the process and the free space of the disk against their limits.

The memory limit is a share of the machine's memory, or of what its control group (a container) allows, or an absolute
size. Freed memory is not always returned: the allocator keeps empty pages. Above the limit such pages would keep
publishers blocked for ever, so the allocator is asked to return them, and memory is measured again.

Of the disk, only the space for ordinary users counts: file systems keep a reserve that a node cannot use.

Not here: alarms (`broker.alarms`), a disk that is full all the same (`node.disk.journal_writer`).
"""

import contextlib
import ctypes
import os
import time
from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path

from warren.admin.background import BackgroundTask, BackgroundTasks
from warren.broker.model.events import DiskMeasured, Event, MemoryMeasured

MEASURE_MEMORY_EVERY_S = 1.0
TRIM_EVERY_S = 5.0
DEFAULT_MEMORY_WATERMARK = 0.4
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class ResourceWatch:
    """Measures a resource every `interval_s`, and adds the result to the turns."""

    __slots__ = ("_add", "_interval_s", "_limit_bytes", "_measures", "_name")

    def __init__(self, name: str, add: Callable[[Event], None], limit_bytes: int, interval_s: float) -> None:
        self._name = name
        self._add = add
        self._limit_bytes = limit_bytes
        self._interval_s = interval_s
        self._measures: BackgroundTask | None = None

    @abstractmethod
    def _measure(self) -> None: ...

    def start(self, tasks: BackgroundTasks) -> None:
        self._measure()
        self._measures = tasks.every(self._name, self._interval_s, self._measure)

    def set_limit(self, limit_bytes: int) -> None:
        """Measure against another limit, from this moment on."""
        self._limit_bytes = limit_bytes
        if self._measures is not None:
            self._measure()

    def stop(self) -> None:
        if self._measures is not None:
            self._measures.cancel()
            self._measures = None


class MemoryWatch(ResourceWatch):
    """Adds `MemoryMeasured`."""

    __slots__ = ("_buffered_bytes", "_statm", "_trim_after")

    def __init__(
        self,
        add: Callable[[Event], None],
        limit_bytes: int,
        interval_s: float = MEASURE_MEMORY_EVERY_S,
        buffered_bytes: Callable[[], int] = lambda: 0,
    ) -> None:
        """`buffered_bytes` returns the memory of HTTP requests."""
        super().__init__("memory", add, limit_bytes, interval_s)
        self._buffered_bytes = buffered_bytes
        self._trim_after = 0.0
        self._statm = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)

    def stop(self) -> None:
        super().stop()
        os.close(self._statm)

    def _measure(self) -> None:
        used_bytes = self._resident_bytes()
        if used_bytes > self._limit_bytes and time.monotonic() >= self._trim_after:
            _return_free_pages()
            self._trim_after = time.monotonic() + TRIM_EVERY_S
            used_bytes = self._resident_bytes()
        self._add(MemoryMeasured(used_bytes, self._limit_bytes, self._buffered_bytes()))

    def _resident_bytes(self) -> int:
        return int(os.pread(self._statm, 128, 0).split()[1]) * _PAGE_BYTES


def resident_bytes() -> int:
    """The resident memory of the process, for rare calls."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES


def total_memory_bytes(root: Path = Path("/")) -> int:
    """The memory this process may use: the machine's, or less if its control group says so."""
    limits = [_machine_bytes(root), *_control_group_limits(root)]
    return min(limits)


def _machine_bytes(root: Path) -> int:
    for line in (root / "proc/meminfo").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name == "MemTotal":
            return int(rest.split()[0]) * 1024
    raise AssertionError("/proc/meminfo has a MemTotal line")


def _control_group_limits(root: Path) -> list[int]:
    """The limits of the process's control group and its parents, in either version's files."""
    limits: list[int] = []
    mount = root / "sys/fs/cgroup"
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            limits += _limits_upwards(mount, path, "memory.max")
        elif "memory" in controllers.split(","):
            limits += _limits_upwards(mount / "memory", path, "memory.limit_in_bytes")
    return limits


def _limits_upwards(mount: Path, path: str, file_name: str) -> list[int]:
    group = mount / path.lstrip("/")
    folders = [folder for folder in (group, *group.parents) if folder.is_relative_to(mount)]
    found = [text for folder in folders for text in _lines(folder / file_name)]
    # "max" is no limit
    return [int(text) for text in found if text.isdigit()]


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().split("\n")[:-1]
    except OSError:
        return []


def _return_free_pages() -> None:
    # other C libraries than glibc have no such call
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


MEASURE_DISK_EVERY_S = 1.0
DEFAULT_DISK_LIMIT_BYTES = 50_000_000


class DiskWatch(ResourceWatch):
    """Adds `DiskMeasured`."""

    __slots__ = ("_path",)

    def __init__(
        self,
        add: Callable[[Event], None],
        path: str,
        limit_bytes: int,
        interval_s: float = MEASURE_DISK_EVERY_S,
    ) -> None:
        super().__init__("disk space", add, limit_bytes, interval_s)
        self._path = path

    def _measure(self) -> None:
        # the journal writer reports a disk that does not answer
        with contextlib.suppress(OSError):
            disk = os.statvfs(self._path)
            self._add(DiskMeasured(disk.f_bavail * disk.f_frsize, self._limit_bytes))
