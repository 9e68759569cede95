"""The conversations in `conversations/` were recorded from rabbitmqctl 3.10.8; `warren ctl` prints the same.

`$` is a command, `!` a line on standard error, `=` the exit code. In them NODE is the node, <PID> a process, the
program is called by our name, integers are `long` in JSON, and neither bold letters nor the program's own log lines are
kept. The order of the rows of a list is not compared: RabbitMQ has none.
"""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ctl.conftest import Ctl, Said
from tests.ctl.shop import VHOST, open_shop
from tests.node.serving import Serving
from tests.support.command_recordings import RecordedCommand, recorded_commands

CONVERSATIONS = sorted((Path(__file__).parent / "conversations").glob("*.txt"))


@pytest.fixture
def _shop(node: Serving, ctl: Ctl) -> Iterator[None]:
    assert ctl("add_vhost", VHOST).code == 0
    with open_shop(node.address()[1]):
        yield
    assert ctl("delete_vhost", VHOST).code == 0


@pytest.mark.usefixtures("_shop")
@pytest.mark.parametrize("path", CONVERSATIONS, ids=lambda path: path.stem)
def test_a_conversation_goes_as_it_went_with_rabbitmqctl(path: Path, ctl: Ctl) -> None:
    differing = []
    for exchange in recorded_commands(path):
        said = ctl(*shlex.split(exchange.command))
        if not agrees(said, exchange):
            differing.append((exchange, said))
    assert differing == []


def agrees(said: Said, exchange: RecordedCommand) -> bool:
    return (
        said.code == exchange.code
        and rows(said.out) == rows("\n".join(exchange.out))
        and [line.rstrip() for line in said.err.replace("warren@here", "NODE").strip("\n").splitlines()] == exchange.err
    )


def rows(text: str) -> list[str]:
    """Lines without what no two servers have in common, in an order of our own."""
    text = re.sub(r"<(warren@here|NODE)\.[^\t>]*>", "<PID>", text).replace("warren@here", "NODE")
    return sorted(line.removeprefix(",") for line in text.splitlines() if line)
