"""A pytest plugin that writes each test's outcome as it ends, and a reader of the file.

One JSON line per report, so that results before a hang or a kill still count. A test has passed when its call passed
and neither its set-up nor its tear-down failed. A test that only started has failed. A rerun (pytest-rerunfailures)
replaces the earlier result.

Not here: which tests are expected to pass (`run`).
"""

import json
import os
from pathlib import Path
from typing import Any

VARIABLE = "CONFORMANCE_OUTCOMES"


def _write(test_id: str, phase: str, outcome: str) -> None:
    with open(os.environ[VARIABLE], "a", encoding="utf-8") as record:
        record.write(json.dumps([test_id, phase, outcome]) + "\n")


def pytest_runtest_logstart(nodeid: str) -> None:
    _write(nodeid, "start", "started")


def pytest_runtest_logreport(report: Any) -> None:
    _write(report.nodeid, report.when, report.outcome)


def read(path: Path) -> dict[str, str]:
    """Test id → passed, failed, skipped or started."""
    fates: dict[str, str] = {}
    if not path.exists():
        return fates
    for line in path.read_text(encoding="utf-8").splitlines():
        test_id, phase, outcome = json.loads(line)
        # A test's id may hold line breaks and runs of blanks; the lists hold one id a line.
        test_id = " ".join(test_id.split())
        if outcome in ("failed", "skipped", "started"):
            fates[test_id] = outcome
        elif outcome == "rerun":
            fates[test_id] = "started"
        elif phase == "call" and fates.get(test_id) == "started":
            fates[test_id] = "passed"
    return fates
