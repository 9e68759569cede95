"""A table that is replaced whole: a reader sees the old one or the new one.

::

    FOLDER/data/ID/                     Parquet, as Spark writes it; a new ID each time
    FOLDER/table.json                   {kind, version, data: ID, facts}
    FOLDER/NAME                         texts beside the table, for example a page

`table.json` is written in one step when all data is there, and it alone names the data that counts. A writer that is
killed leaves the table as it was, and data that no reader uses and the next writer deletes. Texts beside a table belong
to that table: a writer that is killed while it changes them leaves none. One job writes a table at a time
(`Folder.alone`). A reader of replaced data gets an error from Spark that files are gone, and reads again.

Tasks may write on other machines. So the rows they wrote are counted and compared with the rows found here, before the
table is replaced and anything is deleted: a folder that is local to each machine would otherwise be an empty table.

`kind` names the rows, `version` their columns; a reader checks both. `facts` is any JSON for later runs of the job.

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
    """Replace the table with these rows; a table of another kind in its place is refused before anything is written.

    `beside` are texts about it, by name.
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
    """Write rows as Parquet; a `PipelineError` unless this machine finds all rows that Spark wrote."""
    counted = Observation()
    frame.observe(counted, sql.count(sql.lit(1)).alias("rows")).write.parquet(folder.uri)
    wrote, found = counted.get["rows"], folder.parquet_rows()
    # even without rows there is a file
    if wrote != sum(found) or not found:
        folder.delete()
        raise PipelineError(
            f"Spark wrote {wrote:,} rows to {folder}, and here are {sum(found):,} of them in {len(found):,} files: "
            "give a folder that this machine and all of Spark's see alike"
        )


def read(spark: SparkSession, folder: Folder, kind: str, version: int) -> tuple[DataFrame, Any]:
    """The rows, and the facts written with them."""
    found = described(folder, kind, version)
    return spark.read.parquet(folder.child(DATA).child(_text_field(found, "data")).uri), found.get("facts")


def described(folder: Folder, kind: str, version: int) -> dict[str, Any]:
    """The contents of `table.json`; a `PipelineError` if it is missing, or of other rows."""
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
    """A field of every `table.json`; without it the file is of another program."""
    value = found.get(name) if isinstance(found, dict) else None
    if not isinstance(value, str):
        raise PipelineError(f"a {TABLE} without {name} is not one of Warren's")
    return value
