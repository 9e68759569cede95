"""CPU, memory and disk use of processes, and percentiles of latency samples.

CPU and memory are of a process and its descendants; only the peak of memory, which the kernel keeps, is of the process
alone. CPU comes in ticks of 10 ms, so measure over seconds.

Not here: the measured processes (`brokers.py`).
"""

import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_KIB = os.sysconf("SC_PAGE_SIZE") // 1024
FLUSHED_BYTES = 4096
BLOCK_BYTES = 512
"""The unit of st_blocks, on every file system."""
PROGRESS_S = 5.0


def family(pid: int) -> list[int]:
    """The process and all its descendants."""
    found = [pid]
    for member in found:
        try:
            for task in os.listdir(f"/proc/{member}/task"):
                with open(f"/proc/{member}/task/{task}/children", encoding="ascii") as children:
                    found.extend(int(child) for child in children.read().split())
        except OSError:
            continue
    return found


def families(pids: Iterable[int]) -> set[int]:
    """Processes and all their descendants, each once."""
    return {member for pid in pids for member in family(pid)}


def processes_naming(folder: Path) -> list[int]:
    """Every process with something below the folder on its command line."""
    named = f"{folder}/".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if named in words:
            found.append(int(process.name))
    return found


def cpu_s(*pids: int) -> float:
    return sum(_own_cpu_s(member) for member in families(pids))


def _own_cpu_s(pid: int) -> float:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            fields = stat.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def resident_kib(*pids: int) -> int:
    total = 0
    for member in families(pids):
        try:
            with open(f"/proc/{member}/statm", encoding="ascii") as statm:
                total += int(statm.read().split()[1]) * PAGE_KIB
        except OSError:
            continue
    return total


def proportional_kib(*pids: int) -> int:
    """Proportional set size (PSS): a shared page is divided among its processes."""
    total = 0
    for member in families(pids):
        with open(f"/proc/{member}/smaps_rollup", encoding="ascii", errors="replace") as rollup:
            total += next(int(line.split()[1]) for line in rollup if line.startswith("Pss:"))
    return total


def settled_resident_kib(*pids: int, limit_s: float = 8) -> int:
    """Memory once it stops changing by more than half a percent a second, or when the time is up."""
    before = resident_kib(*pids)
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        time.sleep(1)
        after = resident_kib(*pids)
        if abs(after - before) <= before / 200:
            return after
        before = after
    return before


def peak_resident_kib(pid: int) -> int:
    """The most memory the process has had since it started."""
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))


def disk_bytes(folder: Path) -> int:
    """The disk space that the files below a folder use, which may differ from their length."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.lstat().st_blocks * BLOCK_BYTES
        except FileNotFoundError:
            continue
    return total


def flush_samples(seconds: float) -> list[tuple[int, int]]:
    """Times of appending 4 KiB to a file and flushing it, on the disk with the temporary files."""
    samples: list[tuple[int, int]] = []
    page = os.urandom(FLUSHED_BYTES)
    with tempfile.TemporaryFile(buffering=0) as file:
        ends_ns = time.monotonic_ns() + int(seconds * 1e9)
        began_ns = time.monotonic_ns()
        while began_ns < ends_ns:
            file.write(page)
            os.fdatasync(file.fileno())
            ended_ns = time.monotonic_ns()
            samples.append((ended_ns - began_ns, 1))
            began_ns = ended_ns
    return samples


def percentile_ms(samples: list[tuple[int, int]], percent: float) -> float | None:
    """Of (nanoseconds, how many messages) pairs."""
    wanted = sum(weight for _, weight in samples) * percent / 100
    for value_ns, weight in sorted(samples):
        wanted -= weight
        if wanted <= 0:
            return value_ns / 1e6
    return None


def median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def ratio(ours: float | None, theirs: float | None) -> float | None:
    return ours / theirs if ours and theirs else None


def raise_open_file_limit(wanted: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))


def machine() -> str:
    """One line that says where figures were taken."""
    with open("/proc/cpuinfo", encoding="utf-8") as cpuinfo:
        models = [line.partition(":")[2].strip() for line in cpuinfo if line.startswith("model name")]
    with open("/proc/meminfo", encoding="ascii") as meminfo:
        memory_gib = int(meminfo.readline().split()[1]) / 1024 / 1024
    model = models[0] if models else "unknown CPU"
    return (
        f"{os.cpu_count()} × {model}, {memory_gib:.0f} GiB, Linux {os.uname().release}, Python {sys.version.split()[0]}"
    )


def progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


class Progress:
    """The progress of a long step: a line every few seconds. A total of 0 is unknown."""

    def __init__(self, step: str, total: int, pid: int) -> None:
        self._step = step
        self._total = total
        self._pid = pid
        self._seen = 0
        self._seen_at_s = time.monotonic()

    def reached(self, count: int) -> None:
        now_s = time.monotonic()
        if now_s - self._seen_at_s < PROGRESS_S:
            return
        rate = (count - self._seen) / (now_s - self._seen_at_s)
        memory_mib = resident_kib(self._pid) / 1024
        of_total = f" of {self._total:,}" if self._total else ""
        progress(f"{self._step}: {count:,}{of_total}, {rate:,.0f}/s, {memory_mib:,.0f} MiB resident")
        self._seen, self._seen_at_s = count, now_s
