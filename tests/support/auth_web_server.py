"""A small web server that decides logins and permissions, for nodes with the backend `http`.

Its answers are a function of the path and the parameters, and it keeps every request. It may also do what a web server
must not do: say nothing, close the connection, send bytes that are no HTTP.

Not here: the tests that use it.
"""

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self
from urllib.parse import parse_qsl, urlsplit


@dataclass(frozen=True)
class Question:
    """A request: its HTTP method, the last part of its path (user, vhost, resource, topic), its parameters in order."""

    method: str
    about: str
    parameters: tuple[tuple[str, str], ...]

    def __getitem__(self, name: str) -> str:
        return dict(self.parameters).get(name, "")


@dataclass(frozen=True)
class Answer:
    """A response; `raw` takes the place of all of it, and an empty `raw` closes the connection."""

    body: str = "allow"
    status: int = 200
    location: str = ""
    raw: bytes | None = None


Decide = Callable[[Question], Answer]


def allow(question: Question) -> Answer:
    return Answer()


class AuthWebServer:
    """A web server on a free port of the loopback, with TLS if it has a certificate and a key."""

    def __init__(self, decide: Decide = allow, certificate: tuple[str, str] | None = None) -> None:
        self.decide = decide
        self.questions: list[Question] = []
        # how many connections were accepted, and the most requests that waited for an answer at the same time
        self.connections = 0
        self.waiting_max = 0
        self._waiting = 0
        self._lock = threading.Lock()
        self.sockets: set[socket.socket] = set()
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self._scheme = "http"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
            self._scheme = "https"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def settings(self, *further: str) -> str:
        """The lines of a configuration file that name this server."""
        names = ("user", "vhost", "resource", "topic")
        paths = [f"auth_http.{name}_path = {self._scheme}://localhost:{self.port}/auth/{name}" for name in names]
        return "".join(f"{line}\n" for line in ["auth_backends.1 = http", *paths, *further])

    def about(self, name: str) -> list[Question]:
        with self._lock:
            return [question for question in self.questions if question.about == name]

    def answer(self, question: Question) -> Answer:
        with self._lock:
            self.questions.append(question)
            self._waiting += 1
            self.waiting_max = max(self.waiting_max, self._waiting)
        try:
            return self.decide(question)
        finally:
            with self._lock:
                self._waiting -= 1

    def close(self) -> None:
        """Accept no connections, and close those that are open. A second time it does nothing."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()
        for open_socket in list(self.sockets):
            with contextlib.suppress(OSError):
                open_socket.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that closes the connection is no news."""


def _handler(server: AuthWebServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            server.connections += 1
            super().setup()
            server.sockets.add(self.connection)

        def finish(self) -> None:
            server.sockets.discard(self.connection)
            super().finish()

        def do_GET(self) -> None:
            self._respond("GET", urlsplit(self.path).query)

        def do_POST(self) -> None:
            assert self.headers["content-type"] == "application/x-www-form-urlencoded"
            self._respond("POST", self.rfile.read(int(self.headers["content-length"])).decode("ascii"))

        def _respond(self, method: str, query: str) -> None:
            about = urlsplit(self.path).path.rpartition("/")[2]
            parameters = tuple(parse_qsl(query, keep_blank_values=True, errors="surrogateescape"))
            answer = server.answer(Question(method, about, parameters))
            if answer.raw is not None:
                self.wfile.write(answer.raw)
                self.close_connection = True
                return
            body = answer.body.encode()
            self.send_response(answer.status)
            if answer.location:
                self.send_header("location", answer.location)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    return Handler
