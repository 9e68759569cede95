"""A node, and `warren ctl` that talks to it."""

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.node.serving import Serving
from warren.cli.main import run


@dataclass(frozen=True)
class Said:
    """What one command printed, and its exit code."""

    code: int
    out: str
    err: str


Ctl = Callable[..., Said]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    serving = start_node(tmp_path_factory.mktemp("node"))
    yield serving
    serving.end()


def start_node(directory: Path) -> Serving:
    return Serving(directory, "--name", "warren@here", "--amqp", "127.0.0.1:0", "--http", "127.0.0.1:0")


@pytest.fixture
def ctl(node: Serving, monkeypatch: pytest.MonkeyPatch) -> Ctl:
    """Runs one command line, with an empty standard input unless `typed` is given."""
    return speaking_to(node, monkeypatch)


def speaking_to(node: Serving, monkeypatch: pytest.MonkeyPatch) -> Ctl:
    host, port = node.address("http")
    monkeypatch.setenv("WARREN_HTTP", f"http://{host}:{port}")

    def call(*words: str, typed: str = "") -> Said:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed.encode())))
        with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
            code = run(["ctl", *words])
        return Said(code, out.getvalue(), err.getvalue())

    return call
