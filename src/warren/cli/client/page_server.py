"""Pages served to people on this host, read only: a small HTTP server that asks for each page when it is wanted.

It listens on the loopback unless another host is named. There it answers to names of the loopback alone, so that a
page from elsewhere, whose name has been made to lead here, reads nothing.

Not here: what is on the pages.
"""

import ipaddress
import signal
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from warren.errors import ConfigError, WarrenError

LOOPBACK = "127.0.0.1"
REFRESH_S = 5
IDLE_S = 10.0


@dataclass(frozen=True)
class Content:
    """What is answered."""

    kind: str
    text: str


Source = Callable[[str], Content | None]
"""What there is at a path; None if nothing. A `WarrenError` is told, and the next may ask again."""


class PageServer(ThreadingHTTPServer):
    """Listens when it exists; a `ConfigError` if it cannot."""

    daemon_threads = True

    def __init__(self, address: str, source: Source) -> None:
        host, port = address_of(address)
        self.source = source
        self.one_at_a_time = threading.Lock()
        self.answers_to = {host, "localhost"} if _is_loopback(host) else None
        try:
            self.address_family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
            super().__init__((host, port), PageHandler)
        except OSError as error:
            raise ConfigError(f"cannot listen on {address}: {error.strerror}; choose another with --serve") from None

    @property
    def url(self) -> str:
        host, port = self.server_address[:2]
        name = f"[{host!s}]" if self.address_family == socket.AF_INET6 else str(host)
        return f"http://{name}:{port}/"


class PageHandler(BaseHTTPRequestHandler):
    """One connection; one that says nothing is closed."""

    timeout = IDLE_S
    server: PageServer

    def do_GET(self) -> None:
        status, content = self._answer()
        octets = content.text.encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{content.kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(octets)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("X-Frame-Options", "DENY")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(octets)

    def do_HEAD(self) -> None:
        self.do_GET()

    def _answer(self) -> tuple[HTTPStatus, Content]:
        answers_to = self.server.answers_to
        if answers_to is not None and _host_of(self.headers.get("Host", "")) not in answers_to:
            return HTTPStatus.FORBIDDEN, Content("text/plain", "this is served to the host itself\n")
        try:
            # many who ask at once cost the database no more than one
            with self.server.one_at_a_time:
                found = self.server.source(urlsplit(self.path).path)
        except WarrenError as error:
            return HTTPStatus.SERVICE_UNAVAILABLE, Content("text/plain", f"{error}\n")
        if found is None:
            return HTTPStatus.NOT_FOUND, Content("text/plain", "there is nothing here\n")
        return HTTPStatus.OK, found

    def log_message(self, format: str, *arguments: object) -> None:
        """Nobody wants a line for each look."""


def serve(address: str, source: Source) -> None:
    """Tell where it is served, and serve until SIGTERM or Ctrl-C."""
    with PageServer(address, source) as server:
        print(server.url, flush=True)

        def stop(*_: object) -> None:
            # which waits for the loop that this interrupts
            threading.Thread(target=server.shutdown).start()

        before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            server.serve_forever(poll_interval=0.1)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def address_of(text: str) -> tuple[str, int]:
    """`PORT` of the loopback, or `HOST:PORT`."""
    host, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ConfigError(f"--serve is PORT or HOST:PORT, with a port from 0 to 65535, not {text!r}")
    return host.removeprefix("[").removesuffix("]") or LOOPBACK, int(port)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _host_of(header: str) -> str | None:
    try:
        return urlsplit(f"//{header}").hostname
    except ValueError:
        return None
