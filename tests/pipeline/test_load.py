"""Files published through a real node, message by message, and read back as rows."""

import json
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as sql

from tests.support.queue_contents import taken
from tests.support.spreadsheets import write_spreadsheet
from warren.client import Delivery, blocking
from warren.pipeline import publication, tables
from warren.pipeline.errors import PipelineError
from warren.pipeline.folder import Folder
from warren.pipeline.load import job, source
from warren.pipeline.load.job import Loaded, run
from warren.pipeline.load.settings import LoadSettings, Shape
from warren.pipeline.load.splitting import split, unsplit

TYPES = "id bigint, amount decimal(12, 2), day date"


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    path = tmp_path / "orders.csv"
    lines = [f"{number},{number}.{number % 100:02},2026-11-{number % 28 + 1:02}\n" for number in range(5000)]
    path.write_text("id,amount,day\n" + "".join(lines))
    return path


def settings(path: Path, url: str, queue: str, **changed: Any) -> LoadSettings:
    shape = {"routing_key": queue, "schema": TYPES, "max_bytes": 10_000} | changed.pop("shape", {})
    return LoadSettings((str(path),), Folder(str(path.parent / "state")), url, Shape(**shape), **changed)


def ids(deliveries: list[Delivery]) -> list[int]:
    return sorted(row["id"] for each in deliveries for row in json.loads(each.body))


def test_all_records_arrive_once_in_messages_of_at_most_so_many_bytes(
    spark: SparkSession, url: str, broker: blocking.Channel, queue: str, orders: Path
) -> None:
    loaded = run(spark, settings(orders, url, queue))
    found = taken(broker, queue)
    assert ids(found) == list(range(5000))
    assert all(9_900 < len(each.body) <= 10_000 for each in found[:-1])
    assert loaded == Loaded(5000, len(found), sum(len(each.body) for each in found), 0, len(found))
    assert {each.properties.content_type for each in found} == {"application/json"}
    assert {each.properties.delivery_mode for each in found} == {2}
    assert sum(int(str(each.headers["records"])) for each in found) == 5000
    assert not (orders.parent / "state" / "messages").exists()


def test_a_load_that_is_run_again_publishes_nothing(
    spark: SparkSession, url: str, broker: blocking.Channel, queue: str, orders: Path
) -> None:
    first = run(spark, settings(orders, url, queue))
    again = run(spark, settings(orders, url, queue))
    assert (again.messages, again.published_now) == (first.messages, 0)
    assert ids(taken(broker, queue)) == list(range(5000))


class Killed(BaseException):
    """Simulates the end of the process at the place where it is raised."""


def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts are cut by tasks of Spark, in processes of their own; so it is the staged ones that are cut smaller."""
    number = sql.pmod(sql.xxhash64("message_id"), sql.lit(5)) + sql.col("part") * 5
    original = tables.read

    def read(*arguments: Any) -> Any:
        frame, facts = original(*arguments)
        return frame.withColumn("part", number), facts

    monkeypatch.setattr(tables, "read", read)


def test_a_load_that_is_killed_goes_on_and_publishes_nothing_twice(
    spark: SparkSession, url: str, broker: blocking.Channel, queue: str, orders: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """It is killed when three of five parts are published, and two of them recorded."""
    small_parts(monkeypatch)
    monkeypatch.setattr(publication, "PARTS_AT_ONCE", 1)
    put, puts = Folder.put_json, iter(range(100))

    def killing(folder: Folder, name: str, value: Any) -> None:
        if name == publication.DONE and next(puts) == 2:
            raise Killed
        put(folder, name, value)

    with monkeypatch.context() as patched:
        patched.setattr(Folder, "put_json", killing)
        with pytest.raises(Killed):
            run(spark, settings(orders, url, queue))
    before = broker.declare_queue(queue, passive=True).messages
    loaded = run(spark, settings(orders, url, queue))
    assert 0 < loaded.messages - before < loaded.published_now < loaded.messages
    found = taken(broker, queue)
    assert len(found) == loaded.messages
    assert ids(found) == list(range(5000))


def test_a_key_column_is_the_routing_key(
    spark: SparkSession, url: str, broker: blocking.Channel, tmp_path: Path
) -> None:
    names = [broker.declare_queue("", exclusive=True).name for _ in range(3)]
    lines = [json.dumps({"id": number, "queue": names[number % 3]}) for number in range(300)]
    (tmp_path / "orders.jsonl").write_text("\n".join(lines))
    shape = {"routing_key": None, "key_column": "queue", "schema": ""}
    run(spark, settings(tmp_path / "orders.jsonl", url, "", shape=shape))
    for number, name in enumerate(names):
        assert ids(taken(broker, name)) == list(range(number, 300, 3))


def test_bad_records_end_a_load_before_anything_is_published(
    spark: SparkSession, url: str, broker: blocking.Channel, queue: str, tmp_path: Path
) -> None:
    path = tmp_path / "orders.csv"
    path.write_text("id,amount,day,note\n1,1.00,2026-11-15,\nx,2.00,2026-11-15,\n3,3.00,," + "y" * 20_000 + "\n")
    with pytest.raises(PipelineError, match="2 records cannot be loaded, and nothing is published") as caught:
        run(spark, settings(path, url, queue))
    assert f"record 1 of {path}, which id: 'x' is no bigint; --quarantine loads the others" in str(caught.value)
    assert broker.declare_queue(queue, passive=True).messages == 0
    loaded = run(spark, settings(path, url, queue, quarantine=True))
    assert (loaded.records, loaded.quarantined) == (1, 2)
    assert ids(taken(broker, queue)) == [1]
    bad, facts = tables.read(spark, Folder(str(tmp_path / "state/quarantine")), job.QUARANTINE_KIND, 1)
    assert facts == {"records": 2}
    assert [row["place"] for row in bad.orderBy("place").collect()] == [1, 2]
    assert len(bad.orderBy("place").collect()[1]["record"]) == source.BAD_TEXT_BYTES


def test_a_file_that_is_mended_is_loaded_anew_if_nothing_was_published(
    spark: SparkSession, url: str, broker: blocking.Channel, queue: str, orders: Path
) -> None:
    good = orders.read_text()
    orders.write_text(good + "wrong\n")
    with pytest.raises(PipelineError, match="1 records cannot be loaded"):
        run(spark, settings(orders, url, queue))
    orders.write_text(good)
    assert run(spark, settings(orders, url, queue)).records == 5000


def test_a_load_that_has_begun_is_completed_before_anything_else_is_refused(
    spark: SparkSession, url: str, broker: blocking.Channel, queue: str, orders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killing(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(job, "publish", killing)
        with pytest.raises(Killed):
            run(spark, settings(orders, url, queue))
    assert taken(broker, queue) == []
    with pytest.raises(PipelineError, match="a load with other options, which is published whole; give another one a"):
        run(spark, settings(orders, url, queue, shape={"max_bytes": 20_000}))
    orders.write_text(orders.read_text() + "5000,1.00,2026-11-15\n")
    with pytest.raises(PipelineError, match=r"of .*orders\.csv as it was before it changed, which is published whole"):
        run(spark, settings(orders, url, queue))
    assert ids(taken(broker, queue)) == list(range(5000))


def test_a_failure_to_publish_is_one_sentence(
    spark: SparkSession, url: str, broker: blocking.Channel, queue: str, orders: Path
) -> None:
    with pytest.raises(PipelineError, match=r"^cannot connect to 127\.0\.0\.1:1: connection refused"):
        run(spark, settings(orders, "amqp://127.0.0.1:1", queue, timeout_s=0.1))
    assert not (orders.parent / "state").exists()
    with pytest.raises(PipelineError, match="no queue takes messages of exchange '' with key 'nobody'"):
        run(spark, settings(orders, url, "nobody", shape={"exchange": ""}))


def test_a_file_without_records_is_loaded_at_once(spark: SparkSession, url: str, queue: str, tmp_path: Path) -> None:
    (tmp_path / "orders.csv").write_text("id,amount,day\n")
    assert run(spark, settings(tmp_path / "orders.csv", url, queue)) == Loaded(0, 0, 0, 0, 0)


def test_a_state_of_something_else_is_refused(spark: SparkSession, url: str, queue: str, orders: Path) -> None:
    Folder(str(orders.parent / "state")).put_json("load.json", {"kind": "warren load", "version": 2})
    with pytest.raises(PipelineError, match="is not that of a load of this version"):
        run(spark, settings(orders, url, queue))


@pytest.fixture
def stream(broker: blocking.Channel, queue: str) -> Iterator[str]:
    name = f"stream-{queue}"
    broker.declare_queue(name, durable=True, arguments={"x-queue-type": "stream"})
    yield name
    broker.delete_queue(name)


@pytest.mark.parametrize("kind", ["csv", "parquet", "xlsx"])
def test_loaded_records_are_read_back_unchanged(
    spark: SparkSession, url: str, stream: str, tmp_path: Path, kind: str
) -> None:
    rows = [(1, Decimal("12345678.90"), date(2026, 11, 15)), (2, None, None), (3, Decimal("0.10"), date(1999, 1, 1))]
    frame = spark.createDataFrame(rows, TYPES)
    path = tmp_path / f"orders.{kind}"
    if kind == "csv":
        path.write_text("id,amount,day\n1,12345678.90,2026-11-15\n2,,\n3,0.10,1999-01-01\n")
    elif kind == "xlsx":
        cells = [["id", "amount", "day"], [1, 12345678.9, date(2026, 11, 15)], [2, None, None]]
        write_spreadsheet(path, {"Orders": [*cells, [3, 0.1, date(1999, 1, 1)]]})
    else:
        frame.coalesce(1).write.parquet(str(path))
    shape = {"schema": "" if kind == "parquet" else TYPES}
    run(spark, settings(path, url, stream, shape=shape))
    messages = spark.read.format("warren").options(url=url, stream=stream).load()
    assert split(messages, TYPES).schema == frame.schema
    assert sorted(split(messages, TYPES).collect()) == sorted(frame.collect())
    assert unsplit(messages, TYPES).collect() == []


def test_lines_that_are_no_records_are_set_apart(spark: SparkSession) -> None:
    bodies = {
        "sound": '[{"id": 1, "amount": 1.5},\r\n {"id": 2}]\n',
        "empty": " [ ] \n",
        "mixed": '[{"id": 3}, {"id": "x"}, 4, null, {"id": 5, "amount": 12345678901234.5}, "text", {"id": 6}]',
        "object": '{"id": 7}',
        "cut": '[{"id": 8}, {"id": 9',
        "longer": '[{"id": 10}] and more',
        "text": "hello",
        "nothing": "",
    }
    rows = [(name, body.encode()) for name, body in bodies.items()] + [("latin", b'[{"id": 11, "name": "\xe9"}]')]
    messages = spark.createDataFrame(rows, "message_id string, body binary")
    schema = "id bigint, amount decimal(12, 2)"
    assert sorted(row["id"] for row in split(messages, schema).collect()) == [1, 2, 3, 6]
    apart = unsplit(messages, schema)
    assert apart.columns == ["message_id", "place", "text", "reason"]
    found = sorted((row["message_id"], row["place"]) for row in apart.collect() if row["place"] is not None)
    assert found == [("mixed", 1), ("mixed", 2), ("mixed", 3), ("mixed", 4), ("mixed", 5)]
    whole = {row["message_id"] for row in apart.collect() if row["place"] is None}
    assert whole == {"object", "cut", "longer", "text", "nothing", "latin"}
    assert Row(reason="is no JSON array in UTF-8") in apart.where("message_id = 'cut'").select("reason").collect()


def test_decimals_in_messages_are_exact(spark: SparkSession) -> None:
    body = b'[{"a": 1234567890123456789012345678.0123456789}, {"a": "1234567890123456789012345678.0123456789"}]'
    rows = split(spark.createDataFrame([(body,)], "body binary"), "a decimal(38, 10)").collect()
    assert [row["a"] for row in rows] == [Decimal("1234567890123456789012345678.0123456789")] * 2
