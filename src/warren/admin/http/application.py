"""The ASGI application: from a request to its response. The only place where an `HttpFault` becomes a status.

The order of checks is RabbitMQ's: an unknown path is 404 and an unknown method 405, before any login; then the login;
then the access level of the resource; then the handler. Any exception other than a fault is a bug: the application logs
it with its traceback and responds with 500. A response that has already begun is cut short.

If nodes of the cluster did not respond, the header `x-silent-nodes` names them.

*Logins.* The header `authorization` is the only credential: a user and a password, or an access token (`Bearer`). The
broker checks it as it does for AMQP clients. There is no cookie, so there is no session to steal.

*Cross-site requests.* A browser that knows a password for this node adds it to every request, from any page. So a
request that may change something is refused if the browser says that another site sent it: by `sec-fetch-site`, which
pages cannot forge, or in older browsers by `origin`. Clients that are not browsers send neither. The content type
proves nothing, because scripts send JSON under any type. Origins in `management.cors.allow_origins` may do everything,
as in RabbitMQ, and only they may read responses. If `*` allows every origin, responses say that browsers must not add
remembered logins, and changes must be such that a browser asks first.

*Rebound names.* A request from this machine must address the node by one of its names (`HostNames`), except when a load
balancer asks for the node's fitness.

Headers of every response forbid foreign scripts and frames. Responses of the API are not stored by browsers: they may
have password hashes, message bodies and the URIs of shovels.

Not here: connections (`http.server`), access levels (`http.router`), the resources (`admin.resources`).
"""

import base64
import binascii
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

from starlette.requests import Request

from warren.admin.background import ErrorLog
from warren.admin.context import AdminContext
from warren.admin.http.authentication import ApiUser
from warren.admin.http.documents import is_text
from warren.admin.http.request import ApiRequest
from warren.admin.http.responses import (
    JSON,
    ApiResponse,
    HttpFault,
    bad_request,
    cross_site,
    json_response,
    login_required,
    malformed,
    method_not_allowed,
    misdirected,
    not_authorised,
    not_found,
    refusal_fault,
)
from warren.admin.http.router import Endpoint, Router, segments_of
from warren.admin.http.settings import FITNESS_PATH, ApplicationSettings, CrossOrigin, HostNames, PagesLogin
from warren.broker.access.logins import is_loopback
from warren.errors import CommandRefused


async def authenticate(call: ApiRequest) -> ApiUser:
    """The user of a request; a fault unless the user may use the API."""
    user, password = credentials(call.header("authorization"), call.context.pages_login)
    return await log_in(call, user, password)


async def log_in(call: ApiRequest, user: str, password: str) -> ApiUser:
    """The user with these credentials. The fault does not say which of the two is wrong."""
    api_user = await call.context.authenticator.api_user(user, password, call.peer_host)
    if not api_user.may_manage:
        raise not_authorised("Not management user")
    return api_user


def credentials(header: str, pages_login: PagesLogin) -> tuple[str, str]:
    """User and password of a basic `authorization` header, or an access token as the password."""
    if not header:
        raise not_authorised(NO_PASSWORDS) if pages_login.disable_basic_auth else login_required()
    scheme, _, rest = header.strip().partition(" ")
    if scheme.lower() == "bearer" and rest.strip():
        # a token that names no user is that of the pages' client, as in RabbitMQ
        return pages_login.client_id, rest.strip()
    if pages_login.disable_basic_auth:
        raise not_authorised(NO_PASSWORDS)
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


NO_PASSWORDS = "HTTP access denied: basic auth disabled"

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


def cors_headers(call: ApiRequest, cross_origin: CrossOrigin) -> dict[str, str]:
    """Headers that let a page of an allowed origin read the response."""
    origin = call.header("origin")
    if cross_origin.names(origin):
        headers = {"access-control-allow-origin": origin, "access-control-allow-credentials": "true"}
    elif origin and cross_origin.allows_all:
        headers = {"access-control-allow-origin": "*"}
    else:
        return {}
    headers["access-control-expose-headers"] = "location, x-silent-nodes"
    if call.method == "OPTIONS":
        headers["access-control-max-age"] = str(cross_origin.max_age_s)
        headers["access-control-allow-methods"] = call.header("access-control-request-method")
        headers["access-control-allow-headers"] = call.header("access-control-request-headers")
    return {name: value for name, value in headers.items() if value}


def refuse_cross_site(call: ApiRequest, cross_origin: CrossOrigin) -> None:
    """Raise a fault if a page of another site sent the request."""
    origin = call.header("origin")
    if cross_origin.names(origin) or (cross_origin.allows_all and asked_first(call)):
        return
    site = call.header("sec-fetch-site")
    if site:
        if site not in ("same-origin", "none"):
            raise cross_site()
    elif origin and not _same_host(origin, call.header("host")):
        raise cross_site()


def asked_first(call: ApiRequest) -> bool:
    """Whether a browser sends such a request of another site only after the node has allowed it (CORS preflight)."""
    return call.method != "POST" or call.header("content-type").partition(";")[0].strip().lower() == JSON


def refuse_rebound_name(call: ApiRequest, hosts: HostNames) -> None:
    """Raise a fault if a client on this machine addresses the node by a name that is not one of its own."""
    if is_loopback(call.peer_host) and not hosts.include(call.header("host")):
        raise misdirected(call.header("host"))


def _same_host(origin: str, host: str) -> bool:
    """Compare hosts without schemes: a proxy may terminate TLS before the node."""
    scheme, _, place = origin.lower().partition("://")
    port = {"http": ":80", "https": ":443"}.get(scheme, "")
    return place.removesuffix(port) == host.lower().removesuffix(port)


_EVERY_ANSWER = {
    "vary": "accept, accept-encoding, origin",
    "server": "Warren",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
}


def content_policy(pages_login: PagesLogin) -> str:
    """What the pages may load: this node's answers alone, and those of the issuer if they log in there."""
    asked = " ".join(["; connect-src 'self'", *pages_login.issuer_origins]) if pages_login.issuer_origins else ""
    return f"default-src 'self'{asked}; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"


SILENT_NODES = "x-silent-nodes"
"""The header that names the cluster members that did not contribute to a response."""

_CHANGING_METHODS = frozenset({"PUT", "POST"})


class Application:
    """Called by uvicorn for each request."""

    def __init__(self, router: Router, context: AdminContext, settings: ApplicationSettings, log: ErrorLog) -> None:
        self._router = router
        self._context = context
        self._settings = settings
        self._log = log
        self._every_answer = {**_EVERY_ANSWER, "content-security-policy": content_policy(settings.pages_login)}

    async def __call__(
        self,
        scope: dict[str, Any],
        receive: Callable[[], Awaitable[Any]],
        send: Callable[[dict[str, Any]], Awaitable[None]],
    ) -> None:
        call = ApiRequest(Request(scope, receive), {}, self._context, self._settings.body_bytes_max)
        answer = await self.answer(call)
        headers = self._headers(call, answer)
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        if answer.chunks is not None and call.method != "HEAD":
            await self._send_chunks(call, answer.chunks, send)
        await send({"type": "http.response.body", "body": answer.body})

    async def _send_chunks(
        self, call: ApiRequest, chunks: AsyncIterator[bytes], send: Callable[[dict[str, Any]], Awaitable[None]]
    ) -> None:
        """Send each chunk as it is read. Stop when the client has gone."""
        try:
            async for chunk in chunks:
                if not await _sent(send, chunk) or await call.request.is_disconnected():
                    return
        except Exception as bug:
            self._log_bug(call, bug)
            # the server closes the connection without the final chunk, so the client sees an incomplete response
            raise

    async def answer(self, call: ApiRequest) -> ApiResponse:
        """The response, with the names of silent nodes if the user has logged in."""
        answer = await self._outcome(call)
        silent = self._context.peers.silent() if call.api_user.name and call.part is None else []
        return replace(answer, headers={**answer.headers, SILENT_NODES: ", ".join(silent)}) if silent else answer

    async def _outcome(self, call: ApiRequest) -> ApiResponse:
        try:
            return await self._answer(call)
        except HttpFault as fault:
            return _fault_response(fault)
        except CommandRefused as refusal:
            return _fault_response(refusal_fault(refusal))
        except Exception as bug:
            self._log_bug(call, bug)
            return ApiResponse(500, headers={"connection": "close"})

    def _log_bug(self, call: ApiRequest, bug: Exception) -> None:
        self._log.error("http.failed", method=call.method, path=call.request.scope["path"], exc_info=bug)

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
        if call.request.scope["path"] != FITNESS_PATH:
            refuse_rebound_name(call, self._settings.hosts)
        if call.method not in SAFE_METHODS:
            refuse_cross_site(call, self._settings.cross_origin)
        call.body_bytes_max = endpoint.body_bytes_max(call.body_bytes_max)
        await self._admit(call, endpoint)
        if call.method in _CHANGING_METHODS and not all(map(is_text, segments)):
            # JSON cannot represent such a name, so no object may have it
            raise bad_request("a name in the path is not UTF-8")
        answer = await endpoint.handler(call)
        if answer.chunks is not None and call.request.scope.get("http_version") == "1.0":
            # HTTP/1.0 has no chunked encoding
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
        headers = {**self._every_answer, **cors_headers(call, self._settings.cross_origin)}
        if answer.status not in (204, 304) and answer.chunks is None:
            headers["content-length"] = str(len(answer.body))
        if answer.body or answer.chunks is not None:
            headers["content-type"] = answer.content_type
            # a file of the pages has a tag, by which a browser asks again
            headers["cache-control"] = "no-cache" if "etag" in answer.headers else "no-store"
        headers |= answer.headers
        return [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers.items()]


async def _sent(send: Callable[[dict[str, Any]], Awaitable[None]], chunk: bytes) -> bool:
    """False if the client has gone. uvloop raises an error for a socket whose end has not been reported yet."""
    try:
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    except RuntimeError:
        return False
    return True


def _fault_response(fault: HttpFault) -> ApiResponse:
    if fault.reason is None:
        return ApiResponse(fault.status, headers=fault.headers)
    answer = json_response({"error": fault.error, "reason": fault.reason}, fault.status)
    return ApiResponse(answer.status, answer.body, headers=fault.headers)
