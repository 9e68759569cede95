"""The real rabbitmqadmin 3.10 behaves with a Warren node as with RabbitMQ 3.10.8.

`rabbitmqadmin/conversation.txt` is the recording: `$` is a command, `!` a line on standard error, `=` the exit
code; FOLDER is a folder. `rabbitmqadmin/columns.txt` has the columns of each list. The script comes from Debian's
package, which is unpacked and not installed (`tools/setup`).
"""

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pika
import pytest

from tests.admin.calling import Api, connected
from tests.support.command_recordings import RecordedCommand, recorded_commands
from tests.support.node_process import NodeProcess

ROOT = Path(__file__).parents[2]
PLACES = (ROOT / "build/debian/usr/bin/rabbitmqadmin", Path("/usr/bin/rabbitmqadmin"))
RECORDED = Path(__file__).parent / "rabbitmqadmin"
STAGE = Path(__file__).parent / "recorded" / "stage.json"
TIMEOUT_S = 30
REASON = "CONNECTION_FORCED - Closed via management plugin"


Admin = Callable[..., RecordedCommand]


@pytest.fixture(scope="module")
def admin(api: Api) -> Admin:
    """Runs one command line."""
    script = next((place for place in PLACES if place.exists()), None)
    assert script is not None, (
        "there is no rabbitmqadmin: tools/setup test unpacks it, if it can reach Debian's packages"
    )
    options = ["--host", api.host, "--port", str(api.port), "--username", "guest", "--password", "guest"]

    def run(command: str, typed: str = "") -> RecordedCommand:
        words = [sys.executable, str(script), *options, *shlex.split(command)]
        done = subprocess.run(words, input=typed, capture_output=True, text=True, timeout=TIMEOUT_S)
        return RecordedCommand(command, lines(done.stdout), lines(done.stderr), done.returncode)

    return run


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip("\n").splitlines()]


def test_a_conversation_goes_as_it_went_with_rabbitmq(admin: Admin, tmp_path: Path) -> None:
    differing = []
    for recorded in recorded_commands(RECORDED / "conversation.txt"):
        said = admin(recorded.command.replace("FOLDER", str(tmp_path)))
        said.command = recorded.command
        said.out = [line.replace(str(tmp_path), "FOLDER") for line in said.out]
        if said != recorded:
            differing.append((recorded, said))
    assert differing == []
    assert len((tmp_path / "payload.bin").read_bytes()) == 2
    assert "bindings" in json.loads((tmp_path / "ra_export.json").read_text())


def test_every_list_has_the_columns_it_has_with_rabbitmq(node: NodeProcess, api: Api, admin: Admin) -> None:
    assert api.call("POST", "definitions", STAGE.read_bytes()).status == 204
    with connected(node) as connection:
        connection.channel().basic_consume("q.load", lambda *_: None)
        for recorded in recorded_commands(RECORDED / "columns.txt"):
            said = admin(recorded.command)
            assert said.code == 0, said
            header, rows = said.out[1], said.out[3:-1]
            assert columns(header) == recorded.out[0].split()
            assert rows, recorded.command


def columns(header: str) -> list[str]:
    return [name.strip() for name in header.strip("|").split("|")]


@pytest.mark.parametrize("form", ["tsv", "kvp", "long", "raw_json", "pretty_json", "bash", "table"])
def test_lists_come_in_every_format(api: Api, admin: Admin, form: str) -> None:
    assert api.call("PUT", "queues/%2F/formatted", {"durable": True}).status in (201, 204)
    said = admin(f"-f {form} list queues name messages")
    assert said.code == 0
    assert any("formatted" in line for line in said.out)


def test_a_typed_message_is_published_and_got(api: Api, admin: Admin) -> None:
    api.call("PUT", "queues/%2F/typed", {})
    assert admin("publish routing_key=typed", typed="from standard input").out == ["Message published"]
    got = admin("-f raw_json get queue=typed ackmode=ack_requeue_false")
    [message] = json.loads("".join(got.out))
    assert (message["payload"], message["redelivered"]) == ("from standard input", False)


def test_a_connection_is_closed(node: NodeProcess, api: Api, admin: Admin) -> None:
    connection = connected(node)
    [row] = api.read("connections?columns=name")
    assert admin(f'close connection name="{row["name"]}"').out == ["connection closed"]
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        connection.channel()
    assert (closed.value.reply_code, closed.value.reply_text) == (320, REASON)


def test_a_wrong_password_is_said_to_be_wrong(admin: Admin) -> None:
    said = admin("--password wrong list queues")
    assert (said.code, said.err) == (1, ["*** Access refused: /api/queues?columns=name,messages"])
