"""Command lines as rabbitmqctl takes them: options anywhere, values attached or not, errors reported together."""

import io

import pytest

from warren.cli.ctl.api import UsageFailure
from warren.cli.ctl.catalog import VERBS
from warren.cli.ctl.command_line import CommandLine, read


def line_of(*words: str) -> CommandLine:
    return read(list(words), VERBS)


@pytest.mark.parametrize(
    "words",
    [
        ["-p", "v2", "-q", "list_queues", "name", "messages"],
        ["list_queues", "-p", "v2", "name", "-q", "messages"],
        ["list_queues", "name", "messages", "--vhost", "v2", "--quiet"],
        ["list_queues", "--vhost=v2", "--quiet", "name", "messages"],
    ],
    ids=" ".join,
)
def test_options_go_before_or_after_the_verb_and_between_its_arguments(words: list[str]) -> None:
    line = line_of(*words)
    assert (line.verb, line.arguments, line.invalid) == ("list_queues", ["name", "messages"], [])
    options = line.options({})
    assert (options.vhost, options.quiet) == ("v2", True)


def test_a_verb_s_own_option_after_it_goes_before_the_one_of_all_verbs() -> None:
    line = line_of("--user", "ops", "list_user_limits", "--user", "mon")
    assert line.options({}).user == "ops"
    assert line.own == {"user": "mon"}
    assert line_of("list_users", "--user", "ops").options({}).user == "ops"


def test_short_options_of_a_verb_are_its_own() -> None:
    assert line_of("delete_queue", "-e", "-u", "q").own == {"if-empty": True, "if-unused": True}


def test_a_number_below_zero_and_a_dash_are_arguments() -> None:
    line = line_of("set_policy", "--priority", "-5", "a", "-1", "-")
    assert line.own == {"priority": -5}
    assert line.arguments == ["a", "-1", "-"]


def test_after_two_dashes_everything_is_an_argument() -> None:
    line = line_of("add_user", "ops", "--", "--secret")
    assert (line.arguments, line.invalid) == (["ops", "--secret"], [])


@pytest.mark.parametrize(
    ("words", "complaints"),
    [
        (["list_queues", "--nosuch"], ["--nosuch : "]),
        (["list_queues", "-x"], ["-x : "]),
        (["list_queues", "-p"], ["-p : "]),
        (["list_queues", "--timeout", "abc"], ["--timeout : abc"]),
        (["set_policy", "--priority", "abc", "--nosuch"], ["--priority : abc", "--nosuch : "]),
        (["list_users", "--formatter", "nosuch"], ["--formatter : nosuch"]),
        (["list_users", "--priority", "5"], ["--priority : "]),
    ],
    ids=str,
)
def test_all_unknown_options_are_reported_together(words: list[str], complaints: list[str]) -> None:
    with pytest.raises(UsageFailure) as refused:
        line_of(*words).refuse_invalid()
    assert refused.value.exit_code == 64
    assert refused.value.text == "\n".join(["Invalid options for this command:", *complaints])


def test_url_and_user_come_from_the_environment_unless_an_option_has_them() -> None:
    environment = {"WARREN_HTTP": "https://one", "WARREN_USER": "ops", "WARREN_PASSWORD": "s"}
    options = line_of("list_users").options(environment)
    assert (options.http, options.user, options.password) == ("https://one", "ops", "s")
    options = line_of("list_users", "--http", "two:1", "--user", "me", "--password", "").options(environment)
    assert (options.http, options.user, options.password) == ("two:1", "me", "")
    options = line_of("list_users").options({})
    assert (options.http, options.user, options.password) == ("http://127.0.0.1:15672", "guest", "guest")


def test_a_dash_for_a_password_is_read_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("from the pipe\n"))
    assert line_of("list_users", "--password", "-").options({}).password == "from the pipe"


@pytest.mark.parametrize("words", [["--password", "s3cret"], ["--password=s3cret"]], ids=str)
def test_the_operator_s_password_is_not_repeated_in_a_complaint(words: list[str]) -> None:
    assert "s3cret" not in " ".join(line_of(*words, "list_users", "--nosuch").shown)
