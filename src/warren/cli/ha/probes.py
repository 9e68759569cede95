"""Questions to a single port, as a client and as a load balancer would ask them.

A probe answers within its patience, whatever is at the other end, and never raises.

Not here: which ports (`cli.ha.looking`), what the answers mean (`ha.verdict`).
"""

import contextlib
import email.utils
import http.client
import json
import socket
import ssl
import struct
import time
from typing import Any

from warren.errors import WarrenError
from warren.ha.deployment import BALANCER_HEADER, FITNESS_PATH
from warren.ha.sightings import Answer, Greeting
from warren.wire.methods.connection import ConnectionStart
from warren.wire.methods.registry import decode_method

PATIENCE_S = 4.0
LOCAL_HEADER = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0"
"""PROXY protocol, version 2: whoever sends this speaks for itself."""
_AMQP_HEADER = b"AMQP\0\0\x09\x01"
_FRAME_HEAD = struct.Struct(">BHI")
_FRAME_MAX = 131_072


class _Silent(Exception):
    """The other end took the connection, and closed it without a word."""


class _Unreached(Exception):
    """There is no other end."""


def greet(host: str, port: int, *, tls: bool = False, header: bool = False) -> Greeting:
    """Begin an AMQP connection, as far as the server says who it is."""
    try:
        with _connected(host, port, tls, header) as connection:
            connection.sendall(_AMQP_HEADER)
            start = _start_of(connection)
    except _Silent:
        return Greeting(port, refusal="it closes the connection", silent=True)
    except _Unreached as error:
        return Greeting(port, refusal=str(error), unreached=True)
    except (OSError, ValueError, WarrenError) as error:
        return Greeting(port, refusal=_words(error))
    properties = dict(start.server_properties)
    return Greeting(port, _text(properties.get("product")), _text(properties.get("version")))


def ask_fitness(host: str, port: int, *, tls: bool = False, header: bool = False) -> Answer:
    """How the node, or the one a balancer chooses, is."""
    connection = http.client.HTTPConnection(host, port, timeout=PATIENCE_S)
    try:
        # the header comes before anything of HTTP, and before TLS
        connection.sock = _connected(host, port, tls, header)
        begun = time.time()
        connection.request("GET", FITNESS_PATH)
        answer = connection.getresponse()
        body = answer.read(65536)
    except (http.client.RemoteDisconnected, ConnectionResetError, _Silent):
        return Answer(port, refusal="it closes the connection", silent=True)
    except _Unreached as error:
        return Answer(port, refusal=str(error), unreached=True)
    except (OSError, ValueError, http.client.HTTPException) as error:
        return Answer(port, refusal=_words(error))
    finally:
        connection.close()
    standing, node, reasons = _fitness(body)
    return Answer(
        port,
        answer.status,
        answer.headers.get(BALANCER_HEADER, ""),
        standing,
        node,
        reasons,
        _ahead_s(answer.headers.get("date"), (begun + time.time()) / 2),
    )


def _connected(host: str, port: int, tls: bool, header: bool) -> socket.socket:
    try:
        connection = socket.create_connection((host, port), PATIENCE_S)
    except OSError as error:
        raise _Unreached(_words(error)) from error
    try:
        if header:
            connection.sendall(LOCAL_HEADER)
        return _without_trust().wrap_socket(connection, server_hostname=host) if tls else connection
    except (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionResetError) as error:
        connection.close()
        raise _Silent from error
    except BaseException:
        connection.close()
        raise


def _without_trust() -> ssl.SSLContext:
    """Whether the certificate is good is for clients to judge; here the question is who answers."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _start_of(connection: socket.socket) -> ConnectionStart:
    kind, _, size = _FRAME_HEAD.unpack(_exactly(connection, _FRAME_HEAD.size))
    if kind != 1 or size > _FRAME_MAX:
        raise ValueError("what answers does not speak AMQP 0-9-1")
    payload = _exactly(connection, size)
    method = decode_method(payload, 0, size)
    if not isinstance(method, ConnectionStart):
        raise ValueError("what answers does not begin as an AMQP broker does")
    return method


def _exactly(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        try:
            more = connection.recv(size - len(received))
        except ConnectionResetError:
            more = b""
        if not more:
            raise _Silent
        received += more
    return received


def _fitness(body: bytes) -> tuple[str, str, tuple[str, ...]]:
    found: Any = None
    with contextlib.suppress(ValueError, RecursionError):
        found = json.loads(body)
    if not isinstance(found, dict) or not {"status", "node", "reasons"} <= found.keys():
        return "", "", ()
    if not isinstance(found["reasons"], list):
        return "", "", ()
    sentences = tuple(str(reason.get("sentence", "")) for reason in found["reasons"] if isinstance(reason, dict))
    return str(found["status"]), str(found["node"]), sentences


def _ahead_s(date: str | None, here: float) -> float:
    """A date counts whole seconds, and was one of them at any moment of it."""
    try:
        there = email.utils.parsedate_to_datetime(date or "").timestamp()
    except ValueError:
        return 0.0
    return there + 0.5 - here


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")


def _words(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {PATIENCE_S:g} s"
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()
