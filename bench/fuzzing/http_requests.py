"""Made-up HTTP requests: of every route with every method, with bodies made from the API's own schemas, and mutated.

A *framed* request can be told apart from the next one by any HTTP parser; its method, path, query, headers and body may
be as odd as they like. A *broken* one cannot: bytes are flipped, cut or inserted, lengths lie, or it is another
protocol.

Requests that would end the node, change its limits, or touch the well-behaved pair are not made: `is_spared`.

Not here: sending them (`http_door`).
"""

import base64
import json
import random
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

from warren.admin.api import api_router
from warren.admin.openapi import description

VHOST = "fuzz"
TAGS = ("administrator", "monitoring", "policymaker", "management", "none")
PROTECTED = {"/", "guest", "pair", *TAGS}
NAMES = (
    "thing",
    "thing",
    "thing",
    "other",
    "amq.topic",
    "amq.default",
    "",
    "~",
    "max-queues",
    "limits",
    "é",
    "a b",
    "x" * 260,
)
ODD_SEGMENTS = ("%", "%zz", "%00", "%2F", "%2f%2e%2e", "..", ".", "%ff%fe", "%0d%0a", "+", "?", ";", "a" * 3000)
ODD_TEXTS = (
    "",
    "0",
    "-1",
    "true",
    "null",
    "9" * 400,
    "1e999",
    "(",
    "(a+)+$",
    "\x00",
    "\ud800",
    "é" * 100,
    "../../etc/passwd",
    "<script>",
    "%s%n",
    "a,b,c.d..e.,",
)
ODD_VALUES: tuple[Any, ...] = (
    *ODD_TEXTS,
    None,
    True,
    0,
    -1,
    2**31,
    2**63,
    -(2**64),
    1.5,
    float("inf"),
    float("nan"),
    [],
    {},
    [[[[]]]],
    {"a": {"b": [None, {}]}},
    ["administrator", 1],
)
QUERY_NAMES = [
    "columns",
    "sort",
    "sort_reverse",
    "page",
    "page_size",
    "name",
    "use_regex",
    "pagination",
    "disable_stats",
    "enable_queue_totals",
    "lengths_age",
    "lengths_incr",
    "msg_rates_age",
    "msg_rates_incr",
    "data_rates_age",
    "data_rates_incr",
    "node_stats_age",
    "node_stats_incr",
    "if-unused",
    "if-empty",
    "download",
    "vhost",
    "family",
    "memory",
    "binary",
    "count",
    "mode",
]
METHODS = ("GET", "PUT", "POST", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "PROPFIND", "get", "X")
CONTENT_TYPES = (
    "application/json",
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=b",
    "multipart/form-data",
    "application/json; charset=utf-16",
    "\u00e9",
)
ODD_HEADERS = (
    "accept: text/html",
    "accept: */*;q=0",
    "accept-encoding: gzip, br, *;q=0",
    "x-reason: because",
    "if-modified-since: yesterday",
    "if-none-match: *",
    "range: bytes=0-1,5-,-3",
    "upgrade: websocket",
    "upgrade: h2c",
    "connection: upgrade, http2-settings",
    "connection: keep-alive",
    "expect: 100-continue",
    "origin: http://evil.example",
    "sec-fetch-site: cross-site",
    "host: evil.example",
    "x-forwarded-for: 10.0.0.1",
    "cookie: m=2258:9",
    "content-encoding: gzip",
    "authorization: Bearer x",
    "authorization: Basic !!!",
    "authorization: Basic " + base64.b64encode(b"nocolon").decode(),
    "x-a: " + "b" * 5000,
    "access-control-request-method: PUT",
)
HEADER_COUNTS = (0,) * 14 + (1, 1, 2, 3, 40)
PREFACES = (
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
    b"AMQP\x00\x00\x09\x01",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n",
    b"GET /\r\n",
    b"\r\n\r\n\r\n",
    b"\x00" * 50,
    b"CONNECT localhost:5672 HTTP/1.1\r\nhost: localhost\r\n\r\n",
)


@dataclass(frozen=True)
class MadeRequest:
    """One request on the wire. `broken`: what follows it on its connection may be read in any way."""

    method: str
    octets: bytes
    broken: bool


@dataclass(frozen=True)
class _Operation:
    method: str
    path: str
    schema: dict[str, Any] | None


def _operations() -> list[_Operation]:
    found = []
    for path, item in description(api_router())["paths"].items():
        for method in ("get", "put", "post", "delete"):
            if method in item:
                content = item[method].get("requestBody", {}).get("content", {})
                found.append(_Operation(method.upper(), path, content.get("application/json", {}).get("schema")))
    extra = ("/metrics", "/metrics/per-object", "/metrics/detailed", "/", "/index.html", "/js/main.js", "/api/", "//")
    return found + [_Operation("GET", path, None) for path in extra]


OPERATIONS = _operations()


def is_spared(method: str, target: str) -> bool:
    """Whether the request would end the node, change its limits, or touch the pair and its user."""
    path = unquote(unquote(target.partition("?")[0]))
    if method.upper() in ("GET", "HEAD", "OPTIONS"):
        return False
    if any(word in path for word in ("/stop", "settings", "log-levels", "membership", "draining", "/reset")):
        return True
    parts = [unquote(unquote(part)) for part in target.partition("?")[0].split("/")]
    return any(part in PROTECTED for part in parts[3:])


def made_request(draw: random.Random, user: str) -> MadeRequest:
    """`user` has its name as its password; empty: no login."""
    while True:
        operation = draw.choice(OPERATIONS)
        method = operation.method if draw.random() < 0.9 else draw.choice(METHODS)
        target = _target(draw, operation.path)
        if not is_spared(method, target):
            break
    body = _body(draw, operation.schema) if method not in ("GET", "HEAD") or draw.random() < 0.05 else b""
    octets = _framed(draw, method, target, user, body)
    if draw.random() < 0.08:
        return MadeRequest(method, _broken(draw, octets), True)
    return MadeRequest(method, octets, False)


def _target(draw: random.Random, template: str) -> str:
    segments = [_segment(draw, segment) for segment in template.split("/")]
    if draw.random() < 0.05:
        segments.insert(draw.randrange(1, len(segments) + 1), draw.choice(ODD_SEGMENTS))
    target = "/".join(segments)
    if draw.random() < 0.4:
        fields = [_query_field(draw) for _ in range(draw.choice((1, 1, 2, 4, 120)))]
        target += "?" + "&".join(fields)
    return target or "/"


def _segment(draw: random.Random, segment: str) -> str:
    if not segment.startswith("{"):
        return segment
    if segment == "{vhost}" and draw.random() < 0.8:
        return VHOST
    return draw.choice(ODD_SEGMENTS) if draw.random() < 0.1 else quote(draw.choice(NAMES), safe="")


def _query_field(draw: random.Random) -> str:
    name = draw.choice(QUERY_NAMES)
    value = draw.choice(ODD_TEXTS + NAMES).encode("utf-8", "surrogatepass")
    return name if draw.random() < 0.1 else f"{name}={quote(value)}"


def _body(draw: random.Random, schema: dict[str, Any] | None) -> bytes:
    chance = draw.random()
    if chance < 0.1:
        return draw.randbytes(draw.choice((1, 10, 1000, 70_000)))
    if chance < 0.2:
        head = b'--b\r\ncontent-disposition: form-data; name="file"\r\n\r\n'
        return head + _body(draw, schema)[:5000] + draw.choice((b"\r\n--b--\r\n", b"\r\n--b", b"", b"\r\n--b\r\n" * 20))
    value = draw.choice(ODD_VALUES) if schema is None else _made(draw, schema)
    text = json.dumps(value)
    if chance < 0.25:
        text = text.replace("{", draw.choice(("{{", "[", "")), 1)
    if chance > 0.98:
        text = "[" * 2000 + text + "]" * 2000
    return text.encode("utf-8", "surrogatepass")


def _made(draw: random.Random, schema: dict[str, Any], depth: int = 0) -> Any:
    """A value of this schema; one in eight is another one."""
    if depth > 6 or draw.random() < 0.12:
        return draw.choice(ODD_VALUES)
    for key in ("oneOf", "anyOf"):
        if key in schema:
            return _made(draw, draw.choice(schema[key]), depth + 1)
    if "enum" in schema:
        return draw.choice(schema["enum"])
    kind = schema.get("type", "object" if "properties" in schema else None)
    if isinstance(kind, list):
        kind = draw.choice(kind)
    if kind == "object":
        required = schema.get("required", ())
        known = schema.get("properties", {})
        chosen = {name: one for name, one in known.items() if name in required or draw.random() < 0.5}
        row = {name: _made(draw, one, depth + 1) for name, one in chosen.items()}
        if draw.random() < 0.2:
            row[draw.choice(NAMES)] = draw.choice(ODD_VALUES)
        return _spared(row)
    if kind == "array":
        return [_made(draw, schema.get("items", {}), depth + 1) for _ in range(draw.choice((0, 1, 2, 5)))]
    made = {"integer": draw.choice((0, 1, 5, 2**40)), "number": draw.random(), "boolean": draw.random() < 0.5}
    return made.get(kind, draw.choice(NAMES)) if isinstance(kind, str) else draw.choice(ODD_VALUES)


def _spared(row: dict[str, Any]) -> dict[str, Any]:
    """Not about the pair, and no addresses of other machines."""
    return {
        name: VHOST if value in ("/", *PROTECTED) and isinstance(value, str) else value for name, value in row.items()
    }


def _framed(draw: random.Random, method: str, target: str, user: str, body: bytes) -> bytes:
    lines = [f"{method} {target} HTTP/1.{0 if draw.random() < 0.03 else 1}", "host: localhost"]
    if user:
        lines.append("authorization: Basic " + base64.b64encode(f"{user}:{user}".encode()).decode())
    if body or draw.random() < 0.1:
        lines.append(f"content-type: {draw.choice(CONTENT_TYPES) if draw.random() < 0.3 else CONTENT_TYPES[0]}")
    lines += [draw.choice(ODD_HEADERS) for _ in range(draw.choice(HEADER_COUNTS))]
    if draw.random() < 0.2 and body:
        lines.append("transfer-encoding: chunked")
        body = _chunked(draw, body)
    elif body or draw.random() < 0.3:
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n" + body


def _chunked(draw: random.Random, body: bytes) -> bytes:
    cuts = sorted(draw.randrange(len(body) + 1) for _ in range(draw.randrange(4)))
    pieces = [body[start:end] for start, end in zip([0, *cuts], [*cuts, len(body)], strict=True)]
    extension = draw.choice((b"", b"", b";a=b", b";" + b"x" * 300))
    chunks = [b"%x%b\r\n%b\r\n" % (len(piece), extension, piece) for piece in pieces if piece]
    return b"".join(chunks) + b"0\r\n" + draw.choice((b"", b"", b"trailer: yes\r\n")) + b"\r\n"


def _broken(draw: random.Random, octets: bytes) -> bytes:
    chance = draw.random()
    at = draw.randrange(len(octets))
    if chance < 0.1:
        return draw.choice(PREFACES)
    if chance < 0.3:
        return octets[:at]
    if chance < 0.5:
        return octets[:at] + draw.randbytes(draw.randrange(1, 9)) + octets[at:]
    if chance < 0.7:
        spoilt = bytearray(octets)
        for _ in range(draw.randrange(1, 6)):
            spoilt[draw.randrange(len(spoilt))] = draw.randrange(256)
        return bytes(spoilt)
    if chance < 0.8:
        lie = draw.choice((b"-1", b"0", b"99999999999999999999", b"1, 2", b"0x10", b" ", b"5\r\ncontent-length: 6"))
        return octets.replace(b"\r\n\r\n", b"\r\ncontent-length: " + lie + b"\r\n\r\n", 1)
    if chance < 0.9:
        return octets.replace(b"\r\n", draw.choice((b"\n", b"\r", b"\r\n ", b"\x00\r\n")), draw.choice((1, 3, 100)))
    return octets.replace(
        b"\r\n\r\n", b"\r\ntransfer-encoding: " + draw.choice((b"gzip", b"chunked, x")) + b"\r\n\r\n", 1
    )
