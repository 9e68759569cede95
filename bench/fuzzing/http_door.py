"""Made-up requests at the HTTP port of a real node, beside a well-behaved pair: what must hold meanwhile.

A *world* is a node of its own, and a fixed number of requests that its seed and number decide. Several connections
send at once; a connection has one user, and sends a handful of requests, one after another or all at once.

Checked in every world:

- every answer to a framed request is well formed: status line, headers, a body of the announced length, JSON if it says
  so; its status is not 5xx but for the 503 of a health check, a full metrics port or an overfull node;
- the log has no internal error, and the node does not end;
- the pair is served as `tests.hostile.rule` says, and no turn and no step of a request is slow;
- when all connections are closed, the node has as many descriptors as before, and its memory has grown by less than
  `GROWTH_BYTES_MAX`.

Not here: the requests (`http_requests`).
"""

import asyncio
import json
import os
import random
import re
import tempfile
from collections import Counter
from pathlib import Path

from bench.fuzzing.http_requests import TAGS, VHOST, MadeRequest, made_request
from tests.hostile.bystanders import Bystanders
from tests.hostile.rule import check_holds
from tests.support.deadlines import eventually
from tests.support.node_process import NodeProcess
from tests.support.operator import Operator

SESSIONS_AT_ONCE = 64
IDLE_S = 0.02
"""The wait for an answer to a broken request, which may be the beginning of one."""
ANSWER_S = 30.0
ERROR_LINES = 40
GROWTH_BYTES_MAX = 200 * 1024 * 1024
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3}) [^\r\n]*\r\n")
_BAD_LINES = re.compile(r"level=(?:error|critical)|Traceback|http\.failed|task\.failed")
_SERVED_503 = ("/health", "/metrics", "/warren/fitness", "/aliveness")


class Disturbed(Exception):
    """Something that must hold did not."""


class HttpWorld:
    """One node and its made-up requests."""

    def __init__(self, seed: int, number: int, requests: int) -> None:
        self.statuses: Counter[int] = Counter()
        self.sent = 0
        self.broken = 0
        # of the session that failed
        self.blamed: list[bytes] = []
        self._seed = seed
        self._number = number
        self._requests = requests

    def run(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            node = NodeProcess(Path(folder), configuration="log.default.level = info\n")
            try:
                self._set_up(node)
                self._disturb(node)
                check_holds(node)
                assert not _errors(node), "the log has errors"
                node.stop()
            except (AssertionError, Disturbed) as broken:
                raise Disturbed(f"{broken}\n{_errors(node)}") from broken
            finally:
                if node.alive:
                    node.kill()

    def _set_up(self, node: NodeProcess) -> None:
        operator = Operator(node.addresses["http"])
        operator.vhost(VHOST)
        for tag in TAGS:
            operator.user(tag, "" if tag == "none" else tag)
            operator.permit(tag, vhost=VHOST)
        operator.permit("guest", vhost=VHOST)

    def _disturb(self, node: NodeProcess) -> None:
        asyncio.run(self._warm_up(node))
        descriptors, resident = _descriptors(node), node.resident_bytes()
        with Bystanders(node) as pair:
            asyncio.run(self._send_all(node))
            pair.wait_for_rounds(20)
        eventually(
            lambda: _descriptors(node) <= descriptors + 2,
            lambda: f"{_descriptors(node)} open files, {descriptors} before",
        )
        grown = node.resident_bytes() - resident
        if grown > GROWTH_BYTES_MAX:
            raise Disturbed(f"the node grew by {grown / 1e6:.0f} MB")

    async def _warm_up(self, node: NodeProcess) -> None:
        await self._session(
            node, random.Random(0), [MadeRequest("GET", b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n", False)]
        )

    async def _send_all(self, node: NodeProcess) -> None:
        await asyncio.gather(*(self._sessions(node, lane) for lane in range(SESSIONS_AT_ONCE)))

    async def _sessions(self, node: NodeProcess, lane: int) -> None:
        draw = random.Random(f"{self._seed} {self._number} {lane}")
        left = self._requests // SESSIONS_AT_ONCE
        while left > 0:
            user = draw.choice(("", "administrator", "administrator", *TAGS))
            requests = [made_request(draw, user) for _ in range(min(draw.choice((1, 4, 12)), left))]
            left -= len(requests)
            await self._session(node, draw, requests)

    async def _session(self, node: NodeProcess, draw: random.Random, requests: list[MadeRequest]) -> None:
        reader, writer = await asyncio.open_connection(*node.addresses["http"])
        try:
            ahead = draw.random() < 0.3 and not any(request.broken for request in requests)
            if ahead:
                writer.write(b"".join(request.octets for request in requests))
            await self._converse(requests, ahead, reader, writer)
        except ConnectionError:
            # the node closes a connection after some faults
            pass
        except Exception:
            self.blamed = [request.octets for request in requests]
            raise
        finally:
            writer.transport.abort()

    async def _converse(
        self, requests: list[MadeRequest], ahead: bool, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """One request after another, unless they were sent ahead of their answers. After a broken one nothing is
        certain but that the node says something HTTP."""
        self.sent += len(requests) if ahead else 0
        for request in requests:
            if not ahead:
                writer.write(request.octets)
                self.sent += 1
            if request.broken:
                self.broken += 1
                await self._hear_anything(reader)
                return
            try:
                async with asyncio.timeout(ANSWER_S):
                    status, closes = await _answer(reader, request)
            except asyncio.IncompleteReadError as ended:
                raise Disturbed(f"an answer that does not end: {ended.partial[:80]!r}") from ended
            except TimeoutError:
                raise Disturbed(f"no answer within {ANSWER_S:.0f} s") from None
            self.statuses[status] += 1
            if status >= 500 and not (status == 503 and any(word.encode() in request.octets for word in _SERVED_503)):
                raise Disturbed(f"status {status}")
            if closes:
                return

    async def _hear_anything(self, reader: asyncio.StreamReader) -> None:
        try:
            async with asyncio.timeout(IDLE_S):
                start = await reader.read(64 * 1024)
        except TimeoutError:
            return
        if start and not start.startswith(b"HTTP/1."):
            raise Disturbed(f"an answer begins with {start[:40]!r}")


def _errors(node: NodeProcess) -> str:
    """The first internal error in the log, with its traceback."""
    lines = node.log().splitlines()
    first = next((at for at, line in enumerate(lines) if _BAD_LINES.search(line)), len(lines))
    return "\n".join(lines[first : first + ERROR_LINES])


def _descriptors(node: NodeProcess) -> int:
    return len(os.listdir(f"/proc/{node.pid}/fd"))


async def _answer(reader: asyncio.StreamReader, request: MadeRequest) -> tuple[int, bool]:
    """The status of a well-formed answer, and whether the connection ends with it; raises `Disturbed` for another."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as ended:
        if ended.partial:
            raise
        raise ConnectionResetError from ended
    found = _STATUS.match(head)
    if found is None:
        raise Disturbed(f"no status line: {head[:80]!r}")
    status = int(found[1])
    if status == 100:
        return await _answer(reader, request)
    headers = _headers(head[found.end() : -2])
    body = await _answer_body(reader, headers, bare=request.method == "HEAD" or status in (204, 304))
    if body and headers.get("content-type", "").startswith("application/json") and "content-encoding" not in headers:
        try:
            json.loads(body)
        except ValueError:
            raise Disturbed(f"not JSON: {body[:80]!r}") from None
    return status, headers.get("connection") == "close"


def _headers(block: bytes) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in block.split(b"\r\n")[:-1]:
        name, colon, value = line.partition(b":")
        if not colon or not re.fullmatch(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name) or b"\n" in value or b"\x00" in value:
            raise Disturbed(f"not a header: {line[:80]!r}")
        headers[name.decode().lower()] = value.strip().decode("latin-1")
    return headers


async def _answer_body(reader: asyncio.StreamReader, headers: dict[str, str], bare: bool) -> bytes:
    if bare:
        return b""
    if headers.get("transfer-encoding") == "chunked":
        body = b""
        while size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readexactly(2)
        return body
    if "content-length" not in headers:
        if headers.get("connection") != "close":
            raise Disturbed("an answer has neither a length nor an end")
        return await reader.read()
    return await reader.readexactly(int(headers["content-length"]))
