"""A table that is replaced whole, so that whoever reads it has the old one or the new one.

::

    FOLDER/data/ID/                     Parquet, as Spark writes it; ID is another one each time
    FOLDER/table.json                   {kind, version, data: ID, facts}

`table.json` is put in one step when all of the data is there, and it alone says which data counts. A writer that is
killed leaves the table as it was, and data that nobody reads and the next writer deletes. One job writes a table at a
time; a reader that has begun on the data that is replaced is told by Spark that files are gone, and begins again.

`kind` says what the rows are, `version` which columns they have; a reader names both. `facts` is what the job that
wrote it wants to know later: anything that is JSON.

Not here: tables that grow (`pipeline.trace.job`).
"""

import uuid
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from warren.pipeline.errors import PipelineError
from warren.pipeline.folder import Folder

TABLE: Final = "table.json"
DATA: Final = "data"


def replace(frame: DataFrame, folder: Folder, kind: str, version: int, facts: Any = None) -> None:
    """Make these rows the table; a table of another kind in its place is refused before anything is written."""
    found = folder.read_json(TABLE)
    if found is not None and _word(found, "kind") != kind:
        raise PipelineError(f"{folder} has {_word(found, 'kind')}, and would be overwritten with {kind}")
    data = uuid.uuid4().hex
    frame.write.parquet(folder.child(DATA).child(data).uri)
    folder.put_json(TABLE, {"kind": kind, "version": version, "data": data, "facts": facts})
    kept = folder.child(DATA)
    for name in kept.children():
        if name != data:
            kept.delete(name)


def read(spark: SparkSession, folder: Folder, kind: str, version: int) -> tuple[DataFrame, Any]:
    """The rows, and the facts that were written with them."""
    found = described(folder, kind, version)
    return spark.read.parquet(folder.child(DATA).child(_word(found, "data")).uri), found.get("facts")


def described(folder: Folder, kind: str, version: int) -> dict[str, Any]:
    """What `table.json` says; a `PipelineError` if there is none, or if it is of other rows."""
    found = folder.read_json(TABLE)
    if found is None:
        raise PipelineError(f"{folder} has no complete table of {kind}; run the job that writes it again")
    if _word(found, "kind") != kind:
        raise PipelineError(f"{folder} has {_word(found, 'kind')}, and not {kind}")
    if found.get("version") != version:
        raise PipelineError(
            f"{folder} has {kind} of version {found.get('version')}, and this is for version {version}; write it again"
        )
    return dict(found)


def _word(found: Any, name: str) -> str:
    """What is written in every `table.json`; anything else is a file of somebody else's."""
    value = found.get(name) if isinstance(found, dict) else None
    if not isinstance(value, str):
        raise PipelineError(f"a {TABLE} without {name} is not one of Warren's")
    return value
