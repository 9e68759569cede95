"""Names that others have chosen, on a terminal and in a pipe."""

import io
from collections.abc import Callable
from contextlib import redirect_stdout

import pytest

from warren.cli.ctl import output
from warren.cli.ctl.catalog import VERBS
from warren.cli.ctl.verb import Options, Rows, VerbCall
from warren.cli.journal_report import show_salvage
from warren.cli.terminal import say

HOSTILE = "\x1b[2J\x1b]0;owned\x07 \x9b31m \u202etxt \r over =1+1"
SHOWN = r"\x1b[2J\x1b]0;owned\x07 \x9b31m \u202etxt \r over =1+1"
UNSEEN = ("\x1b]", "\x1b[2", "\x07", "\x9b", "\u202e", "\r")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def on_a_terminal(print_something: Callable[[], None]) -> str:
    terminal = Terminal()
    with redirect_stdout(terminal):
        print_something()
    return terminal.getvalue()


def test_a_terminal_gets_control_characters_escaped_and_own_headings_bold() -> None:
    shown = on_a_terminal(lambda: say(f"\x1b[1mStatus\x1b[0m\n\tname {HOSTILE}"))
    assert shown == f"\x1b[1mStatus\x1b[0m\n\tname {SHOWN}\n"


def test_a_pipe_gets_every_character_unchanged(capsys: pytest.CaptureFixture[str]) -> None:
    say(HOSTILE)
    assert capsys.readouterr().out == f"{HOSTILE}\n"


@pytest.mark.parametrize("formatter", ["table", "pretty_table", "csv", "json", "erlang", None])
def test_no_format_of_ctl_lets_a_name_rule_the_terminal(formatter: str | None) -> None:
    settings = Options(http="", user="", password="", formatter=formatter)
    rows = Rows(["name"], [{"name": HOSTILE}])
    shown = on_a_terminal(lambda: output.write(VerbCall(VERBS["list_queues"], [], settings), rows))
    assert not [letter for letter in UNSEEN if letter in shown]
    assert "owned" in shown


def test_a_journal_with_such_names_is_shown() -> None:
    queue = {"kind": "queue", "vhost": "[/b]", "name": HOSTILE, "messages": 1, "lost_messages": 0}
    stopgap = {"first": 0, "last": 1, "whose": f"stream '{HOSTILE}'"}
    findings = {"queues": [queue], "left_out": [], "stopgaps": [stopgap], "unknown_queues": []}
    shown = on_a_terminal(lambda: show_salvage(findings))
    assert not [letter for letter in UNSEEN if letter in shown]
    assert "[/b]" in shown


def test_a_csv_is_for_scripts_and_has_names_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    """RabbitMQ's format; docs/ctl.md says how to open it in a spreadsheet."""
    settings = Options(http="", user="", password="", formatter="csv")
    output.write(VerbCall(VERBS["list_queues"], [], settings), Rows(["name"], [{"name": '=HYPERLINK("x")'}]))
    assert capsys.readouterr().out == '"name"\n"=HYPERLINK(""x"")"\n'
