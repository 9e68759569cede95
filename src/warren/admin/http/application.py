"""The ASGI application: from a request to its answer, and the one place where a fault becomes a status.

The order is RabbitMQ's: an unknown path is 404 and an unknown method 405 whoever asks; then the login, then the
level the resource demands, then what it finds. Anything a resource raises that is no fault is a defect: it is logged
with its traceback, and answered with 500; an answer that has begun ends short.

An answer given while some nodes of the cluster do not answer says which.

Every answer tells the browser to run nothing it did not come from, to keep nothing, and to show it in no frame.

Not here: the connection (`http.link`), the resources (`admin.resources`), static pages (`admin.pages`).

Who sent a request: the header `authorization`, and nothing else.

Passwords are checked by the broker, as those of AMQP clients are. There is no cookie, so no session to steal.

Not here: what the user may do (`http.levels`).

Requests that a browser sends on behalf of a page of another site.

A browser that knows a password for this node adds it to every request, whichever page asks. So a request that may
change something is refused if the browser says that it comes from elsewhere: by `sec-fetch-site`, which pages cannot
forge, or, from older browsers, by `origin`. Both are absent from what is no browser. Which content type a request has
says nothing: scripts send JSON under any.

Origins that the configuration names (`management.cors.allow_origins`) may do everything, as in RabbitMQ; only they
are given leave to read answers.

Not here: what pages of this node may load (`http.application`).
"""

import base64
import binascii
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any, Protocol

from starlette.requests import Request

from warren.admin.context import AdminContext
from warren.admin.http.authentication import ApiUser
from warren.admin.http.documents import is_text
from warren.admin.http.request import ApiRequest
from warren.admin.http.responses import (
    ApiResponse,
    HttpFault,
    bad_request,
    cross_site,
    json_response,
    login_failed,
    login_required,
    malformed,
    method_not_allowed,
    not_authorised,
    not_found,
    refusal_fault,
)
from warren.admin.http.router import Endpoint, Router, segments_of
from warren.admin.http.settings import ApplicationSettings, CrossOrigin
from warren.errors import Refused


async def authenticate(call: ApiRequest) -> ApiUser:
    """The user behind a request, who may use the API; a fault if there is none."""
    user, password = credentials(call.header("authorization"))
    return await log_in(call, user, password)


async def log_in(call: ApiRequest, user: str, password: str) -> ApiUser:
    """The user of these credentials; a fault that does not say which of them is wrong."""
    api_user = await call.context.accounts.api_user(user, password, call.peer_host)
    if not api_user.may_manage:
        raise not_authorised("Not management user")
    return api_user


def credentials(header: str) -> tuple[str, str]:
    """User and password of a basic authorization."""
    if not header:
        raise login_required()
    scheme, _, rest = header.strip().partition(" ")
    if scheme.lower() == "bearer":
        raise login_failed()
    if scheme.lower() != "basic":
        raise malformed()
    try:
        text = base64.b64decode(rest.strip(), validate=True).decode("utf-8", "surrogateescape")
    except (binascii.Error, ValueError):
        raise malformed() from None
    user, colon, password = text.partition(":")
    if not colon:
        raise malformed()
    return user, password


SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


def cors_headers(call: ApiRequest, cross_origin: CrossOrigin) -> dict[str, str]:
    """The headers that let a page of an allowed origin read the answer."""
    origin = call.header("origin")
    if not cross_origin.allows(origin):
        return {}
    headers = {
        "access-control-allow-origin": origin,
        "access-control-allow-credentials": "true",
        "access-control-expose-headers": "location, x-silent-nodes",
    }
    if call.method == "OPTIONS":
        headers["access-control-max-age"] = str(cross_origin.max_age_s)
        headers["access-control-allow-methods"] = call.header("access-control-request-method")
        headers["access-control-allow-headers"] = call.header("access-control-request-headers")
    return {name: value for name, value in headers.items() if value}


def refuse_cross_site(call: ApiRequest, cross_origin: CrossOrigin) -> None:
    """A fault if a page of another site asks."""
    origin = call.header("origin")
    if cross_origin.allows(origin):
        return
    site = call.header("sec-fetch-site")
    if site:
        if site not in ("same-origin", "none"):
            raise cross_site()
    elif origin and not _same_host(origin, call.header("host")):
        raise cross_site()


def _same_host(origin: str, host: str) -> bool:
    """Schemes may differ: before the node may stand somebody who speaks TLS for it."""
    scheme, _, place = origin.lower().partition("://")
    port = {"http": ":80", "https": ":443"}.get(scheme, "")
    return place.removesuffix(port) == host.lower().removesuffix(port)


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

_CHANGING_METHODS = frozenset({"PUT", "POST"})


class ErrorLog(Protocol):
    """Where a defect is told."""

    def error(self, event: str, **fields: object) -> None: ...


class Application:
    """What uvicorn calls for every request."""

    def __init__(self, router: Router, context: AdminContext, settings: ApplicationSettings, log: ErrorLog) -> None:
        self._router = router
        self._station = context
        self._settings = settings
        self._log = log

    async def __call__(
        self,
        scope: dict[str, Any],
        receive: Callable[[], Awaitable[Any]],
        send: Callable[[dict[str, Any]], Awaitable[None]],
    ) -> None:
        call = ApiRequest(Request(scope, receive), {}, self._station, self._settings.body_bytes_max)
        answer = await self.answer(call)
        headers = self._headers(call, answer)
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        if answer.chunks is not None and call.method != "HEAD":
            await self._send_chunks(call, answer.chunks, send)
        await send({"type": "http.response.body", "body": answer.body})

    async def _send_chunks(
        self, call: ApiRequest, chunks: AsyncIterator[bytes], send: Callable[[dict[str, Any]], Awaitable[None]]
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

    async def answer(self, call: ApiRequest) -> ApiResponse:
        """Whatever comes of a request; to who has logged in, with the nodes whose part is not in it."""
        answer = await self._outcome(call)
        silent = self._station.peers.silent() if call.api_user.name and call.part is None else []
        return replace(answer, headers={**answer.headers, SILENT_NODES: ", ".join(silent)}) if silent else answer

    async def _outcome(self, call: ApiRequest) -> ApiResponse:
        try:
            return await self._answer(call)
        except HttpFault as fault:
            return _fault_response(fault)
        except Refused as refusal:
            return _fault_response(refusal_fault(refusal))
        except Exception as defect:
            self._tell_defect(call, defect)
            return ApiResponse(500, headers={"connection": "close"})

    def _tell_defect(self, call: ApiRequest, defect: Exception) -> None:
        self._log.error("http.failed", method=call.method, path=call.request.scope["path"], exc_info=defect)

    async def _answer(self, call: ApiRequest) -> ApiResponse:
        segments = segments_of(call.request.scope["raw_path"])
        if segments is None:
            raise malformed()
        found = self._router.find(segments)
        if found is None:
            raise not_found()
        resource, call.params = found
        if call.method == "OPTIONS":
            return ApiResponse(200, headers={"allow": resource.allowed()})
        endpoint = resource.endpoint(call.method)
        if endpoint is None:
            raise method_not_allowed(resource.allowed())
        if call.method not in SAFE_METHODS:
            refuse_cross_site(call, self._settings.cross_origin)
        await self._admit(call, endpoint)
        if call.method in _CHANGING_METHODS and not all(map(is_text, segments)):
            # nothing is made that has a name which no JSON can say
            raise bad_request("a name in the path is not UTF-8")
        answer = await endpoint.handler(call)
        if answer.chunks is not None and call.request.scope.get("http_version") == "1.0":
            # whoever speaks that does not know where a body of chunks ends
            return replace(answer, body=await answer.whole(), chunks=None)
        return answer

    async def _admit(self, call: ApiRequest, endpoint: Endpoint) -> None:
        if endpoint.level is None:
            return
        if call.part is None:
            call.api_user = await authenticate(call)
        reason = endpoint.level(call)
        if reason:
            raise not_authorised(reason)

    def _headers(self, call: ApiRequest, answer: ApiResponse) -> list[tuple[bytes, bytes]]:
        headers = {**_EVERY_ANSWER, **cors_headers(call, self._settings.cross_origin)}
        if answer.status not in (204, 304) and answer.chunks is None:
            headers["content-length"] = str(len(answer.body))
        if answer.body or answer.chunks is not None:
            headers["content-type"] = answer.content_type
            headers["cache-control"] = "no-cache"
        headers |= answer.headers
        return [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers.items()]


def _fault_response(fault: HttpFault) -> ApiResponse:
    if fault.reason is None:
        return ApiResponse(fault.status, headers=fault.headers)
    answer = json_response({"error": fault.error, "reason": fault.reason}, fault.status)
    return ApiResponse(answer.status, answer.body, headers=fault.headers)
