"""The data source `warren` of Spark: from options to a reader or a writer.

Spark makes one for each read or write, in various processes, so it holds nothing but options. They are checked here,
before anything else happens. Several such processes start for every micro-batch, so each imports only what it needs.

Not here: reading (`spark.queue_source`, `spark.stream_source`), writing (`spark.sink`).
"""

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from warren.spark.options import StreamOptions, ddl, read_options, write_options


class WarrenDataSource(DataSource):
    """`format("warren")`."""

    @classmethod
    def name(cls) -> str:
        return "warren"

    def schema(self) -> str:
        return ddl(read_options(self.options).columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        options = read_options(self.options)
        if isinstance(options, StreamOptions):
            from warren.spark import stream_source

            return stream_source.batch_reader(options)
        from warren.spark import queue_source

        return queue_source.batch_reader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        options = read_options(self.options)
        if isinstance(options, StreamOptions):
            from warren.spark import stream_source

            return stream_source.stream_reader(options)
        from warren.spark import queue_source

        return queue_source.stream_reader(options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from warren.spark.sink import BatchWriter

        return BatchWriter(write_options(self.options), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from warren.spark.sink import StreamWriter

        return StreamWriter(write_options(self.options), schema, overwrite)
