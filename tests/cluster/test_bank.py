"""The bank example in its small form: a teller and a bank whose processes, brokers and databases are killed by chance.

`WARREN_BANK_MINUTES` makes it longer.

Not here: each crash for itself (docs/crashes.md names those tests), whether the checks see what is wrong
(`test_bank_books`).
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RUN = ROOT / "examples" / "bank" / "run.py"
MINUTES = float(os.environ.get("WARREN_BANK_MINUTES", "1"))
KINDS = (
    "relay killed",
    "consumer killed",
    "receipts' listener and chaser killed",
    "broker master killed",
    "database connections cut",
    "database crashed",
)


def processes_of(words: str) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if words in line:
                found.append(line)
    return found


@pytest.mark.timeout(900 + 120 * MINUTES)
def test_both_ledgers_balance_to_the_cent_whatever_is_killed(tmp_path: Path) -> None:
    directory = tmp_path / "bank"
    run = subprocess.run(
        [sys.executable, str(RUN), "--minutes", str(MINUTES), "--keep", str(directory)], capture_output=True, text=True
    )
    said = run.stdout + run.stderr
    assert run.returncode == 0, said
    for kind in KINDS:
        assert f"\n{kind} " in said, said
    assert "\nin balance\n" in said
    assert "both ledgers balance to the cent" in said
    assert processes_of(str(directory)) == []
    # what was reconciled is what customers did, and not two empty ledgers
    assert len((directory / "accepted.txt").read_text().split()) > 200 * MINUTES
