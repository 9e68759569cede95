"""Trace files as Spark reads them: the lines of all traces in a folder, each with its place, in micro-batches.

    spark.dataSource.register(TraceFiles)
    spark.readStream.format("warren-trace-files").option("directory", "var/traces").load()

| column  |         |                                                                      |
|---------|---------|----------------------------------------------------------------------|
| `trace` | string  | the name of its file without `.log`                                  |
| `piece` | bigint  | the number of the file                                               |
| `byte`  | bigint  | where the line begins in it                                          |
| `line`  | binary  | without the line feed; any bytes                                     |

| option            | default                 |                                                     |
|-------------------|-------------------------|-----------------------------------------------------|
| `directory`       | must be given           | where every task finds the files                    |
| `traces`          | all                     | names with commas                                   |
| `maxBytesPerTrigger` | 256 MiB              | the limit of a micro-batch, to the line             |
| `failOnDataLoss`  | `true`                  | whether missing files are an error                  |

**Offsets.** For each known trace: the piece and byte up to which it is read, and those from which that micro-batch read
it. So the end of a micro-batch contains its whole range, without a look at the folder, and a repeated micro-batch reads
the same, also for a new trace and after lost files.

**Pieces.** The files of a trace are one log that only grows; a position is the number of a piece and a byte in it.

::

    NAME.log.3   NAME.log.4   NAME.log.5      finished: they never change, and the oldest are deleted
    NAME.log                                  being written: piece 6, the one after the last finished
    .NAME.log.last                            5, the number of the last finished one, which may be deleted by now

A full file is renamed to exactly the number under which it was counted, so positions stay valid. The trace may rename
between finding a file and opening it. So a reader of `NAME.log` checks the last finished piece before and after opening
it: if both are the same, the opened file is the piece after it. The last finished piece is the highest number of a
file, or the number that the trace has recorded, which it does a moment after the renaming.

Lines are whole up to the last line feed. Bytes after it are not read yet in the file being written; in a finished file
they are a line, perhaps cut off by a crash.

Data may be gone: deleted before it was read, or restarted because the files were deleted. A position shows this as far
as it can: its piece is before the first or after the last, or has fewer bytes.

Not here: the contents of a line (`trace.sources`).
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from warren.pipeline.errors import PipelineError
from warren.spark.stream_offsets import share_limit

FILE_NAME: Final = re.compile(r"(?P<trace>(?!\.)[^/\x00]+)\.log(?:\.(?P<number>[1-9]\d{0,17}))?")
BLOCK_BYTES: Final = 64 * 1024
ATTEMPTS: Final = 100
"""How often a trace may rename files while one is being opened."""


@dataclass(frozen=True, order=True)
class TracePosition:
    """Everything before this byte of this piece is read."""

    number: int
    byte: int


@dataclass(frozen=True)
class TraceExtent:
    """The existing pieces of a trace, with the bytes of their whole lines, and whether each is finished."""

    sizes: dict[int, int]
    finished: int
    """The number of the last finished piece, 0 if there is none."""

    @property
    def first(self) -> int:
        return min(self.sizes)

    @property
    def end(self) -> TracePosition:
        last = max(self.sizes)
        return self.settled(TracePosition(last, self.sizes[last]))

    def settled(self, position: TracePosition) -> TracePosition:
        """The same place; after a finished piece it is the beginning of the next, so that the piece may be deleted."""
        if position.number <= self.finished and position.byte >= self.sizes.get(position.number, 0):
            return TracePosition(position.number + 1, 0)
        return position

    def lost(self, position: TracePosition) -> str:
        """A description of the data that is gone from this position on; empty if none is."""
        if position.number < self.first:
            return f"file {position.number} was not read to its end, and the first that is there is {self.first}"
        last = max(self.finished + 1, *self.sizes)
        if position.number > last:
            return f"file {position.number} was read, and the last that is there is {last}"
        size = self.sizes.get(position.number, 0)
        if position.byte > size:
            return f"{position.byte} bytes of file {position.number} were read, and it has {size}"
        gone = [number for number in range(position.number, self.finished) if number not in self.sizes]
        return f"file {gone[0]} is gone" if gone else ""

    def resumed(self, position: TracePosition) -> TracePosition:
        """Where the remaining data begins, from this position on."""
        if not self.first <= position.number <= max(self.finished + 1, *self.sizes):
            return TracePosition(self.first, 0)
        return TracePosition(position.number, 0) if position.byte > self.sizes.get(position.number, 0) else position

    def bytes_between(self, start: TracePosition, end: TracePosition) -> int:
        within = [size for number, size in self.sizes.items() if start.number <= number < end.number]
        return max(sum(within) - start.byte + end.byte, 0)


def traces_in(directory: str) -> list[str]:
    """The traces with files, by name."""
    return sorted({found["trace"] for found in _files(directory)})


def trace_extent(directory: str, trace: str) -> TraceExtent | None:
    """The extent of a trace; None if it has no files."""
    for _ in range(ATTEMPTS):
        before = _last_finished(directory, trace)
        file = _being_written(directory, trace)
        whole = None
        if file is not None:
            with file:
                whole = _whole_bytes(file)
        last = _last_finished(directory, trace)
        if before == last:
            sizes = _sizes(directory, trace, _finished(directory, trace)) | ({} if whole is None else {last + 1: whole})
            return TraceExtent(sizes, last) if sizes else None
    raise PipelineError(f"the files of trace {trace!r} in {directory} change faster than they can be listed")


def open_piece(directory: str, trace: str, number: int) -> BinaryIO | None:
    """A piece under its current name; None if it is gone."""
    for _ in range(ATTEMPTS):
        try:
            return open(f"{_path(directory, trace)}.{number}", "rb")
        except FileNotFoundError:
            pass
        file = _being_written(directory, trace)
        if file is not None and _last_finished(directory, trace) + 1 == number:
            return file
        if file is not None:
            file.close()
        if number not in _finished(directory, trace):
            return None
    return None


def line_end(file: BinaryIO, start: int, wanted: int, end: int) -> int:
    """After the last line that ends between `start` and `wanted`; if none does, after the first one."""
    at = wanted
    while at > start:
        begin = max(at - BLOCK_BYTES, start)
        found = _read(file, begin, at - begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        at = begin
    at = wanted
    while at < end:
        block = _read(file, at, min(BLOCK_BYTES, end - at))
        found = block.find(b"\n")
        if found >= 0:
            return at + found + 1
        if not block:
            break
        at += len(block)
    return end


def _being_written(directory: str, trace: str) -> BinaryIO | None:
    try:
        return open(_path(directory, trace), "rb")
    except FileNotFoundError:
        return None


def _whole_bytes(file: BinaryIO) -> int:
    """How many bytes of a file being written are whole lines."""
    at = os.fstat(file.fileno()).st_size
    while at > 0:
        begin = max(at - BLOCK_BYTES, 0)
        found = _read(file, begin, at - begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        at = begin
    return 0


def _read(file: BinaryIO, at: int, size: int) -> bytes:
    return os.pread(file.fileno(), size, at)


def _sizes(directory: str, trace: str, numbers: list[int]) -> dict[int, int]:
    sizes: dict[int, int] = {}
    for number in sorted(numbers):
        try:
            sizes[number] = os.stat(f"{_path(directory, trace)}.{number}").st_size
        except FileNotFoundError:
            # deleted since it was listed
            sizes.clear()
    return sizes


def _finished(directory: str, trace: str) -> list[int]:
    return [int(found["number"]) for found in _files(directory) if found["trace"] == trace and found["number"]]


def _last_finished(directory: str, trace: str) -> int:
    """The number of the last finished piece, even if it is deleted; 0 if there was none."""
    return max([*_finished(directory, trace), _recorded_number(directory, trace)])


def _recorded_number(directory: str, trace: str) -> int:
    try:
        with open(os.path.join(directory, f".{trace}.log.last"), "rb") as file:
            return int(file.read())
    except (FileNotFoundError, ValueError):
        return 0


def _files(directory: str) -> Iterator[re.Match[str]]:
    try:
        names = os.listdir(directory)
    except OSError as error:
        raise PipelineError(f"there are no trace files in {directory}: {error.strerror}") from None
    return (found for name in names if (found := FILE_NAME.fullmatch(name)) is not None)


def _path(directory: str, trace: str) -> str:
    return os.path.join(directory, f"{trace}.log")


SCHEMA: Final = "trace string, piece bigint, byte bigint, line binary"
BYTES_PER_TRIGGER: Final = 256 * 1024 * 1024
BATCH_BYTES: Final = 4 * 1024 * 1024
TEXT_RULE: Final = b"=" * 80
"""The beginning of every record of a trace in text format."""

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
            TraceSelection(
                directory,
                tuple(traces.split(",")) if traces else (),
                int(self.options.get("maxBytesPerTrigger", BYTES_PER_TRIGGER)),
                str(self.options.get("failOnDataLoss", "true")).lower() == "true",
            )
        )


@dataclass(frozen=True)
class TraceSelection:
    """The folder and options of a read."""

    directory: str
    traces: tuple[str, ...]
    max_bytes: int
    fail_on_data_loss: bool


class PieceSlice(InputPartition):
    """The range of one task: a piece from one byte to another or to its end."""

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
    """All traces of a folder, including those that begin while it runs."""

    def __init__(self, wanted: TraceSelection) -> None:
        self._wanted = wanted
        self._last_ends: dict[str, TracePosition] | None = None

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
        taken = share_limit({number: backlogs[trace] for number, trace in enumerate(names)}, self._wanted.max_bytes)
        reached = dict(start)
        for number, trace in enumerate(names):
            begin = starts[trace]
            end = self._advanced(trace, found[trace], begin, taken[number], ends[trace])
            if end > begin:
                reached[trace] = [end.number, end.byte, begin.number, begin.byte]
        return {trace: reached[trace] for trace in sorted(reached)}

    def partitions(self, start: Offsets, end: Offsets) -> list[PieceSlice]:
        """At least one slice, perhaps empty, because Spark plans at least one task."""
        planned = [each for trace in end if end[trace] != start.get(trace) for each in slices(trace, end[trace])]
        return planned or [PieceSlice("", 0, 0, 0)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Arrow batches."""
        assert isinstance(partition, PieceSlice)
        if partition.end is not None and partition.start >= partition.end:
            return
        file = open_piece(self._wanted.directory, partition.trace, partition.number)
        if file is None:
            self._lose(partition.trace, f"file {partition.number} is gone")
            return
        with file:
            self._check(partition, file)
            yield from _batches(partition, file)

    def _standings(self) -> dict[str, TraceExtent]:
        directory = self._wanted.directory
        names = self._wanted.traces or traces_in(directory)
        found = {trace: trace_extent(directory, trace) for trace in names}
        return {trace: here for trace, here in found.items() if here is not None}

    def _start(self, trace: str, known: list[int] | None, here: TraceExtent) -> TracePosition:
        """Where a trace continues."""
        if known is None:
            return TracePosition(here.first, 0)
        position = TracePosition(known[0], known[1])
        lost = here.lost(position)
        if lost:
            self._lose(trace, lost)
        return here.resumed(position)

    def _is_in_time(self, trace: str) -> bool:
        return self._last_ends is None or trace in self._last_ends

    def _end(self, trace: str, here: TraceExtent) -> TracePosition:
        return here.end if self._last_ends is None else min(here.end, self._last_ends[trace])

    def _advanced(
        self, trace: str, here: TraceExtent, start: TracePosition, count: int, end: TracePosition
    ) -> TracePosition:
        """This many bytes after the start, at the end of a line."""
        if here.bytes_between(start, end) <= count:
            return end
        number, at = start.number, start.byte
        while count > here.sizes.get(number, 0) - at:
            count -= here.sizes.get(number, 0) - at
            number, at = number + 1, 0
        file = open_piece(self._wanted.directory, trace, number)
        if file is None:
            return TracePosition(number, at)
        with file:
            return min(end, here.settled(TracePosition(number, line_end(file, at, at + count, here.sizes[number]))))

    def _check(self, slice_: PieceSlice, file: Any) -> None:
        """Check that it is the planned piece, and in a readable format."""
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
    """The slices of a trace for a micro-batch that ends here."""
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
