"""A broker's HTTP API as these tests use it: the same for Warren and for RabbitMQ."""

import base64
import json
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import quote

from tests.support.deadlines import eventually


class BrokerApi:
    """One broker; `amqp` is the URI of its virtual host `/`."""

    def __init__(self, http_url: str, amqp: str, login: str = "guest:guest") -> None:
        self._url = http_url
        self.amqp = amqp
        self._login = "Basic " + base64.b64encode(login.encode()).decode()

    def call(self, method: str, *names: str, body: object = None) -> tuple[int, Any]:
        path = "/".join(quote(name, safe="") for name in names)
        data = None if body is None else json.dumps(body).encode()
        headers = {"authorization": self._login, "content-type": "application/json"}
        request = urllib.request.Request(f"{self._url}/api/{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.status, _read(answer.read())
        except urllib.error.HTTPError as refused:
            return refused.code, _read(refused.read())

    def upstream(self, name: str, uri: str, **said: object) -> None:
        value = {"uri": uri, "reconnect-delay": 1, **{key.replace("_", "-"): one for key, one in said.items()}}
        status, told = self.call("PUT", "parameters", "federation-upstream", "/", name, body={"value": value})
        assert status in (201, 204), told

    def federate(self, name: str, upstream: str, apply_to: str = "exchanges") -> None:
        """Have the exchange of that name take from that upstream, or the queue."""
        body = {"pattern": f"^{name}$", "apply-to": apply_to, "definition": {"federation-upstream": upstream}}
        status, told = self.call("PUT", "policies", "/", name, body=body)
        assert status in (201, 204), told

    def links(self, name: str) -> list[dict[str, Any]]:
        status, rows = self.call("GET", "federation-links")
        assert status == 200, rows
        return [row for row in rows if name in (row.get("exchange"), row.get("queue"))]

    def until_linked(self, name: str) -> dict[str, Any]:
        """The one link of an exchange or a queue, which is up."""
        seen: list[dict[str, Any]] = []

        def is_up() -> bool:
            seen[:] = self.links(name)
            return [row["status"] for row in seen] == ["running"]

        eventually(is_up, lambda: str(seen))
        return seen[0]

    def forget(self, name: str, *upstreams: str) -> None:
        self.call("DELETE", "policies", "/", name)
        for upstream in upstreams:
            self.call("DELETE", "parameters", "federation-upstream", "/", upstream)

    def queues(self) -> dict[str, dict[str, Any]]:
        return {row["name"]: row for row in self.call("GET", "queues", "/")[1]}


def _read(body: bytes) -> Any:
    try:
        return json.loads(body) if body else None
    except ValueError:
        return body
