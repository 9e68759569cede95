"""The bank example in its small form: a teller and a bank under random kills of processes, brokers and databases.

`WARREN_BANK_MINUTES` makes it longer.

Not here: single crashes (docs/crashes.md names those tests), whether the checks find errors (`test_bank_books`).
"""

import os
import re
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RUN = ROOT / "examples" / "bank" / "run.py"
MINUTES = float(os.environ.get("WARREN_BANK_MINUTES", "1"))
KINDS = (
    "broker master killed",
    "consumer killed",
    "database connections cut",
    "database crashed",
    "process paused beyond its lease",
    "queue purged by mistake",
    "receipts delayed",
    "receipts' listener and chaser killed",
    "relay killed",
    "teller killed",
)
AT_WORK = ("consumer killed", "process paused beyond its lease", "receipts' listener and chaser killed", "relay killed")
EFFECTS = (
    ("bank: duplicates that the inbox knew",),
    ("teller: messages published", r"[\d,]+ times, ([\d,]+) of them"),
    ("teller: withdrawals paid out",),
    ("teller: reversed",),
    ("teller: confirmations, reversals", r"([\d,]+), [\d,]+"),
    ("teller: confirmations, reversals", r"[\d,]+, ([\d,]+)"),
    ("bank: struck",),
    ("bank: booked in their order",),
)


def processes_with(mark: str) -> list[str]:
    """The processes with this mark in their environment: all processes of a run inherit it."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if mark.encode() in (entry / "environ").read_bytes():
                    found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
            except OSError:
                continue
    return found


def figure(said: str, name: str, pattern: str = r"(\S+)") -> int:
    """The number in this row of the final table."""
    found = re.search(rf"^{re.escape(name)} +{pattern}", said, re.MULTILINE)
    assert found is not None, f"{name} is not in the table:\n{said}"
    return int(found[1].replace(",", ""))


@pytest.mark.timeout(900 + 120 * MINUTES)
def test_both_ledgers_balance_to_the_cent_although_processes_are_killed(tmp_path: Path) -> None:
    directory = tmp_path / "bank"
    mark = uuid.uuid4().hex
    run = subprocess.run(
        [sys.executable, str(RUN), "--minutes", str(MINUTES), "--keep", str(directory)],
        env=os.environ | {"MARK_OF_THE_RUN": mark},
        capture_output=True,
        text=True,
    )
    said = run.stdout + run.stderr
    print(said)
    assert run.returncode == 0, said
    for kind in KINDS:
        assert figure(said, kind) > 0, said
    for kind in AT_WORK:
        assert figure(said, kind, r"\d+ times, (\d+) of them while it was at work") > 0, said
    assert "\nin balance\n" in said
    assert "both ledgers balance to the cent" in said
    # the faults had consequences: messages sent again, deposits confirmed, withdrawals paid out, reversed and struck
    for effect in EFFECTS:
        assert figure(said, *effect) > 0, said
    assert processes_with(mark) == []
    # the ledgers have the customers' operations, and are not empty
    assert len((directory / "accepted.txt").read_text().split()) > 200 * MINUTES
