"""A node as its pages' visitor and the HTTP API's client see it.

Invariant: what a test makes lives in a virtual host of its own, or under a name no other test has.

Not here: the browser (`visitor`), starting the node (`conftest`).
"""

import base64
import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

ANSWER_DEADLINE_S = 60.0


@dataclass(frozen=True)
class Site:
    """Where pages and API are, and where AMQP is spoken."""

    url: str
    amqp: tuple[str, int]

    def ask(self, method: str, *names: str, body: object = None, query: str = "", user: str = "guest") -> Any:
        """The API's answer; names are escaped one by one. A user's password is their name."""
        path = "/".join(quote(name, safe="") for name in names)
        request = urllib.request.Request(f"{self.url}api/{path}{query}", method=method)
        request.add_header("Authorization", "Basic " + base64.b64encode(f"{user}:{user}".encode()).decode())
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=ANSWER_DEADLINE_S) as response:
            text = response.read()
        return json.loads(text) if text else None

    def get(self, *names: str, query: str = "") -> Any:
        return self.ask("GET", *names, query=query)

    def exists(self, *names: str) -> bool:
        try:
            self.get(*names)
        except urllib.error.HTTPError as refusal:
            with refusal:
                if refusal.code == 404:
                    return False
                raise
        return True

    def make_user(self, name: str, tags: str, vhost: str) -> None:
        self.ask("PUT", "users", name, body={"password": name, "tags": tags})
        self.ask("PUT", "permissions", vhost, name, body={"configure": ".*", "write": ".*", "read": ".*"})

    def make_queue(self, vhost: str, name: str, **arguments: object) -> None:
        self.ask("PUT", "queues", vhost, name, body={"durable": True, "arguments": arguments})

    def publish(self, vhost: str, queue: str, payload: str, count: int = 1) -> None:
        message = {"routing_key": queue, "payload": payload, "payload_encoding": "string", "properties": {}}
        for _ in range(count):
            assert self.ask("POST", "exchanges", vhost, "amq.default", "publish", body=message) == {"routed": True}

    def payloads(self, vhost: str, queue: str) -> list[str]:
        """What waits in a queue; it stays there."""
        wanted = {"count": 100, "ackmode": "ack_requeue_true", "encoding": "auto"}
        return [message["payload"] for message in self.ask("POST", "queues", vhost, queue, "get", body=wanted)]
