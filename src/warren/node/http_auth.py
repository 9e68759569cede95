"""Asks the web server of the authentication backend `http`.

The broker asks a bounded number of questions at a time (`broker.access.http_questions`), and each has a request of its
own. A request ends after the connection timeout and the request timeout at the latest. An answer is the text of a
response with the status 200 or 201. Anything else is no answer: redirects, other status codes, long or incomplete
responses, bytes that are not HTTP.

Connections are kept for the next question. An answer belongs to the question before it, so a connection is dropped if
anything about it is in doubt: bytes that arrive when nothing was asked, a second response, a timeout. A question whose
kept connection was closed by the web server meanwhile is asked once more on a fresh one.

Not here: what an answer means (`broker.access.http_backend`), the settings (`node.config.http_auth_settings`).
"""

import asyncio
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import SplitResult, urlencode, urlsplit

import httptools

from warren.broker.model.effects import AskWebServer, Effect
from warren.broker.model.events import Event, WebServerAnswered
from warren.node.tls import TlsSettings, web_client_context

AUTH_HTTP_TLS_FAMILY = "auth_http.ssl_options"
RESPONSE_BYTES_MAX = 16 * 1024
KEPT_CONNECTIONS_MAX = 16
"""For one address."""

GET = "get"
POST = "post"
_GOOD_STATUS = (200, 201)


@dataclass(frozen=True)
class HttpAuthSettings:
    """`auth_http.*`; the defaults are RabbitMQ's."""

    method: str = GET
    # the addresses by what they are about: user, vhost, resource, topic
    urls: Mapping[str, str] = field(
        default_factory=lambda: {
            about: f"http://localhost:8000/auth/{about}" for about in ("user", "vhost", "resource", "topic")
        }
    )
    request_timeout_ms: int = 15_000
    connection_timeout_ms: int = 15_000
    tls: TlsSettings = field(default_factory=lambda: TlsSettings(family=AUTH_HTTP_TLS_FAMILY))


class NoAnswer(Exception):
    """The web server gave no usable answer; the text says why."""


class ConnectionGone(NoAnswer):
    """The web server closed a connection without a byte of a response."""


class HttpAuth:
    """Carries out `AskWebServer`."""

    def __init__(
        self, settings: HttpAuthSettings, loop: asyncio.AbstractEventLoop, add: Callable[[Event], None]
    ) -> None:
        self._settings = settings
        self._loop = loop
        self._add = add
        secure = any(url.startswith("https:") for url in settings.urls.values())
        self._tls = web_client_context(settings.tls) if secure else None
        self._tasks: set[asyncio.Task[str]] = set()
        # by host, port and whether they are encrypted; the last one was used last
        self._kept: dict[tuple[str, int, bool], list[WebConnection]] = {}

    def orders(self) -> Mapping[type[Effect], Callable[[Any], None]]:
        return {AskWebServer: self._ask}

    def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        for kept in self._kept.values():
            for connection in kept:
                connection.drop()

    def _ask(self, effect: AskWebServer) -> None:
        task = self._loop.create_task(self._response_text(effect))
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._asked(effect, done))

    def _asked(self, effect: AskWebServer, task: asyncio.Task[str]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            error = task.exception()
            answer, fault = (task.result(), "") if error is None else ("", _reason(error))
            self._add(WebServerAnswered(effect.ticket, effect.about, answer, fault))

    async def _response_text(self, effect: AskWebServer) -> str:
        url = urlsplit(self._settings.urls[effect.about])
        secure = url.scheme == "https"
        address = (url.hostname or "", url.port or (443 if secure else 80), secure)
        request = request_bytes(self._settings.method, url, address[1], effect.parameters)
        kept = self._take_kept(address)
        try:
            connection = kept or await self._connected(address)
            body = await self._exchanged(connection, request)
        except ConnectionGone:
            if kept is None:
                raise
            connection = await self._connected(address)
            body = await self._exchanged(connection, request)
        self._keep(address, connection)
        try:
            return body.decode("utf-8").strip(" ").lower()
        except UnicodeDecodeError:
            raise NoAnswer("the answer is not text") from None

    async def _connected(self, address: tuple[str, int, bool]) -> "WebConnection":
        host, port, secure = address
        timeout_s = self._settings.connection_timeout_ms / 1000
        try:
            async with asyncio.timeout(timeout_s):
                tls = self._tls if secure else None
                _transport, connection = await self._loop.create_connection(WebConnection, host, port, ssl=tls)
                return connection
        except TimeoutError:
            raise NoAnswer(f"no connection to {host}:{port} within {timeout_s:g} s") from None

    async def _exchanged(self, connection: "WebConnection", request: bytes) -> bytes:
        timeout_s = self._settings.request_timeout_ms / 1000
        try:
            async with asyncio.timeout(timeout_s):
                return await connection.exchange(request)
        except TimeoutError:
            raise NoAnswer(f"no response within {timeout_s:g} s") from None
        finally:
            if not connection.reusable:
                connection.drop()

    def _take_kept(self, address: tuple[str, int, bool]) -> "WebConnection | None":
        kept = self._kept.get(address, [])
        while kept:
            connection = kept.pop()
            if connection.reusable:
                return connection
        return None

    def _keep(self, address: tuple[str, int, bool], connection: "WebConnection") -> None:
        kept = self._kept.setdefault(address, [])
        if connection.reusable:
            kept.append(connection)
        while len(kept) > KEPT_CONNECTIONS_MAX:
            kept.pop(0).drop()


def _reason(error: BaseException) -> str:
    if isinstance(error, NoAnswer):
        return str(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason}"
    if isinstance(error, OSError):
        return error.strerror or str(error) or type(error).__name__
    # a defect of a library must not let a client wait for ever
    return f"the request failed: {type(error).__name__}"


def request_bytes(method: str, url: SplitResult, port: int, parameters: list[tuple[str, str]]) -> bytes:
    """A request with the parameters in the query, or in the body as a form would have them."""
    fields = urlencode(parameters, encoding="utf-8", errors="surrogateescape")
    path, host = url.path or "/", url.netloc.rpartition("@")[2]
    lines = [f"host: {host if url.port else f'{host}:{port}'}"]
    if method == GET:
        lines.insert(0, f"GET {path}?{fields} HTTP/1.1")
        body = ""
    else:
        lines.insert(0, f"POST {path} HTTP/1.1")
        lines += ["content-type: application/x-www-form-urlencoded", f"content-length: {len(fields)}"]
        body = fields
    return ("".join(f"{line}\r\n" for line in lines) + "\r\n" + body).encode("ascii")


class WebConnection(asyncio.Protocol):
    """One connection to the web server, with one request at a time."""

    def __init__(self) -> None:
        self.reusable = True
        self._transport: asyncio.Transport | None = None
        self._response: WebResponse | None = None
        self._done: asyncio.Future[None] | None = None

    async def exchange(self, request: bytes) -> bytes:
        """The body of the response; `NoAnswer` if it is not a good one."""
        assert self._transport is not None, "it is connected"
        assert self._response is None, "one request at a time"
        if self._transport.is_closing():
            self.reusable = False
            raise ConnectionGone("the connection was closed")
        self._response = WebResponse()
        self._done = asyncio.get_running_loop().create_future()
        self.reusable = False
        self._transport.write(request)
        await self._done
        response, self._response = self._response, None
        body = response.body()
        self.reusable = response.keeps_connection() and not self._transport.is_closing()
        return body

    def drop(self) -> None:
        self.reusable = False
        if self._transport is not None:
            self._transport.abort()

    # -- called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not subclasses
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._response is None or self._done is None or self._done.done():
            # nothing was asked: the next answer might be that of another question
            self.drop()
            return
        self._response.feed(data)
        if self._response.complete or self._response.fault:
            self._done.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        self.reusable = False
        if self._response is not None and self._done is not None and not self._done.done():
            self._response.end()
            self._done.set_result(None)


class WebResponse:
    """A response, as the parser reports it."""

    def __init__(self) -> None:
        self.complete = False
        self.fault = ""
        self._gone = False
        self._bytes = 0
        self._begun = 0
        # the response says where its body ends
        self._delimited = False
        self._keeps_connection = False
        self._parts: list[bytes] = []
        self._parser = httptools.HttpResponseParser(self)

    def feed(self, data: bytes) -> None:
        self._bytes += len(data)
        if self._bytes > RESPONSE_BYTES_MAX:
            self.fault = f"the response is larger than {RESPONSE_BYTES_MAX} bytes"
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.fault = "the response is not HTTP"
        if self._begun > 1:
            self.fault = "there is more than one response"

    def end(self) -> None:
        """The web server closed the connection."""
        self._gone = self._bytes == 0
        if self._delimited or not self._parser.get_status_code():
            self.fault = self.fault or "the response is incomplete"

    def body(self) -> bytes:
        """`NoAnswer` unless the response is a good one."""
        if self._gone:
            raise ConnectionGone("the connection was closed without a response")
        if self.fault:
            raise NoAnswer(self.fault)
        status = self._parser.get_status_code()
        if status not in _GOOD_STATUS:
            raise NoAnswer(f"the response has the status {status}")
        return b"".join(self._parts)

    def keeps_connection(self) -> bool:
        return self.complete and self._keeps_connection

    # -- called by the parser

    def on_message_begin(self) -> None:
        self._begun += 1

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() in (b"content-length", b"transfer-encoding"):
            self._delimited = True

    def on_body(self, body: bytes) -> None:
        self._parts.append(body)

    def on_message_complete(self) -> None:
        self.complete = True
        # the parser knows it until it returns
        self._keeps_connection = bool(self._parser.should_keep_alive())
