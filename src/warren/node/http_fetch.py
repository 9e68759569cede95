"""Fetches one document over HTTP, for the node itself: an issuer's keys.

One connection for each request, a bound on the size of the answer and on the time of all of it. Redirects are not
followed: the operator names the place. A host name is resolved by the event loop's threads.

Not here: which documents (`node.signing_keys`), the HTTP server (`admin.http.server`).
"""

import asyncio
import ssl
from dataclasses import dataclass
from urllib.parse import urlsplit

import httptools

READ_BYTES = 64 * 1024


class FetchFailed(Exception):
    """There was no usable answer; the text says why."""


@dataclass(frozen=True)
class FetchLimits:
    """The most that one answer may cost."""

    body_bytes_max: int = 256 * 1024
    timeout_s: float = 5.0


async def fetch(url: str, tls: ssl.SSLContext | None, limits: FetchLimits) -> bytes:
    """The body of a 200 response; `FetchFailed` for anything else."""
    try:
        async with asyncio.timeout(limits.timeout_s):
            return await _fetch(url, tls, limits.body_bytes_max)
    except TimeoutError:
        raise FetchFailed(f"no answer within {limits.timeout_s:g} s") from None
    except OSError as error:
        raise FetchFailed(error.strerror or str(error) or type(error).__name__) from None
    except (httptools.HttpParserError, ValueError) as error:
        raise FetchFailed(f"the answer is not HTTP: {error}") from None


async def _fetch(url: str, tls: ssl.SSLContext | None, body_bytes_max: int) -> bytes:
    parts = urlsplit(url)
    host, secure = parts.hostname or "", parts.scheme == "https"
    port = parts.port or (443 if secure else 80)
    reader, writer = await asyncio.open_connection(host, port, ssl=tls if secure else None)
    try:
        path = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
        lines = [f"GET {path} HTTP/1.1", f"host: {parts.netloc}", "accept: application/json", "connection: close"]
        writer.write("".join(f"{line}\r\n" for line in [*lines, ""]).encode("ascii"))
        answer = _Answer(body_bytes_max)
        while not answer.complete:
            data = await reader.read(READ_BYTES)
            if not data:
                break
            answer.feed(data)
        return answer.body()
    finally:
        writer.transport.abort()


class _Answer:
    """An HTTP response, as the parser reports it."""

    def __init__(self, body_bytes_max: int) -> None:
        self.complete = False
        self._bytes_left = body_bytes_max
        # status line and headers count as well
        self._head_left = body_bytes_max
        self._parts: list[bytes] = []
        self._parser = httptools.HttpResponseParser(self)

    def feed(self, data: bytes) -> None:
        if not self._parts:
            self._head_left -= len(data)
        if self._head_left < 0:
            raise FetchFailed("the answer is too large")
        self._parser.feed_data(data)
        if self._bytes_left < 0:
            raise FetchFailed("the answer is too large")

    def body(self) -> bytes:
        status = self._parser.get_status_code()
        if status != 200:
            raise FetchFailed(f"the answer has the status {status}" if status else "the connection was closed")
        if not self.complete and self._parser.should_keep_alive():
            raise FetchFailed("the answer is incomplete")
        return b"".join(self._parts)

    # -- called by the parser

    def on_body(self, body: bytes) -> None:
        self._bytes_left -= len(body)
        if self._bytes_left >= 0:
            self._parts.append(body)

    def on_message_complete(self) -> None:
        self.complete = True
