"""An operator who changes users, permissions, virtual hosts, limits and policies over a broker's HTTP API.

The calls are those that Warren and RabbitMQ share, so a conversation can be prepared on either.

Not here: the answers of the API (`tests/admin`).
"""

import base64
import http.client
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

DEADLINE_S = 60.0


class Operator:
    """The administrator `guest`."""

    def __init__(self, address: tuple[str, int], password: str = "guest") -> None:
        self.address = address
        self._login = base64.b64encode(f"guest:{password}".encode()).decode()

    def user(self, name: str, tags: str = "", password: str = "") -> None:
        self._change("PUT", ["users", name], {"password": password or name, "tags": tags})

    def permit(self, user: str, configure: str = ".*", write: str = ".*", read: str = ".*", vhost: str = "/") -> None:
        self._change("PUT", ["permissions", vhost, user], {"configure": configure, "write": write, "read": read})

    def forbid(self, user: str, vhost: str = "/") -> None:
        self._change("DELETE", ["permissions", vhost, user])

    def permit_topics(self, user: str, exchange: str, write: str, read: str, vhost: str = "/") -> None:
        body = {"exchange": exchange, "write": write, "read": read}
        self._change("PUT", ["topic-permissions", vhost, user], body)

    def vhost(self, name: str) -> None:
        self._change("PUT", ["vhosts", name], {})

    def trace(self, vhost: str, on: bool) -> None:
        self._change("PUT", ["vhosts", vhost], {"tracing": on})

    def limit_vhost(self, name: str, limit: str, value: int) -> None:
        self._change("PUT", ["vhost-limits", name, limit], {"value": value})

    def limit_user(self, name: str, limit: str, value: int) -> None:
        self._change("PUT", ["user-limits", name, limit], {"value": value})

    def policy(self, name: str, pattern: str, definition: Mapping[str, object], vhost: str = "/") -> None:
        """For queues."""
        body = {"pattern": pattern, "definition": dict(definition), "apply-to": "queues"}
        self._change("PUT", ["policies", vhost, name], body)

    def parameter(self, component: str, name: str, value: Mapping[str, object], vhost: str = "/") -> None:
        self._change("PUT", ["parameters", component, vhost, name], {"value": dict(value)})

    def delete_parameter(self, component: str, name: str, vhost: str = "/") -> None:
        self._change("DELETE", ["parameters", component, vhost, name])

    def delete_user(self, name: str) -> None:
        self._change("DELETE", ["users", name])

    def delete_vhost(self, name: str) -> None:
        self._change("DELETE", ["vhosts", name])

    def read(self, *path: str) -> Any:
        status, answer = self._call("GET", list(path), None)
        assert status == 200, (status, answer)
        return json.loads(answer)

    def _change(self, method: str, path: list[str], body: Mapping[str, object] | None = None) -> None:
        status, answer = self._call(method, path, body)
        assert status in (201, 204), (method, path, status, answer)

    def _call(self, method: str, path: list[str], body: Mapping[str, object] | None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(*self.address, timeout=DEADLINE_S)
        headers = {"Authorization": f"Basic {self._login}", "Content-Type": "application/json"}
        content = None if body is None else json.dumps(body)
        try:
            connection.request(method, "/api/" + "/".join(quote(part, safe="") for part in path), content, headers)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()
