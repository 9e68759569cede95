"""The measurement of `bench/reconcile`, in an interpreter that has Spark.

Not here: its arguments; the ledgers (`planted_ledgers.py`).
"""

import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from measure import families, machine, progress
from planted_ledgers import DAY, FAULTS, fault_of
from pyarrow import dataset

LOOK_EVERY_S = 0.5
DESCRIPTION = """
key = "order_id"
amounts = ["amount"]
compared = ["currency"]
authority = "orders"
grace = "2h"

[ledgers.orders]
source = "parquet"
path = "orders"
time = "at"

[ledgers.payments]
source = "parquet"
path = "payments"
time = "at"
"""


def measure(rows: int, memory: str) -> int:
    with tempfile.TemporaryDirectory(prefix="warren-reconcile-") as name:
        folder = Path(name)
        began_s = time.monotonic()
        subprocess.run(
            [sys.executable, str(Path(__file__).with_name("planted_ledgers.py")), name, str(rows)], check=True
        )
        progress(f"ledgers written in {time.monotonic() - began_s:.0f} s: {_gib(folder):.1f} GiB")
        (folder / "ledgers.toml").write_text(DESCRIPTION)
        took_s, peak_bytes, exit_code = _reconcile(folder, memory)
        if exit_code != 1:
            print(f"reconcile: it ended with {exit_code}, and not with 1 for differences", file=sys.stderr)
            return 1
        wrong = _wrong(folder / "out", rows)
        print(f"{machine()}. {rows:,} and {rows:,} rows, a heap of {memory}.\n\n| | |\n|---|---:|")
        print(f"| took | {took_s:.0f} s |\n| rows/s | {2 * rows / took_s:,.0f} |")
        print(f"| peak of resident memory | {peak_bytes / 2**30:.1f} GiB |")
        print(f"| planted | {rows // 1000 * len(FAULTS):,} |")
        print(f"| found, each as it was planted | {'no' if wrong else 'yes'} |")
        for sentence in wrong:
            print(f"reconcile: {sentence}", file=sys.stderr)
        return 1 if wrong else 0


def _reconcile(folder: Path, memory: str) -> tuple[float, int, int]:
    """How long it took, the most memory it had, and its exit code."""
    warren = str(Path(sys.executable).with_name("warren"))
    local = f"spark.local.dir={folder}/local"
    command = [
        warren,
        "pipeline",
        "reconcile",
        str(folder / "ledgers.toml"),
        "--day",
        DAY,
        "--out",
        str(folder / "out"),
    ]
    began_s = time.monotonic()
    process = subprocess.Popen([*command, "--memory", memory, "--conf", local], stdout=sys.stderr)
    peak = 0
    while process.poll() is None:
        peak = max(peak, sum(_resident_bytes(pid) for pid in families([process.pid])))
        time.sleep(LOOK_EVERY_S)
    return time.monotonic() - began_s, peak, process.returncode


def _resident_bytes(pid: int) -> int:
    try:
        found = re.search(r"^VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    except OSError:
        return 0
    return int(found[1]) * 1024 if found else 0


def _wrong(out: Path, rows: int) -> list[str]:
    """The faults that differ from the planted ones."""
    data = out / "data" / json.loads((out / "table.json").read_text())["data"]
    table = dataset.dataset(data, format="parquet", exclude_invalid_files=True).to_table(columns=["key", "status"])
    found = dict(zip(table["key"].to_pylist(), table["status"].to_pylist(), strict=True))
    wrong = [
        f"{key} is called {status}, and is {fault_of(int(key[-10:]))}"
        for key, status in found.items()
        if status != fault_of(int(key[-10:]))
    ]
    planted = Counter(FAULTS)
    if len(found) != table.num_rows:
        wrong.append(f"{table.num_rows - len(found)} keys are there twice")
    counted = Counter(found.values())
    for status, each in planted.items():
        if counted[status] != each * rows // 1000:
            wrong.append(f"{status}: {counted[status]:,} found of {each * rows // 1000:,}")
    counts = json.loads((out / "summary.json").read_text())["counts"]
    if counts["balanced"] != rows - rows // 1000 * len(FAULTS):
        wrong.append(f"{counts['balanced']:,} in balance of {rows - rows // 1000 * len(FAULTS):,}")
    return wrong[:10]


def _gib(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 2**30
