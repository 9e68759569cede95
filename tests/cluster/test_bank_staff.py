"""Whether the bank example tells an exit that is excused from one that is not: real processes of its staff.

Not here: the example itself (`test_bank`), whether its books balance (`test_bank_books`).
"""

import contextlib
import importlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "bank"
NOBODY = "postgresql+psycopg://bank@127.0.0.1:1/postgres"
BROKER = "amqp://127.0.0.1:1?connection_attempts=1"
DEADLINE_S = 60.0


@pytest.fixture
def staffing(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    return importlib.import_module("staff")


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_who_finds_no_broker_is_excused(staffing: ModuleType, tmp_path: Path) -> None:
    relay = staffing.Post("relay-1", ("relay", "--database", NOBODY, "--broker", BROKER))
    with staffing.Staff(tmp_path, [relay]) as staff:
        until(lambda: staff.found_nobody["relay-1"] > 0)
        staff.check()


def test_any_other_exit_fails_the_run_with_the_end_of_its_log(staffing: ModuleType, tmp_path: Path) -> None:
    with staff_that_failed(staffing, tmp_path) as staff:
        until(lambda: has_failed(staffing, staff))
        with pytest.raises(staffing.StaffFailed, match=r"(?s)relay-1 ended with 1.*ArgumentError"):
            staff.check()
        staff.__exit__(ZeroDivisionError, None, None)
        with pytest.raises(staffing.StaffFailed, match="relay-1 ended with 1"):
            staff.__exit__(None, None, None)


@contextlib.contextmanager
def staff_that_failed(staffing: ModuleType, logs: Path) -> Iterator[Any]:
    """One process, which ends at once; whoever leaves has left before."""
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
