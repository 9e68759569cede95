"""Without a server: help, refusals and their exit codes, dry runs, and an unreachable server."""

import base64
import hashlib
import io

import pytest

from tests.support.ports import free_port
from warren import __version__
from warren.cli.main import run as run_warren


def run(*words: str) -> int:
    return run_warren(["ctl", *words])


@pytest.fixture(scope="module")
def unused_port() -> int:
    return free_port()


@pytest.fixture(autouse=True)
def _nowhere(monkeypatch: pytest.MonkeyPatch, unused_port: int) -> None:
    """A port without a listener that no outgoing connection gets either."""
    monkeypatch.setenv("WARREN_HTTP", f"http://127.0.0.1:{unused_port}")
    monkeypatch.setattr("sys.stdin", io.StringIO())


@pytest.mark.parametrize(
    ("words", "exit_code", "complaint"),
    [
        (["list_queues", "nosuch", "name", "also"], 64, "Info key(s) also,nosuch are not supported"),
        (["list_queues", "--nosuch"], 64, "Invalid options for this command:\n--nosuch : "),
        (["add_user"], 64, "not enough arguments."),
        (["add_user", "a", "b", "c"], 64, "too many arguments."),
        (["add_user", "", "pw"], 65, "Bad argument: user cannot be an empty string"),
        (
            ["export_definitions", "/nonexistent/dir/file"],
            65,
            "Bad argument: Directory /nonexistent/dir does not exist",
        ),
        (["export_definitions", "x", "--format", "nosuch"], 65, "Bad argument: Format should be either json or erlang"),
        (["import_definitions", "/nonexistent"], 65, "Bad argument: File /nonexistent does not exist"),
        (["set_vm_memory_high_watermark", "abc"], 65, "Bad argument."),
        (
            ["set_vm_memory_high_watermark", "1.5"],
            65,
            "Bad argument: The threshold should be a fraction between 0.0 and 1.0",
        ),
        (["set_vm_memory_high_watermark", "absolute", "abc"], 65, "Bad argument."),
        (["set_disk_free_limit", "abc"], 65, "Bad argument."),
        (["set_disk_free_limit", "mem_relative", "abc"], 65, "Bad argument."),
        (["check_port_listener", "abc"], 65, "Bad argument: Argument must be a positive integer"),
    ],
    ids=str,
)
def test_wrong_usage_prints_the_error_the_arguments_and_the_usage(
    words: list[str], exit_code: int, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*words) == exit_code
    said = capsys.readouterr()
    assert said.out == ""
    given = f"Error (argument validation): {complaint}\nArguments given:\n\t{' '.join(words)}\n\nUsage\n\nwarren ctl "
    assert said.err.startswith(given)
    assert f" {words[0]} " in said.err.splitlines()[-1]


def test_an_unknown_log_level_is_refused_with_the_levels(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("set_log_level", "nosuch") == 69
    levels = "debug, info, warning, error, critical, none"
    assert capsys.readouterr().err == f"Error:\nlevel nosuch is not supported. Try one of {levels}\n"


def test_an_unknown_verb_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list_queus") == 64
    assert capsys.readouterr().err == "\nCommand 'list_queus' not found. \nDid you mean 'list_queues'? \n\n"
    assert run("dance") == 64
    assert "   list_queues " in capsys.readouterr().err


def test_no_verb_at_all_is_a_misuse_and_asking_for_help_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 64
    said = capsys.readouterr()
    assert (said.out, "Available commands:" in said.err) == ("", True)
    assert run("help") == 0
    assert "Available commands:" in capsys.readouterr().out
    assert run("help", "nosuch") == 64
    assert capsys.readouterr().err == "Error:\n\nCommand 'nosuch' not found.\n"


@pytest.mark.parametrize("words", [["help", "list_queues"], ["list_queues", "--help"], ["list_queues", "-?"]], ids=str)
def test_help_of_a_verb_has_its_usage_columns_and_an_example(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*words) == 0
    page = capsys.readouterr().out
    assert "list_queues [--vhost <vhost>] [--online]" in page
    assert "synchronised_slave_pids" in page
    assert "Example: warren ctl list_queues " in page


@pytest.mark.parametrize("words", [["version"], ["--version"]], ids=str)
def test_the_version_needs_no_server(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*words) == 0
    assert capsys.readouterr().out == f"{__version__}\n"


def test_a_prefix_is_completed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("autocomplete", "list_user_") == 0
    assert capsys.readouterr().out.split() == [
        "list_user_limits",
        "list_user_permissions",
        "list_user_topic_permissions",
    ]


def test_a_hashed_password_is_salted_and_is_the_one_definitions_carry(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("-q", "hash_password", "sécret") == 0
    first = base64.b64decode(capsys.readouterr().out)
    assert first[4:] == hashlib.sha256(first[:4] + "sécret".encode()).digest()
    assert run("-q", "hash_password", "sécret") == 0
    assert base64.b64decode(capsys.readouterr().out) != first


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["set_permissions", "-p", "v", "ops", "a", "b", "c"], 'Setting permissions for user "ops" in vhost "v" ...'),
        (["delete_queue", "q"], "Deleting queue 'q' on vhost '/' ..."),
        (
            ["delete_queue", "-e", "-u", "q"],
            "Deleting queue 'q' on vhost '/' if queue is empty and if queue is unused ...",
        ),
        (["set_user_tags", "ops", "a", "b"], 'Setting tags for user "ops" to [a, b] ...'),
        (
            ["set_policy", "-p", "v", "cp", "^x{0}", '{"max-length":10}', "--priority", "5"],
            'Setting policy "cp" for pattern "^x{0}" to "{"max-length":10}" with priority "5" for vhost "v" ...',
        ),
        (["clear_user_limits", "ops", "all"], 'Clearing all limits for user "ops" ...'),
        (["close_all_connections", "-p", "v", "bye"], "Closing all connections in vhost v, reason: bye..."),
    ],
    ids=str,
)
def test_a_dry_run_prints_the_banner_and_sends_nothing(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--dry-run", *words) == 0
    assert capsys.readouterr().out == f"{sentence}\n"


def test_a_server_that_is_not_there_is_unavailable(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list_users") == 69
    assert capsys.readouterr().err.startswith("Error: unable to perform an operation on node 'http://127.0.0.1:")
    assert run("ping", "-q") == 69
    assert "Failed to connect and authenticate to http://127.0.0.1:" in capsys.readouterr().err
    assert run("--http", "ftp://somewhere", "list_users") == 69
    assert "it must begin with http:// or https://" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["await_startup", "--timeout", "1"], ["list_users", "-t", "0"]], ids=str)
def test_waiting_too_long_is_a_failure_of_its_own(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*words) == 75
    last = capsys.readouterr().err
    assert last.startswith(f"Error: operation {words[0]} on node http://127.0.0.1:")
    assert last.endswith(f" timed out. Timeout value used: {words[2]}\n")


@pytest.mark.parametrize(("verb", "exit_code"), [("add_user", 65), ("change_password", 70)])
def test_without_a_password_or_an_input_there_is_none(
    verb: str, exit_code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("-q", verb, "ops") == exit_code
    said = capsys.readouterr()
    assert said.out == "Password: \n"
    assert said.err == "Error:\nPassword is not provided via argument or stdin\n"
