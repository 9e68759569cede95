"""What a trace is read from: folders of trace files and a stream, each under a name in the lake.

Not here: what is made of what they give (`trace.events`), when they are read (`trace.job`).
"""

import hashlib
import os
import re
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from warren.client.errors import ClientError, UriError
from warren.client.uri import parse_uri
from warren.pipeline.errors import PipelineError
from warren.pipeline.trace import firehose, lines, pieces
from warren.pipeline.trace.files import TraceFiles
from warren.pipeline.trace.lake import SOURCE
from warren.spark.options import Broker
from warren.spark.streams.link import ReadError
from warren.spark.streams.places import StreamPlaces

RECORDS_PER_TRIGGER: Final = 1_000_000
UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")


@dataclass(frozen=True)
class FileSource:
    """The trace files of one node: of all its traces, or of those that are named."""

    directory: str
    name: str = ""
    traces: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        return f"files-{self.name}" if self.name else "files"

    def facts(self) -> dict[str, Any]:
        return {"kind": "files in", "place": os.path.abspath(self.directory)}

    def check(self) -> None:
        if self.name and SOURCE.fullmatch(self.name) is None:
            raise PipelineError(f"a folder of trace files is named by letters, digits and . _ -, not {self.name!r}")
        if any("," in trace for trace in self.traces):
            raise PipelineError("a trace whose name has a comma in it cannot be chosen; read all of its folder")

    def prepare(self) -> None:
        """A `PipelineError` if there is no such folder."""
        pieces.traces_in(self.directory)

    def records(self, spark: SparkSession, allow_loss: bool) -> DataFrame:
        spark.dataSource.register(TraceFiles)
        reader = spark.readStream.format(TraceFiles.name()).option("directory", os.path.abspath(self.directory))
        if self.traces:
            reader = reader.option("traces", ",".join(self.traces))
        return lines.records(reader.option("failOnDataLoss", str(not allow_loss).lower()).load(), self.name)


@dataclass(frozen=True)
class StreamSource:
    """A stream that is bound to the Firehose; `declare` makes it one."""

    url: str = field(repr=False)
    stream: str
    declare: bool = False

    @property
    def source(self) -> str:
        clean = UNSAFE.sub("_", self.stream)
        if clean != self.stream:
            clean += "-" + hashlib.sha256(self.stream.encode()).hexdigest()[:8]
        return f"stream-{clean}"

    def facts(self) -> dict[str, Any]:
        return {"kind": "stream", "place": self.stream, "vhost": f"of virtual host {parse_uri(self.url).vhost}"}

    def check(self) -> None:
        if not self.stream:
            raise PipelineError("a stream has a name")
        try:
            parse_uri(self.url)
        except UriError as error:
            raise PipelineError(f"the broker's URL: {error}") from None

    def prepare(self) -> None:
        """A `PipelineError` if there is no such stream, or nobody to ask for it."""
        if self.declare:
            firehose.declare(self.url, self.stream)
        places = StreamPlaces(Broker(self.url), self.stream)
        try:
            places.queues()
        except (ReadError, ClientError) as error:
            raise PipelineError(str(error)) from None
        finally:
            places.close()

    def records(self, spark: SparkSession, allow_loss: bool) -> DataFrame:
        copies = spark.readStream.format("warren").options(
            url=self.url,
            stream=self.stream,
            startingOffsets="earliest",
            columns=firehose.COLUMNS,
            maxRecordsPerTrigger=RECORDS_PER_TRIGGER,
            failOnDataLoss=str(not allow_loss).lower(),
        )
        return firehose.records(copies.load(), self.stream)


Source = FileSource | StreamSource
