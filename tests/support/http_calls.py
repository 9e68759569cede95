"""Requests to a node's HTTP API with any `authorization`.

Not here: the administrator's requests that prepare a test (`operator`).
"""

import http.client
import json
from dataclasses import dataclass
from typing import Any

DEADLINE_S = 60.0


@dataclass(frozen=True)
class Answer:
    """A response, with its body as JSON if it has one."""

    status: int
    document: Any
    headers: dict[str, str]


def bearer(token: str) -> str:
    return f"Bearer {token}"


def call_api(address: tuple[str, int], method: str, path: str, authorization: str = "", body: object = None) -> Answer:
    connection = http.client.HTTPConnection(*address, timeout=DEADLINE_S)
    try:
        headers = {"authorization": authorization} if authorization else {}
        data = None
        if body is not None:
            headers["content-type"] = "application/json"
            data = json.dumps(body)
        connection.request(method, path, data, headers)
        response = connection.getresponse()
        text = response.read()
        is_json = "json" in response.headers.get("content-type", "")
        found = {name.lower(): value for name, value in response.headers.items()}
        return Answer(response.status, json.loads(text) if text and is_json else None, found)
    finally:
        connection.close()
