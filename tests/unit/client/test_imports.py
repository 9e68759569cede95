"""The modules that a small part of the client imports: Spark imports it in every process that it starts."""

import json
import subprocess
import sys

import pytest

HEAVY = ["warren.client.channel", "warren.client.connection", "warren.client.connection", "warren.wire.properties"]


def imported_by(statement: str) -> list[str]:
    """The modules that a process has which has executed this and nothing else."""
    program = f"import json, sys\n{statement}\nprint(json.dumps(sorted(sys.modules)))"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    found: list[str] = json.loads(ended.stdout)
    return found


@pytest.mark.parametrize(
    "statement",
    ["from warren.client.uri import parse_uri", "from warren.client import UriError", "import warren.spark.options"],
)
def test_urls_and_errors_need_no_connections(statement: str) -> None:
    assert [name for name in imported_by(statement) if name in HEAVY] == []


def test_connect_imports_the_connection_modules() -> None:
    assert set(HEAVY) <= set(imported_by("from warren.client import connect"))


def test_a_missing_name_raises_pythons_own_error() -> None:
    with pytest.raises(ImportError, match=r"cannot import name 'nobody' from 'warren\.client'"):
        exec("from warren.client import nobody")
