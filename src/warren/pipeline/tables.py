"""A table that is replaced whole, so that whoever reads it has the old one or the new one.

::

    FOLDER/data/ID/                     Parquet, as Spark writes it; ID is another one each time
    FOLDER/table.json                   {kind, version, data: ID, facts}
    FOLDER/NAME                         what is told of it beside it, if the job has such: a page

`table.json` is put in one step when all of the data is there, and it alone says which data counts. A writer that is
killed leaves the table as it was, and data that nobody reads and the next writer deletes. What stands beside a table is
of that table: a writer that is killed while it changes them leaves none. One job writes a table at a time
(`Folder.alone`); a reader that has begun on the data that is replaced is told by Spark that files are gone, and begins
again.

Tasks may write on other machines than this one. So what they wrote is counted, and compared with what is found here,
before it counts and anything is deleted: a folder that each of them has for itself would otherwise be an empty table.

`kind` says what the rows are, `version` which columns they have; a reader names both. `facts` is what the job that
wrote it wants to know later: anything that is JSON.

Not here: tables that grow (`pipeline.trace.job`).
"""

import uuid
from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as sql

from warren.pipeline.errors import PipelineError
from warren.pipeline.folder import Folder

TABLE: Final = "table.json"
DATA: Final = "data"


def replace(
    frame: DataFrame,
    folder: Folder,
    kind: str,
    version: int,
    facts: Any = None,
    beside: Mapping[str, str] | None = None,
) -> None:
    """Make these rows the table; a table of another kind in its place is refused before anything is written.

    `beside` are texts about it, by their names.
    """
    found = folder.read_json(TABLE)
    if found is not None and _text_field(found, "kind") != kind:
        raise PipelineError(f"{folder} has {_text_field(found, 'kind')}, and would be overwritten with {kind}")
    data, kept, texts = uuid.uuid4().hex, folder.child(DATA), beside or {}
    write(frame, kept.child(data))
    kept.child(data).flush()
    kept.flush()
    for name in texts:
        folder.delete(name)
    folder.put_json(TABLE, {"kind": kind, "version": version, "data": data, "facts": facts})
    for name, text in texts.items():
        folder.put_text(name, text)
    for name in kept.children():
        if name != data:
            kept.delete(name)


def write(frame: DataFrame, folder: Folder) -> None:
    """Write rows as Parquet; a `PipelineError` unless this machine finds all of them where Spark's have put them."""
    counted = Observation()
    frame.observe(counted, sql.count(sql.lit(1)).alias("rows")).write.parquet(folder.uri)
    wrote, found = counted.get["rows"], folder.parquet_rows()
    # even of no rows at all there is a file
    if wrote != sum(found) or not found:
        folder.delete()
        raise PipelineError(
            f"Spark wrote {wrote:,} rows to {folder}, and here are {sum(found):,} of them in {len(found):,} files: "
            "give a folder that this machine and all of Spark's see alike"
        )


def read(spark: SparkSession, folder: Folder, kind: str, version: int) -> tuple[DataFrame, Any]:
    """The rows, and the facts that were written with them."""
    found = described(folder, kind, version)
    return spark.read.parquet(folder.child(DATA).child(_text_field(found, "data")).uri), found.get("facts")


def described(folder: Folder, kind: str, version: int) -> dict[str, Any]:
    """What `table.json` says; a `PipelineError` if there is none, or if it is of other rows."""
    found = folder.read_json(TABLE)
    if found is None:
        raise PipelineError(f"{folder} has no complete table of {kind}; run the job that writes it again")
    if _text_field(found, "kind") != kind:
        raise PipelineError(f"{folder} has {_text_field(found, 'kind')}, and not {kind}")
    if found.get("version") != version:
        raise PipelineError(
            f"{folder} has {kind} of version {found.get('version')}, and this is for version {version}; write it again"
        )
    return dict(found)


def _text_field(found: Any, name: str) -> str:
    """What is written in every `table.json`; anything else is a file of somebody else's."""
    value = found.get(name) if isinstance(found, dict) else None
    if not isinstance(value, str):
        raise PipelineError(f"a {TABLE} without {name} is not one of Warren's")
    return value
