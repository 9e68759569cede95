"""The requests in `recorded/` were made of RabbitMQ 3.10.8's HTTP API; a node of ours answers the same.

`>` is a request, with its user before it unless that is guest, and `<` RabbitMQ's answer to it: the status, and the
body if there was one, `~` for one that is not compared. `=` is our answer where it is another: a sentence where
RabbitMQ stumbles and answers 500, or what the line above says. `+` prepares what follows. A password is the
user's name.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pika
import pytest

from tests.admin.calling import Api
from tests.support.node_process import NodeProcess

RECORDED = Path(__file__).parent / "recorded"


@dataclass(frozen=True)
class Request:
    """One request and its answer; no status if it does not matter."""

    line: str
    user: str
    method: str
    path: str
    body: bytes | None
    status: int = 0
    answer: str = ""


def requests(path: Path) -> Iterator[Request]:
    lines = path.read_text().splitlines()
    for at, line in enumerate(lines):
        if line.startswith("+ "):
            yield parsed(line)
        elif line.startswith("> "):
            answers = []
            for answer in lines[at + 1 : at + 4]:
                if answer[0] in ">+":
                    break
                answers += [answer] if answer[0] in "<=" else []
            status, _, body = answers[-1][2:].partition(" ")
            yield parsed(line, int(status), body)


def parsed(line: str, status: int = 0, answer: str = "") -> Request:
    first, _, rest = line[2:].partition(" ")
    user, rest = (first[:-1], rest) if first.endswith(":") else ("guest", line[2:])
    method, path, *body = rest.split(" ", 2)
    return Request(line, user, method, path, body[0].encode() if body else None, status, answer)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    running = NodeProcess(tmp_path_factory.mktemp("node"), "--name", "s1@localhost")
    yield running
    running.stop()


@pytest.fixture(scope="module")
def stage(node: NodeProcess) -> Iterator[Api]:
    """The objects that existed when the requests were recorded."""
    api = Api(node)
    assert api.call("POST", "definitions", (RECORDED / "stage.json").read_bytes()).status == 204
    host, port = node.amqp
    parameters = [pika.ConnectionParameters(host, port, vhost, heartbeat=0) for vhost in ("/", "v2")]
    here, there = (pika.BlockingConnection(one) for one in parameters)
    here.channel().basic_consume("q.load", lambda *_: None)
    there.channel().queue_declare("excl.q", exclusive=True)
    yield api
    here.close()
    there.close()


@pytest.mark.parametrize("path", sorted(RECORDED.glob("*.txt")), ids=lambda path: path.stem)
def test_requests_are_answered_as_recorded(stage: Api, path: Path) -> None:
    differing = []
    for request in requests(path):
        heard = stage.call(request.method, request.path, request.body, (request.user, request.user))
        body = heard.body.decode()
        if request.status and (heard.status != request.status or not is_same(body, request.answer)):
            differing.append((request.line, f"{request.status} {request.answer}", f"{heard.status} {body}"))
    assert differing == []
    assert stage.node.log().count("http.failed") == 0


def is_same(body: str, expected: str) -> bool:
    return expected == "~" or ordered(body) == ordered(expected)


def ordered(body: str) -> Any:
    """A document; if it is a list, its rows are sorted."""
    found = json.loads(body) if body[:1] in ("{", "[") else body
    if isinstance(found, list) and all(isinstance(row, dict) for row in found):
        return sorted(found, key=lambda row: json.dumps(row, sort_keys=True))
    return found
