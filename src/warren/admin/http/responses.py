r"""What a request is answered with, and values as JSON.

Names in AMQP are bytes, and need not be UTF-8. Inside the node such bytes are lone surrogates; in JSON they are the
escapes of these (`"\udcff"`), which Python and JavaScript read back as they were. Integers may have any size, and a
number that is none (NaN, infinity) is `null`.

Not here: which fields an answer has (`admin.views`), faults (`http.faults`).

What an HTTP request can be refused with, worded as RabbitMQ's management API words it.

A fault is raised anywhere below the application, and caught there, in one place, where it becomes a status and a
body `{"error": …, "reason": …}`. A reason of `None` is an answer without a body; some of RabbitMQ's
reasons are lists.

Not here: errors of commands (`errors.Refused`, which the application translates).
"""

import json
import math
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import orjson

from warren.errors import Refused, WarrenError

JSON = "application/json"


@dataclass(frozen=True)
class ApiResponse:
    """Status, body, and headers beyond those that every answer has. A long body may come in chunks instead."""

    status: int
    body: bytes = b""
    content_type: str = JSON
    headers: dict[str, str] = field(default_factory=dict)
    chunks: AsyncIterator[bytes] | None = None

    async def whole(self) -> bytes:
        """The body, however it comes."""
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
    """The same without what JSON cannot say."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


REALM = 'Basic realm="RabbitMQ Management"'
"""Scripts and browsers remember passwords under this name."""

_STATUS_OF_REFUSALS = {"bad_request": 400, "not_authorised": 401, "not_found": 404, "unavailable": 503}


class HttpFault(WarrenError):
    """A request that is not carried out. The reason is a text or, for some, a list of words; `headers` go into it."""

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
    """Who asks is known, and may not."""
    return HttpFault(401, "not_authorised", reason)


def login_required() -> HttpFault:
    """Nobody said who asks."""
    return HttpFault(401, "not_authorized", None, {"www-authenticate": REALM})


def login_failed() -> HttpFault:
    return HttpFault(401, "not_authorized", "Login failed", {"www-authenticate": REALM})


def method_not_allowed(allowed: str) -> HttpFault:
    return HttpFault(405, "Method Not Allowed", None, {"allow": allowed})


def malformed() -> HttpFault:
    """What came is not even a request: an answer without a body, as RabbitMQ's server gives."""
    return HttpFault(400, "bad_request", None)


def body_too_large(bytes_max: int) -> HttpFault:
    """The rest of the body stays unread, so the connection ends with the answer."""
    reason = f"the body is larger than {bytes_max} bytes (management.http.max_body_size)"
    return HttpFault(413, "payload_too_large", reason, {"connection": "close"})


def cross_site() -> HttpFault:
    return HttpFault(403, "forbidden", "a page of another site may not change anything here")


def refusal_fault(refusal: Refused) -> HttpFault:
    """A command that was not carried out, in the words of HTTP."""
    if refusal.kind == "not_found":
        return not_found()
    return HttpFault(_STATUS_OF_REFUSALS.get(refusal.kind, 400), refusal.kind, refusal.reason)
