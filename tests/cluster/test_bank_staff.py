"""The bank example distinguishes excused exits of its processes from others: real processes of its staff.

Not here: the example itself (`test_bank`), whether its books balance (`test_bank_books`).
"""

import contextlib
import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.deadlines import eventually

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "bank"
NO_DATABASE = "postgresql+psycopg://bank@127.0.0.1:1/postgres"
BROKER = "amqp://127.0.0.1:1?connection_attempts=1"


@pytest.fixture
def staffing(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    return importlib.import_module("staff")


def test_an_exit_without_a_broker_is_excused(staffing: ModuleType, tmp_path: Path) -> None:
    relay = staffing.Post("relay-1", ("relay", "--database", NO_DATABASE, "--broker", BROKER))
    with staffing.Staff(tmp_path, [relay]) as staff:
        eventually(lambda: staff.found_nobody["relay-1"] > 0)
        staff.check()


def test_any_other_exit_fails_the_run_with_the_end_of_its_log(staffing: ModuleType, tmp_path: Path) -> None:
    with staff_that_failed(staffing, tmp_path) as staff:
        eventually(lambda: has_failed(staffing, staff))
        with pytest.raises(staffing.StaffFailed, match=r"(?s)relay-1 ended with 1.*ArgumentError"):
            staff.check()
        staff.__exit__(ZeroDivisionError, None, None)
        with pytest.raises(staffing.StaffFailed, match="relay-1 ended with 1"):
            staff.__exit__(None, None, None)


@contextlib.contextmanager
def staff_that_failed(staffing: ModuleType, logs: Path) -> Iterator[Any]:
    """One process, which ends at once."""
    staff = staffing.Staff(logs, [staffing.Post("relay-1", ("relay", "--database", "no such thing"))])
    staff.__enter__()
    try:
        yield staff
    finally:
        staff.__exit__(Exception, None, None)


def has_failed(staffing: ModuleType, staff: Any) -> bool:
    try:
        staff.check()
    except staffing.StaffFailed:
        return True
    return False
