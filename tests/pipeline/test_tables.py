"""Tables that are replaced whole: the old one counts until the new one is there, whatever becomes of its writer."""

from pathlib import Path

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


def test_what_a_task_raises_is_found_in_what_spark_makes_of_it(spark: SparkSession, tmp_path: Path) -> None:
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
