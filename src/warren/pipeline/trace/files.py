"""Trace files as Spark reads them: the lines of all traces in a folder, each with its place, in micro-batches.

    spark.dataSource.register(TraceFiles)
    spark.readStream.format("warren-trace-files").option("directory", "var/traces").load()

| column  |         |                                                                      |
|---------|---------|----------------------------------------------------------------------|
| `trace` | string  | the name of its file without `.log`                                  |
| `piece` | bigint  | the number of the file (`trace.pieces`)                              |
| `byte`  | bigint  | where the line begins in it                                          |
| `line`  | binary  | without the line feed; whatever is between two of them               |

| option            | if it is not given      |                                                     |
|-------------------|-------------------------|-----------------------------------------------------|
| `directory`       | must be given           | where every task finds the files                    |
| `traces`          | all                     | names with commas                                   |
| `maxBytesPerTrigger` | 256 MiB              | what a micro-batch reads at most, to the line       |
| `failOnDataLoss`  | `true`                  | whether it is an error that files are gone          |

**Offsets.** Of each trace that has been seen: the piece and the byte up to which it is read, and those from which on
that micro-batch read it. So what a micro-batch reads stands in its end, without a look at the folder, and is the same
whenever Spark asks for it again: for a trace that was not seen before, and behind something that is gone, too.

Not here: what is in a line (`trace.lines`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from warren.pipeline.errors import PipelineError
from warren.pipeline.trace import pieces
from warren.pipeline.trace.pieces import Position, Standing
from warren.spark.streams.offsets import admit

SCHEMA: Final = "trace string, piece bigint, byte bigint, line binary"
BYTES_PER_TRIGGER: Final = 256 * 1024 * 1024
BATCH_BYTES: Final = 4 * 1024 * 1024
TEXT_RULE: Final = b"=" * 80
"""How every record of a trace in text begins."""

Offsets = dict[str, list[int]]


class TraceFiles(DataSource):
    """`format("warren-trace-files")`."""

    @classmethod
    def name(cls) -> str:
        return "warren-trace-files"

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        directory = self.options.get("directory")
        if not directory:
            raise PipelineError("trace files are read from a folder, and none is named")
        traces = self.options.get("traces")
        return TraceReader(
            Wanted(
                directory,
                tuple(traces.split(",")) if traces else (),
                int(self.options.get("maxBytesPerTrigger", BYTES_PER_TRIGGER)),
                str(self.options.get("failOnDataLoss", "true")).lower() == "true",
            )
        )


@dataclass(frozen=True)
class Wanted:
    """What is read of which folder."""

    directory: str
    traces: tuple[str, ...]
    max_bytes: int
    fail_on_data_loss: bool


class PieceSlice(InputPartition):
    """What one task reads: a piece from a byte on, to another or to its end."""

    def __init__(self, trace: str, number: int, start: int, end: int | None) -> None:
        super().__init__((trace, number, start, end))
        self.trace = trace
        self.number = number
        self.start = start
        self.end = end

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PieceSlice) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]


class TraceReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """All traces of a folder, those that begin while it runs included."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._last_ends: dict[str, Position] | None = None

    def initialOffset(self) -> Offsets:
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxBytes(self._wanted.max_bytes)

    def prepareForTriggerAvailableNow(self) -> None:
        self._last_ends = {trace: found.end for trace, found in self._standings().items()}

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:
        found = {trace: here for trace, here in self._standings().items() if self._is_in_time(trace)}
        starts = {trace: self._start(trace, start.get(trace), here) for trace, here in found.items()}
        ends = {trace: self._end(trace, here) for trace, here in found.items()}
        backlogs = {trace: here.bytes_between(starts[trace], ends[trace]) for trace, here in found.items()}
        names = sorted(trace for trace, waiting in backlogs.items() if waiting)
        taken = admit({number: backlogs[trace] for number, trace in enumerate(names)}, self._wanted.max_bytes)
        reached = dict(start)
        for number, trace in enumerate(names):
            begin = starts[trace]
            end = self._advanced(trace, found[trace], begin, taken[number], ends[trace])
            if end > begin:
                reached[trace] = [end.number, end.byte, begin.number, begin.byte]
        return {trace: reached[trace] for trace in sorted(reached)}

    def partitions(self, start: Offsets, end: Offsets) -> list[PieceSlice]:
        """Spark plans at least one task, so there is at least one slice, if an empty one."""
        planned = [each for trace in end if end[trace] != start.get(trace) for each in slices(trace, end[trace])]
        return planned or [PieceSlice("", 0, 0, 0)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Batches of Arrow."""
        assert isinstance(partition, PieceSlice)
        if partition.end is not None and partition.start >= partition.end:
            return
        file = pieces.opened(self._wanted.directory, partition.trace, partition.number)
        if file is None:
            self._lose(partition.trace, f"file {partition.number} is gone")
            return
        with file:
            self._check(partition, file)
            yield from _batches(partition, file)

    def _standings(self) -> dict[str, Standing]:
        directory = self._wanted.directory
        names = self._wanted.traces or pieces.traces_in(directory)
        found = {trace: pieces.standing(directory, trace) for trace in names}
        return {trace: here for trace, here in found.items() if here is not None}

    def _start(self, trace: str, known: list[int] | None, here: Standing) -> Position:
        """Where a trace goes on."""
        if known is None:
            return Position(here.first, 0)
        position = Position(known[0], known[1])
        lost = here.lost(position)
        if lost:
            self._lose(trace, lost)
        return here.resumed(position)

    def _is_in_time(self, trace: str) -> bool:
        return self._last_ends is None or trace in self._last_ends

    def _end(self, trace: str, here: Standing) -> Position:
        return here.end if self._last_ends is None else min(here.end, self._last_ends[trace])

    def _advanced(self, trace: str, here: Standing, start: Position, count: int, end: Position) -> Position:
        """So many bytes behind the start, at the end of a line."""
        if here.bytes_between(start, end) <= count:
            return end
        number, at = start.number, start.byte
        while count > here.sizes.get(number, 0) - at:
            count -= here.sizes.get(number, 0) - at
            number, at = number + 1, 0
        file = pieces.opened(self._wanted.directory, trace, number)
        if file is None:
            return Position(number, at)
        with file:
            return min(end, here.settled(Position(number, pieces.line_end(file, at, at + count, here.sizes[number]))))

    def _check(self, slice_: PieceSlice, file: Any) -> None:
        """Whether it is the piece that was planned, and one that a program can read."""
        if slice_.start == 0:
            if file.read(len(TEXT_RULE)) == TEXT_RULE:
                raise PipelineError(f"trace {slice_.trace!r} is written as text, for people; start it with format json")
            return
        file.seek(slice_.start - 1)
        if file.read(1) not in (b"\n", b""):
            self._lose(slice_.trace, f"byte {slice_.start} of file {slice_.number} is no beginning of a line any more")

    def _lose(self, trace: str, what: str) -> None:
        if self._wanted.fail_on_data_loss:
            hint = "option failOnDataLoss false reads what is left"
            raise PipelineError(f"trace {trace!r} in {self._wanted.directory} cannot be read on: {what}; {hint}")


def slices(trace: str, end: list[int]) -> list[PieceSlice]:
    """What a micro-batch that ends here reads of a trace, piece by piece."""
    last, last_end, first, first_start = end
    found = []
    for number in range(first, last + 1):
        at = first_start if number == first else 0
        to = last_end if number == last else None
        if to is None or at < to:
            found.append(PieceSlice(trace, number, at, to))
    return found


def _batches(slice_: PieceSlice, file: Any) -> Iterator[Any]:
    file.seek(slice_.start)
    at, rest = slice_.start, b""
    while True:
        ahead = at + len(rest)
        wanted = BATCH_BYTES if slice_.end is None else min(BATCH_BYTES, slice_.end - ahead)
        block = file.read(wanted) if wanted > 0 else b""
        if not block:
            break
        cut = block.rfind(b"\n") + 1
        if not cut:
            rest += block
            continue
        lines = (rest + block[: cut - 1]).split(b"\n")
        rest = block[cut:]
        yield _batch(slice_, at, lines)
        at += sum(map(len, lines)) + len(lines)
    if rest:
        yield _batch(slice_, at, [rest])


def _batch(slice_: PieceSlice, at: int, lines: list[bytes]) -> Any:
    import pyarrow as pa

    places = []
    for line in lines:
        places.append(at)
        at += len(line) + 1
    columns = [
        pa.array([slice_.trace] * len(lines), pa.string()),
        pa.array([slice_.number] * len(lines), pa.int64()),
        pa.array(places, pa.int64()),
        pa.array(lines, pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, ["trace", "piece", "byte", "line"])
