"""An HTTP client that shows everything of an answer, and a client of AMQP beside it.

Not here: the requests (the tests).
"""

import base64
import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pika

from tests.support.node_process import NodeProcess

TIMEOUT_S = 20.0
GUEST = ("guest", "guest")


@dataclass(frozen=True)
class Heard:
    """One answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def reason(self) -> str:
        return str(self.json["reason"])


class Api:
    """The management API of one node."""

    def __init__(self, node: NodeProcess) -> None:
        self.node = node
        self.host, self.port = node.addresses["http"]

    def call(
        self,
        method: str,
        path: str,
        body: bytes | object = None,
        user: tuple[str, str] | None = GUEST,
        headers: Mapping[str, str] | None = None,
    ) -> Heard:
        """`path` as it goes over the wire, below /api unless it begins with a slash."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=TIMEOUT_S)
        sent = dict(headers or {})
        if user is not None:
            sent["authorization"] = "Basic " + base64.b64encode(":".join(user).encode()).decode()
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        try:
            connection.request(method, path if path.startswith("/") else f"/api/{path}", body, sent)
            answer = connection.getresponse()
            named = {name.lower(): value for name, value in answer.getheaders()}
            return Heard(answer.status, named, answer.read())
        finally:
            connection.close()

    def get(self, path: str, **settings: Any) -> Heard:
        return self.call("GET", path, **settings)

    def read(self, path: str) -> Any:
        """The document at a path that is there."""
        heard = self.get(path)
        assert heard.status == 200, (path, heard.status, heard.body)
        return heard.json


def in_path(name: str) -> str:
    """A name as one segment of a path."""
    return quote(name, safe="", errors="surrogateescape")


def connected(node: NodeProcess, name: str = "", heartbeat_s: int | None = None) -> pika.BlockingConnection:
    """No heartbeat for a connection that is left alone while something else goes on."""
    host, port = node.amqp
    properties = {"connection_name": name} if name else None
    parameters = pika.ConnectionParameters(host, port, heartbeat=heartbeat_s, client_properties=properties)
    return pika.BlockingConnection(parameters)
