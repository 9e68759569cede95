"""Tables that are replaced whole: the old one counts until the new one is complete, also if its writer is killed."""

import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from warren.pipeline import tables
from warren.pipeline.errors import PipelineError, sentence
from warren.pipeline.folder import Folder


def test_a_table_is_what_was_written_last_and_only_that_is_kept(spark: SparkSession, lake: Folder) -> None:
    for count in (3, 2):
        tables.replace(spark.range(count), lake, "numbers", 1, {"count": count})
    frame, facts = tables.read(spark, lake, "numbers", 1)
    assert sorted(row.id for row in frame.collect()) == [0, 1]
    assert facts == {"count": 2}
    assert len(lake.child("data").children()) == 1


def test_a_table_whose_writer_failed_midway_is_the_old_one(spark: SparkSession, lake: Folder) -> None:
    tables.replace(spark.range(3), lake, "numbers", 1)
    broken = spark.range(2).select(sql.raise_error(sql.lit("planted")).cast("long").alias("id"))
    with pytest.raises(Exception, match="planted"):
        tables.replace(broken, lake, "numbers", 1)
    assert tables.read(spark, lake, "numbers", 1)[0].count() == 3
    tables.replace(spark.range(1), lake, "numbers", 1)
    assert len(lake.child("data").children()) == 1


@pytest.fixture
def unshared(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Folder]:
    """A folder that this process has for itself, and Spark's Java for itself: each below the folder it runs in."""
    name = f"unshared-{uuid.uuid4().hex}"
    spark.range(1).write.parquet(f"file:///proc/self/cwd/{name}/where")
    [place] = Path.cwd().glob(f"{name}/where")
    monkeypatch.chdir(tmp_path)
    yield Folder(f"/proc/self/cwd/{name}")
    shutil.rmtree(place.parent)


@pytest.mark.parametrize("count", [0, 5])
def test_rows_that_spark_wrote_elsewhere_replace_nothing(
    spark: SparkSession, unshared: Folder, tmp_path: Path, count: int
) -> None:
    old = Folder(str(tmp_path / "old"))
    tables.replace(spark.range(3), old, "numbers", 1)
    shutil.copytree(tmp_path / "old", str(unshared))
    before = unshared.read_json("table.json"), unshared.child("data").children()
    sentence = f"^Spark wrote {count} rows to /proc/.*, and here are 0 of them in 0 files: give a folder that"
    with pytest.raises(PipelineError, match=sentence):
        tables.replace(spark.range(count), unshared, "numbers", 1)
    assert (unshared.read_json("table.json"), unshared.child("data").children()) == before


def test_data_is_on_the_disk_before_it_counts(
    spark: SparkSession, lake: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: set[int] = set()
    wanted: set[int] = set()
    fsync, put = os.fsync, Folder.put_json

    def noting(handle: int) -> None:
        fsync(handle)
        flushed.add(os.fstat(handle).st_ino)

    def looking(folder: Folder, name: str, value: Any) -> None:
        data = Path(str(folder), "data")
        wanted.update(path.stat().st_ino for path in (data, *data.rglob("*")) if path.suffix != ".crc")
        assert wanted <= flushed
        put(folder, name, value)

    monkeypatch.setattr(os, "fsync", noting)
    monkeypatch.setattr(Folder, "put_json", looking)
    tables.replace(spark.range(3), lake, "numbers", 1)
    assert len(wanted) >= 3


@pytest.mark.parametrize("dies_at", ["table.json", "one.txt", "two.txt"])
def test_facts_beside_a_table_belong_to_that_table(
    spark: SparkSession, lake: Folder, monkeypatch: pytest.MonkeyPatch, dies_at: str
) -> None:
    put = Folder.put_text

    def dying(folder: Folder, name: str, text: str) -> None:
        if name == dies_at:
            raise KeyboardInterrupt
        put(folder, name, text)

    def replaced(count: int) -> None:
        tables.replace(spark.range(count), lake, "numbers", 1, None, {"one.txt": str(count), "two.txt": str(count)})

    replaced(1)
    with monkeypatch.context() as patched:
        patched.setattr(Folder, "put_text", dying)
        with pytest.raises(KeyboardInterrupt):
            replaced(2)
    rows = tables.read(spark, lake, "numbers", 1)[0].count()
    assert {lake.read_text(name) for name in ("one.txt", "two.txt")} <= {str(rows), None}
    replaced(2)
    assert {lake.read_text(name) for name in ("one.txt", "two.txt")} == {"2"}


def test_a_table_that_is_not_there_or_of_another_kind_or_version_is_refused(spark: SparkSession, lake: Folder) -> None:
    with pytest.raises(PipelineError, match="has no complete table of numbers; run"):
        tables.read(spark, lake, "numbers", 1)
    tables.replace(spark.range(1), lake, "numbers", 1)
    with pytest.raises(PipelineError, match="has numbers, and not letters"):
        tables.read(spark, lake, "letters", 1)
    with pytest.raises(PipelineError, match="has numbers of version 1, and this is for version 2"):
        tables.read(spark, lake, "numbers", 2)
    with pytest.raises(PipelineError, match="has numbers, and would be overwritten with letters"):
        tables.replace(spark.range(1), lake, "letters", 1)
    assert tables.read(spark, lake, "numbers", 1)[0].count() == 1


def test_the_error_of_a_task_is_found_in_sparks_error(spark: SparkSession, tmp_path: Path) -> None:
    def refuse(number: int) -> int:
        raise PipelineError(f"number {number} is planted")

    with pytest.raises(Exception, match="planted") as raised:
        # Spark makes its own sense of type hints, where pandas is installed
        spark.range(1).select(sql.udf(lambda number: refuse(number), "long")("id")).collect()
    assert sentence(raised.value) == "number 0 is planted"
    with pytest.raises(Exception, match="PATH_NOT_FOUND") as raised:
        spark.read.parquet(str(tmp_path / "nowhere"))
    assert sentence(raised.value).startswith("Path does not exist:")
    assert "\n" not in sentence(raised.value)
