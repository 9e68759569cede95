"""The paths that Prometheus scrapes: `/metrics`, `/metrics/per-object`, `/metrics/detailed`.

On the metrics port a scrape needs no login unless the operator asks for one, as with RabbitMQ's plugin. On the HTTP
port, which more people reach, samples with the names of objects need one: names of queues, virtual hosts and users are
not for strangers. A login must have the tag `monitoring`. The cost is bounded: few scrapes run at a time, and further
ones are told to come again.

All samples of a family stand together, but values are read object by object. So for each group all values are read
first, as columns, and then written column by column. Memory holds a number for each sample of the largest group and a
label for each object, not the text: 10,000 queues take 3 MB. The text is many times that and leaves in pieces. The
event loop is held for at most a slice (`admin.time_slices`).

The metrics of scrapes themselves describe earlier scrapes. A duration includes waiting for other scrapes and for a slow
reader.

Not here: registries (`metrics.groups`), listeners (`node.http_listeners`).
"""

import time
import zlib
from collections.abc import AsyncIterator

from warren.admin.context import AdminContext
from warren.admin.http.request import ApiRequest
from warren.admin.http.responses import ApiResponse
from warren.admin.http.router import AccessLevel, Resource
from warren.admin.metrics.groups import PER_OBJECT, WHOLE, MetricGroup, named
from warren.admin.metrics.scrape_source import ScrapeSource
from warren.admin.metrics.text import CONTENT_TYPE, SUMMARY, MetricFamily, Value, labels, number
from warren.admin.time_slices import TimeSlicer

STEP_ROWS = 50
PIECE_SAMPLES = 1000


async def scrape(groups: list[MetricGroup], source: ScrapeSource) -> AsyncIterator[str]:
    """The text, in pieces."""
    pace = TimeSlicer()
    small: list[str] = []
    for group in groups:
        names, columns = await _read(group, source, pace)
        for family, column in zip(group.families, columns, strict=True):
            small.append(family.head(group.prefix))
            for first in range(0, len(names), PIECE_SAMPLES):
                after = first + PIECE_SAMPLES
                small.append(_samples(group.prefix + family.name, names[first:after], column[first:after]))
                if len(names) >= PIECE_SAMPLES:
                    yield "".join(small)
                    small.clear()
                await pace.rest()
    yield "".join(small)


async def _read(group: MetricGroup, source: ScrapeSource, pace: TimeSlicer) -> tuple[list[str], list[list[Value]]]:
    names: list[str] = []
    rows: list[list[Value]] = [[] for _ in group.families]
    appends = [column.append for column in rows]
    for at, (name, values) in enumerate(group.rows(source)):
        names.append(name)
        for append, value in zip(appends, values, strict=True):
            append(value)
        if at % STEP_ROWS == STEP_ROWS - 1:
            await pace.rest()
    return names, rows


def _samples(name: str, names: list[str], column: list[Value]) -> str:
    return "".join([f"{name}{label} {number(value)}\n" for label, value in zip(names, column, strict=True)])


_DURATION = MetricFamily("telemetry_scrape_duration_seconds", SUMMARY, "Scrape duration")
_SIZE = MetricFamily("telemetry_scrape_size_bytes", SUMMARY, "Scrape size, not encoded")
_ENCODED = MetricFamily("telemetry_scrape_encoded_size_bytes", SUMMARY, "Scrape size, encoded")


class ScrapeTelemetry:
    """Counts and sums of scrapes since the node started."""

    def __init__(self) -> None:
        self._durations: dict[str, tuple[int, float]] = {}
        self._sizes: dict[str, tuple[int, float]] = {}
        self._encoded: dict[str, tuple[int, float]] = {}

    def scraped(self, registry: str, encoding: str, duration_s: float, size_bytes: int, encoded_bytes: int) -> None:
        where = labels(registry=registry, content_type=CONTENT_TYPE)
        _add(self._durations, where, duration_s)
        _add(self._sizes, where, size_bytes)
        _add(self._encoded, labels(registry=registry, content_type=CONTENT_TYPE, encoding=encoding), encoded_bytes)

    def text(self) -> str:
        families = [(_DURATION, self._durations), (_SIZE, self._sizes), (_ENCODED, self._encoded)]
        return "".join(_summary(family, samples) for family, samples in families)


def _add(samples: dict[str, tuple[int, float]], where: str, value: float) -> None:
    count, total = samples.get(where, (0, 0))
    samples[where] = count + 1, total + value


def _summary(family: MetricFamily, samples: dict[str, tuple[int, float]]) -> str:
    lines = [family.head("")]
    for where, (count, total) in samples.items():
        lines.append(f"{family.name}_count{where} {count}\n{family.name}_sum{where} {total}\n")
    return "".join(lines)


_ACCEPTABLE = ("text/plain", "text/*", "*/*")
# the text is repetitive: more effort gains little
_GZIP_LEVEL = 1
_GZIP_WINDOW = 16 + zlib.MAX_WBITS

PATH = "/metrics"
SCRAPES_MAX = 16


class Metrics:
    """Handles scrapes."""

    def __init__(self, context: AdminContext, per_object: bool = False) -> None:
        """`per_object`: `/metrics` has a sample for each object."""
        self._context = context
        self._per_object = per_object
        self._telemetry = ScrapeTelemetry()
        self._under_way = 0

    def routes(self, path: str, totals: AccessLevel | None, objects: AccessLevel | None) -> dict[str, Resource]:
        """`totals` and `objects` are the access levels of samples without and with names of objects."""
        path = path.rstrip("/")
        default = Resource(objects if self._per_object else totals, {"GET": self.default})
        return {
            path or "/": default,
            f"{path}/default": default,
            f"{path}/{{registry}}": Resource(objects, {"GET": self.named}),
        }

    async def default(self, call: ApiRequest) -> ApiResponse:
        return self._answer(call, "default", PER_OBJECT if self._per_object else WHOLE)

    async def named(self, call: ApiRequest) -> ApiResponse:
        registry = call.params["registry"]
        if registry == "per-object":
            return self._answer(call, registry, PER_OBJECT)
        if registry == "detailed":
            vhosts = frozenset(value for name, value in call.query_fields if name == "vhost")
            groups = named([value for name, value in call.query_fields if name == "family"])
            return self._answer(call, registry, groups, vhosts or None)
        return ApiResponse(404, b"Unknown Registry", "text/plain")

    def _answer(
        self, call: ApiRequest, registry: str, groups: list[MetricGroup], vhosts: frozenset[str] | None = None
    ) -> ApiResponse:
        if not _accepts(call.header("accept")):
            return ApiResponse(406)
        if call.method == "HEAD":
            return ApiResponse(204)
        if self._under_way >= SCRAPES_MAX:
            return ApiResponse(503, b"Too many scrapes at once", "text/plain", {"retry-after": "1"})
        context = self._context
        source = ScrapeSource(context.broker, context.facts, context.authenticator, vhosts)
        encoding = "gzip" if "gzip" in call.header("accept-encoding").lower() else "identity"
        headers = {} if encoding == "identity" else {"content-encoding": encoding}
        chunks = self._counted(self._chunks(scrape(groups, source), registry, encoding))
        return ApiResponse(200, content_type=CONTENT_TYPE, headers=headers, chunks=chunks)

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


async def _with_end(document: AsyncIterator[str], telemetry: ScrapeTelemetry) -> AsyncIterator[str]:
    async for piece in document:
        yield piece
    yield telemetry.text()


def _accepts(header: str) -> bool:
    ranges = [part.partition(";")[0].strip().lower() for part in header.split(",")]
    return not header or any(media in _ACCEPTABLE for media in ranges)
