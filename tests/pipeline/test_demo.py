"""The worked example in its small form: a cluster that loses its master, every job of the pipeline, books that balance.

Not here: each job for itself, and what becomes of it when it is killed.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "examples" / "orders" / "demo.py"
ORDERS = 400


def runs_of(directory: Path) -> list[str]:
    """The command lines of processes that have to do with a directory."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if str(directory) in words:
                found.append(words)
    return found


@pytest.mark.timeout(900)
def test_the_demo_finds_what_was_planted_and_balances(tmp_path: Path) -> None:
    directory = tmp_path / "demo"
    demo = subprocess.run(
        [sys.executable, str(DEMO), "--orders", str(ORDERS), "--keep", str(directory)],
        capture_output=True,
        text=True,
    )
    assert demo.returncode == 0, demo.stdout + demo.stderr
    assert "it found exactly what was planted: 3 differs, 3 duplicated, 9 missing, 3 unexpected" in demo.stdout
    assert "nothing was sent twice" in demo.stdout
    assert "everything balances" in demo.stdout
    assert runs_of(directory) == []
    assert json.loads((directory / "mended" / "summary.json").read_text())["balanced"] is True
    for page in ("found/report.html", "mended/report.html", "report.html"):
        assert "<html" in (directory / page).read_text()
