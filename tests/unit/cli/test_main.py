"""The command line: help, and the sentence and exit code of every refusal."""

from pathlib import Path

import pytest

from warren import __version__
from warren.cli.main import run

COMMANDS = ["serve", "sim", "journal", "ctl", "client", "version"]


def test_warren_alone_prints_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("Usage: warren")
    assert all(f"  {command} " in printed for command in COMMANDS)


@pytest.mark.parametrize(
    "arguments", [[], *([command] for command in COMMANDS), ["journal", "inspect"], ["journal", "salvage"]], ids=str
)
def test_every_help_has_an_example(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*arguments, "--help"]) == 0
    assert f"Example: {' '.join(['warren', *arguments])}" in capsys.readouterr().out


def test_the_version_says_which_core_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["version"]) == 0
    words = capsys.readouterr().out.split()
    assert words[:2] == ["warren", __version__]
    assert words[2] in ("core=compiled", "core=pure")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["dance"], "No such command 'dance'."),
        (["serve", "--join", "mole:25672", "--join", "hare:x"], "--join must be HOST or HOST:PORT"),
        (["serve", "--ram", "--peer", "here"], "--peer must be PORT or HOST:PORT"),
        (["serve", "--witness", "--ram"], "a witness keeps definitions on its disk, and a RAM node does not"),
        (["serve", "extra"], "extra"),
        (["serve", "--amqp"], "--amqp"),
        (["serve", "--amqp", "here"], "--amqp must be PORT or HOST:PORT, with a port from 0 to 65535, not 'here'"),
        (["serve", "--amqp", "127.0.0.1:99999"], "--amqp must be PORT or HOST:PORT"),
        (["serve", "--name", "a b", "--amqp", "127.0.0.1:0"], "--name must be NAME or NAME@HOST"),
        (
            ["serve", "--config", "/nowhere/x.conf"],
            "the configuration file /nowhere/x.conf cannot be read: No such file",
        ),
        (["serve", "--amqp", "127.0.0.1:0", "--data", "/dev/null"], "--data /dev/null is not a directory"),
        (["sim"], "Missing option '--seed'"),
        (["journal"], "Missing command."),
        (["journal", "inspect"], "Missing argument 'DIR'"),
        (["journal", "inspect", "/dev", "--segment", "1"], "--segment N goes with --records"),
        (["journal", "inspect", "/dev"], "/dev is not a data directory of Warren"),
        (["journal", "salvage", "/dev"], "/dev is not a data directory of Warren"),
        (["sim", "--seed", "x"], "Invalid value for '--seed'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_is_one_sentence_and_exit_code_two(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("warren: ")
    assert printed.err.count("\n") == 1
    assert sentence in printed.err


def test_flags_are_read_from_the_environment_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("WARREN_CONFIG", str(tmp_path / "absent.conf"))
    assert run(["serve"]) == 2
    assert "absent.conf cannot be read" in capsys.readouterr().err
