"""The shape of a configuration file."""

from pathlib import Path

import pytest

from warren.errors import ConfigError
from warren.node.config.settings import parse_settings, read_settings_file


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("default_pass = word", "word"),
        ("  default_pass=word  ", "word"),
        ("default_pass\t=\tword", "word"),
        ("default_pass = word # why", "word"),
        ("default_pass = word#why", "word"),
        ("default_pass = a word of several", "a word of several"),
        ("default_pass = a=b", "a=b"),
        ("default_pass = 'with # and spaces ' # why", "with # and spaces "),
        ('default_pass = "with # inside"', "with # inside"),
        ("default_pass = ''", ""),
        ("default_pass = it's", "it's"),
        ("default_pass = 'half", "'half"),
        ("default_pass = word\r", "word"),
    ],
)
def test_a_value_is_the_text_between_the_equals_sign_and_the_comment(line: str, value: str) -> None:
    assert [setting.value for setting in parse_settings(line, "f")] == [value]


def test_comments_and_empty_lines_are_passed_over_and_lines_are_counted() -> None:
    settings = parse_settings("# a comment\n\n   ## another\nheartbeat = 5\n\nframe_max = 4096\n", "my.conf")
    assert [(setting.key, setting.where) for setting in settings] == [
        ("heartbeat", "my.conf line 4"),
        ("frame_max", "my.conf line 6"),
    ]


@pytest.mark.parametrize("line", ["heartbeat", "heartbeat 60", "= 60", "heart beat = 60"])
def test_a_line_of_another_form_is_refused_with_its_number(line: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        parse_settings(f"frame_max = 4096\n{line}\n", "my.conf")
    assert str(refusal.value) == "my.conf line 2 is not of the form key = value"


def test_a_key_without_a_value_is_refused() -> None:
    with pytest.raises(ConfigError) as refusal:
        parse_settings("heartbeat =  # none", "my.conf")
    assert str(refusal.value) == "my.conf line 1 gives heartbeat no value"


@pytest.mark.parametrize("start", ["[{rabbit, [{heartbeat, 5}]}].", "[", "%% comment\n[{rabbit, []}].", "{key, 1}."])
def test_the_classic_erlang_format_is_refused_by_name(start: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        parse_settings(f"\n{start}\n", "rabbitmq.config")
    assert str(refusal.value) == (
        "rabbitmq.config line 2 is in RabbitMQ's classic Erlang format, which Warren does not read; "
        "write it as key = value lines"
    )


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for path, reason in [
        (tmp_path / "absent", "cannot be read: No such file or directory"),
        (tmp_path, "cannot be read: Is a directory"),
        (tmp_path / "binary", "is not UTF-8 text"),
    ]:
        with pytest.raises(ConfigError) as refusal:
            read_settings_file(str(path))
        assert str(refusal.value) == f"the configuration file {path} {reason}"
