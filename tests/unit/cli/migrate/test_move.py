"""The operator's terminal during a transfer."""

import contextlib
import os
import pty
import sys
from collections.abc import Iterator

import pytest

from warren.cli.migrate import transfer
from warren.cli.migrate.move import EnterKeyListener
from warren.cli.migrate.transfer import TransferProgress


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The write end of a pipe that is standard input."""
    reading, writing = os.pipe()
    with os.fdopen(reading) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield writing


def test_each_line_counts_once_even_if_two_come_together(keyboard: int) -> None:
    listener = EnterKeyListener()
    assert not listener.enter_pressed()
    os.write(keyboard, b"\nyes\n")
    assert [listener.enter_pressed() for _ in range(3)] == [True, True, False]
    os.close(keyboard)


def test_after_the_end_of_input_no_line_comes(keyboard: int) -> None:
    listener = EnterKeyListener()
    os.close(keyboard)
    assert [listener.enter_pressed() for _ in range(2)] == [False, False]


def test_elsewhere_than_on_a_terminal_lines_say_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(transfer, "LINE_EVERY_S", 0.0)
    with TransferProgress() as shown:
        shown.reach(0, 3000, 2)
        shown.print_line("the shovel of queue 'a' in '/' is terminated: [nobody] listens")
    assert capsys.readouterr().err == (
        "contents: 0 of 3000, 0 a second, unknown time left, 2 queues to go\n"
        "the shovel of queue 'a' in '/' is terminated: [nobody] listens\n"
    )


def all_of(terminal: int) -> str:
    """Everything that was written to a terminal whose other end is closed."""
    written = b""
    with contextlib.suppress(OSError):
        while part := os.read(terminal, 65_536):
            written += part
    os.close(terminal)
    return written.decode()


def test_a_terminal_has_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        with TransferProgress() as shown:
            shown.reach(500, 1500, 1)
    drawn = all_of(ours)
    assert "━" in drawn
    assert "500 of 2000, 0 a second, unknown time left, 1 queues to go" in drawn
