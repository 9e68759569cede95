r"""Responses, faults, and values as JSON.

AMQP names are bytes and need not be UTF-8. Inside the node such bytes are lone surrogates. In JSON they are escapes
(`"\udcff"`), which Python and JavaScript read back unchanged. Integers may have any size. NaN and infinity are `null`.

A fault is raised by a handler and caught by the application, which turns it into a status and a body `{"error": …,
"reason": …}` in RabbitMQ's words. A reason of `None` means no body. Some of RabbitMQ's reasons are lists.

Not here: which fields a response has (`admin.resources`), refused commands (`errors.CommandRefused`).
"""

import json
import math
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import orjson

from warren.admin.http.settings import DOCUMENT_BYTES_MAX, LOGIN_BYTES_MAX
from warren.errors import CommandRefused, WarrenError

JSON = "application/json"


@dataclass(frozen=True)
class ApiResponse:
    """Status, body and extra headers. A long body may come as chunks instead."""

    status: int
    body: bytes = b""
    content_type: str = JSON
    headers: dict[str, str] = field(default_factory=dict)
    chunks: AsyncIterator[bytes] | None = None

    async def whole(self) -> bytes:
        """The body, also if it comes as chunks."""
        return self.body if self.chunks is None else b"".join([chunk async for chunk in self.chunks])


def json_response(value: object, status: int = 200) -> ApiResponse:
    return ApiResponse(status, to_json(value))


def no_content() -> ApiResponse:
    return ApiResponse(204)


def created() -> ApiResponse:
    return ApiResponse(201)


def to_json(value: object) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(_plain(value), separators=(",", ":")).encode()


def _plain(value: Any) -> Any:
    """The value without numbers that JSON cannot represent."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


REALM = 'Basic realm="RabbitMQ Management"'
"""Scripts and browsers store passwords under this name."""

_STATUS_OF_REFUSALS = {"bad_request": 400, "not_authorised": 401, "not_found": 404, "unavailable": 503}


class HttpFault(WarrenError):
    """A refused request. The reason is a text or, as in RabbitMQ, a list of words."""

    def __init__(
        self, status: int, error: str, reason: "str | list[object] | None", headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(str(reason or error))
        self.status = status
        self.error = error
        self.reason = reason
        self.headers = headers or {}


def not_found() -> HttpFault:
    return HttpFault(404, "Object Not Found", "Not Found")


def bad_request(reason: str, error: str = "bad_request") -> HttpFault:
    return HttpFault(400, error, reason)


def not_authorised(reason: str) -> HttpFault:
    """The user is known but not allowed to do this."""
    return HttpFault(401, "not_authorised", reason)


def login_required() -> HttpFault:
    """The request has no credentials."""
    return HttpFault(401, "not_authorized", None, {"www-authenticate": REALM})


def login_failed() -> HttpFault:
    return HttpFault(401, "not_authorized", "Login failed", {"www-authenticate": REALM})


def method_not_allowed(allowed: str) -> HttpFault:
    return HttpFault(405, "Method Not Allowed", None, {"allow": allowed})


def malformed() -> HttpFault:
    """The input is not a valid request. The response has no body, as from RabbitMQ's server."""
    return HttpFault(400, "bad_request", None)


def body_too_large(bytes_max: int) -> HttpFault:
    """The rest of the body stays unread, so the connection closes with the response."""
    setting = "" if bytes_max in (LOGIN_BYTES_MAX, DOCUMENT_BYTES_MAX) else " (management.http.max_body_size)"
    reason = f"the body is larger than {bytes_max} bytes{setting}"
    return HttpFault(413, "payload_too_large", reason, {"connection": "close"})


def cross_site() -> HttpFault:
    return HttpFault(403, "forbidden", "a page of another site may not change anything here")


def misdirected(host: str) -> HttpFault:
    reason = f"{host} is not a name of this node; management.allow_hosts adds names"
    return HttpFault(421, "misdirected_request", reason)


def refusal_fault(refusal: CommandRefused) -> HttpFault:
    """The HTTP fault for a command that the broker refused."""
    if refusal.kind == "not_found":
        return not_found()
    return HttpFault(_STATUS_OF_REFUSALS.get(refusal.kind, 400), refusal.kind, refusal.reason)
