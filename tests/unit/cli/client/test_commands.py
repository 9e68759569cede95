"""Output and exit codes of `warren client`."""

from pathlib import Path

import pytest

from tests.support.ports import free_port
from warren.cli.main import run

WELL = """
[connection]
user = "shop"
password = "${WARREN_TEST_IS_NOT_SET}"
vhost = "SHOP_VHOST"

[[queues]]
name = "SHOP_QUEUE"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "shop.toml"
    path.write_text(WELL)
    return path


@pytest.mark.parametrize("command", ["lint", "check"])
def test_every_help_has_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["client", command, "--help"]) == 0
    assert f"Example: warren client {command} shop.toml" in capsys.readouterr().out


def test_names_that_keep_to_the_convention_are_well_and_need_no_secrets(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["client", "lint", str(file)]) == 0
    assert capsys.readouterr().out == f"{file}: all names follow the convention\n"


def test_names_that_do_not_are_listed(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(WELL.replace("SHOP_QUEUE", "orders") + '[template]\nexchange = "SHOP_EXCHANGE"\n')
    assert run(["client", "lint", str(file)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "exchange SHOP_EXCHANGE: say the direction, as SENDER_TO_RECEIVER_EXCHANGE (direction)",
        "queue orders: use upper-case letters, digits and single underscores, a letter first (case)",
        f"{file}: 2 findings",
    ]


@pytest.mark.parametrize(
    ("command", "text", "said"),
    [
        ("lint", "[template]\nwindw = 1", "template.windw is not known"),
        ("check", WELL, "connection.password needs the environment variable 'WARREN_TEST_IS_NOT_SET'"),
    ],
)
def test_a_file_that_makes_no_sense_is_wrong_usage(
    command: str, text: str, said: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(text)
    assert run(["client", command, str(file)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"warren: {file}: {said}")


def test_a_broker_that_cannot_be_asked_is_a_failure(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    port = free_port()
    file.write_text(f'connection = {{ hosts = ["127.0.0.1:{port}"] }}')
    assert run(["client", "check", str(file)]) == 1
    assert capsys.readouterr().err == f"warren: cannot connect to 127.0.0.1:{port}: connection refused\n"
