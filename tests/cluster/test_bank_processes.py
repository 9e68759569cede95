"""The bank example distinguishes excused exits of its processes from others; real processes show it.

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
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    return importlib.import_module("processes")


def test_an_exit_without_a_broker_is_excused(module: ModuleType, tmp_path: Path) -> None:
    relay = module.ProcessSpec("relay-1", ("relay", "--database", NO_DATABASE, "--broker", BROKER))
    with module.Processes(tmp_path, [relay]) as processes:
        eventually(lambda: processes.unavailable["relay-1"] > 0)
        processes.check()


def test_any_other_exit_fails_the_run_with_the_end_of_its_log(module: ModuleType, tmp_path: Path) -> None:
    with failed_processes(module, tmp_path) as processes:
        eventually(lambda: has_failed(module, processes))
        with pytest.raises(module.ProcessFailed, match=r"(?s)relay-1 ended with 1.*ArgumentError"):
            processes.check()
        processes.__exit__(ZeroDivisionError, None, None)
        with pytest.raises(module.ProcessFailed, match="relay-1 ended with 1"):
            processes.__exit__(None, None, None)


@contextlib.contextmanager
def failed_processes(module: ModuleType, logs: Path) -> Iterator[Any]:
    """One process, which ends at once."""
    processes = module.Processes(logs, [module.ProcessSpec("relay-1", ("relay", "--database", "no such thing"))])
    processes.__enter__()
    try:
        yield processes
    finally:
        processes.__exit__(Exception, None, None)


def has_failed(module: ModuleType, processes: Any) -> bool:
    try:
        processes.check()
    except module.ProcessFailed:
        return True
    return False
