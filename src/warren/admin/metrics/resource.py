"""The paths that a Prometheus server scrapes: `/metrics`, `/metrics/per-object`, `/metrics/detailed`.

As with RabbitMQ's plugin, whoever reaches the port may scrape: figures and names are told, messages are not. So how
much that may cost is bounded: few scrapes are under way at a time, one more is told to come again.

Not here: the documents (`metrics.groups`), where they are served (`node.http_door`).
"""

import time
import zlib
from collections.abc import AsyncIterator
from urllib.parse import parse_qsl

from warren.admin.http.answers import Answer
from warren.admin.http.call import Call
from warren.admin.http.router import Resource
from warren.admin.metrics.groups import PER_OBJECT, WHOLE, Group, named
from warren.admin.metrics.scene import Scene
from warren.admin.metrics.scrape import scrape
from warren.admin.metrics.telemetry import Telemetry
from warren.admin.metrics.text import CONTENT_TYPE
from warren.admin.station import Station

_ACCEPTABLE = ("text/plain", "text/*", "*/*")
# streams are long and alike: more effort gains little
_GZIP_LEVEL = 1
_GZIP_WINDOW = 16 + zlib.MAX_WBITS

PATH = "/metrics"
SCRAPES_MAX = 16


class Metrics:
    """Answers scrapes."""

    def __init__(self, station: Station, per_object: bool = False) -> None:
        """`per_object`: a sample for each object is what is told when nothing is said."""
        self._station = station
        self._per_object = per_object
        self._telemetry = Telemetry()
        self._under_way = 0

    def routes(self, path: str = PATH) -> dict[str, Resource]:
        path = path.rstrip("/")
        return {
            path or "/": Resource(None, {"GET": self.default}),
            f"{path}/{{registry}}": Resource(None, {"GET": self.named}),
        }

    async def default(self, call: Call) -> Answer:
        return self._answer(call, "default", PER_OBJECT if self._per_object else WHOLE)

    async def named(self, call: Call) -> Answer:
        registry = call.params["registry"]
        if registry == "default":
            return await self.default(call)
        if registry == "per-object":
            return self._answer(call, registry, PER_OBJECT)
        if registry == "detailed":
            query = call.request.scope["query_string"].decode("ascii", "replace")
            asked = parse_qsl(query, keep_blank_values=True, errors="surrogateescape")
            vhosts = frozenset(value for name, value in asked if name == "vhost")
            groups = named([value for name, value in asked if name == "family"])
            return self._answer(call, registry, groups, vhosts or None)
        return Answer(404, b"Unknown Registry", "text/plain")

    def _answer(self, call: Call, registry: str, groups: list[Group], vhosts: frozenset[str] | None = None) -> Answer:
        if not _accepts(call.header("accept")):
            return Answer(406)
        if call.method == "HEAD":
            return Answer(204)
        if self._under_way >= SCRAPES_MAX:
            return Answer(503, b"Too many scrapes at once", "text/plain", {"retry-after": "1"})
        station = self._station
        scene = Scene(station.broker, station.facts, station.accounts, vhosts)
        encoding = "gzip" if "gzip" in call.header("accept-encoding").lower() else "identity"
        headers = {} if encoding == "identity" else {"content-encoding": encoding}
        chunks = self._counted(self._chunks(scrape(groups, scene), registry, encoding))
        return Answer(200, content_type=CONTENT_TYPE, headers=headers, chunks=chunks)

    async def _counted(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        self._under_way += 1
        try:
            async for chunk in chunks:
                yield chunk
        finally:
            self._under_way -= 1

    async def _chunks(self, document: AsyncIterator[str], registry: str, encoding: str) -> AsyncIterator[bytes]:
        started, size_bytes, encoded_bytes = time.perf_counter(), 0, 0
        packer = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP_WINDOW) if encoding == "gzip" else None
        async for piece in _with_end(document, self._telemetry):
            chunk = piece.encode()
            size_bytes += len(chunk)
            if packer is not None:
                chunk = packer.compress(chunk)
            encoded_bytes += len(chunk)
            if chunk:
                yield chunk
        if packer is not None:
            chunk = packer.flush()
            encoded_bytes += len(chunk)
            yield chunk
        self._telemetry.scraped(registry, encoding, time.perf_counter() - started, size_bytes, encoded_bytes)


async def _with_end(document: AsyncIterator[str], telemetry: Telemetry) -> AsyncIterator[str]:
    async for piece in document:
        yield piece
    yield telemetry.text()


def _accepts(header: str) -> bool:
    ranges = [part.partition(";")[0].strip().lower() for part in header.split(",")]
    return not header or any(media in _ACCEPTABLE for media in ranges)
