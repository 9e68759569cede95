"""The ASGI application: from a request to its answer, and the one place where a fault becomes a status.

The order is RabbitMQ's: an unknown path is 404 and an unknown method 405 whoever asks; then the login, then the
level the resource demands, then what it finds. Anything a resource raises that is no fault is a defect: it is logged
with its traceback, and answered with 500; an answer that has begun ends short.

An answer given while some nodes of the cluster do not answer says which.

Every answer tells the browser to run nothing it did not come from, to keep nothing, and to show it in no frame.

Not here: the connection (`http.link`), the resources (`admin.resources`), static pages (`admin.pages`).
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any, Protocol

from starlette.requests import Request

from warren.admin.http.answers import Answer, json_answer
from warren.admin.http.call import Call
from warren.admin.http.documents import is_text
from warren.admin.http.faults import (
    HttpFault,
    bad_request,
    malformed,
    method_not_allowed,
    not_authorised,
    not_found,
    of_refusal,
)
from warren.admin.http.login import visitor_of
from warren.admin.http.origin import SAFE_METHODS, leave_to_read, refuse_cross_site
from warren.admin.http.router import Door, Router, segments_of
from warren.admin.http.settings import ApplicationSettings
from warren.admin.station import Station
from warren.errors import Refused

_EVERY_ANSWER = {
    "vary": "accept, accept-encoding, origin",
    "server": "Warren",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "content-security-policy": "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'",
}

SILENT_NODES = "x-silent-nodes"
"""The header that names the members of the cluster which had no part in an answer."""

_MAKING_METHODS = frozenset({"PUT", "POST"})


class LogPort(Protocol):
    """Where a defect is told."""

    def error(self, event: str, **fields: object) -> None: ...


class Application:
    """What uvicorn calls for every request."""

    def __init__(self, router: Router, station: Station, settings: ApplicationSettings, log: LogPort) -> None:
        self._router = router
        self._station = station
        self._settings = settings
        self._log = log

    async def __call__(
        self,
        scope: dict[str, Any],
        receive: Callable[[], Awaitable[Any]],
        send: Callable[[dict[str, Any]], Awaitable[None]],
    ) -> None:
        call = Call(Request(scope, receive), {}, self._station, self._settings.body_bytes_max)
        answer = await self.answer(call)
        headers = self._headers(call, answer)
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        if answer.chunks is not None and call.method != "HEAD":
            await self._send_chunks(call, answer.chunks, send)
        await send({"type": "http.response.body", "body": answer.body})

    async def _send_chunks(
        self, call: Call, chunks: AsyncIterator[bytes], send: Callable[[dict[str, Any]], Awaitable[None]]
    ) -> None:
        """One after the other, as they are read; no more once nobody reads."""
        try:
            async for chunk in chunks:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
                if await call.request.is_disconnected():
                    return
        except Exception as defect:
            self._tell_defect(call, defect)
            # the server closes the connection without an end, so nobody takes this for the whole
            raise

    async def answer(self, call: Call) -> Answer:
        """Whatever comes of a request; to who has logged in, with the nodes whose part is not in it."""
        answer = await self._outcome(call)
        silent = self._station.peers.silent() if call.visitor.name and call.part is None else []
        return replace(answer, headers={**answer.headers, SILENT_NODES: ", ".join(silent)}) if silent else answer

    async def _outcome(self, call: Call) -> Answer:
        try:
            return await self._answer(call)
        except HttpFault as fault:
            return _of_fault(fault)
        except Refused as refusal:
            return _of_fault(of_refusal(refusal))
        except Exception as defect:
            self._tell_defect(call, defect)
            return Answer(500, headers={"connection": "close"})

    def _tell_defect(self, call: Call, defect: Exception) -> None:
        self._log.error("http.failed", method=call.method, path=call.request.scope["path"], exc_info=defect)

    async def _answer(self, call: Call) -> Answer:
        segments = segments_of(call.request.scope["raw_path"])
        if segments is None:
            raise malformed()
        found = self._router.find(segments)
        if found is None:
            raise not_found()
        resource, call.params = found
        if call.method == "OPTIONS":
            return Answer(200, headers={"allow": resource.allowed()})
        door = resource.door(call.method)
        if door is None:
            raise method_not_allowed(resource.allowed())
        if call.method not in SAFE_METHODS:
            refuse_cross_site(call, self._settings.cross_origin)
        await self._admit(call, door)
        if call.method in _MAKING_METHODS and not all(map(is_text, segments)):
            # nothing is made that has a name which no JSON can say
            raise bad_request("a name in the path is not UTF-8")
        answer = await door.handler(call)
        if answer.chunks is not None and call.request.scope.get("http_version") == "1.0":
            # whoever speaks that does not know where a body of chunks ends
            return replace(answer, body=await answer.whole(), chunks=None)
        return answer

    async def _admit(self, call: Call, door: Door) -> None:
        if door.level is None:
            return
        if call.part is None:
            call.visitor = await visitor_of(call)
        reason = door.level(call)
        if reason:
            raise not_authorised(reason)

    def _headers(self, call: Call, answer: Answer) -> list[tuple[bytes, bytes]]:
        headers = {**_EVERY_ANSWER, **leave_to_read(call, self._settings.cross_origin)}
        if answer.status not in (204, 304) and answer.chunks is None:
            headers["content-length"] = str(len(answer.body))
        if answer.body or answer.chunks is not None:
            headers["content-type"] = answer.content_type
            headers["cache-control"] = "no-cache"
        headers |= answer.headers
        return [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers.items()]


def _of_fault(fault: HttpFault) -> Answer:
    if fault.reason is None:
        return Answer(fault.status, headers=fault.headers)
    answer = json_answer({"error": fault.error, "reason": fault.reason}, fault.status)
    return Answer(answer.status, answer.body, headers=fault.headers)
