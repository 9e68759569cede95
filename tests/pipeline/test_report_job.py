"""The report of a lake, from trace files to the page."""

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.queries import run_through
from warren.cli.main import run as warren
from warren.pipeline.errors import PipelineError
from warren.pipeline.folder import Folder
from warren.pipeline.report import job
from warren.pipeline.report.outlook import Limits
from warren.pipeline.trace import job as trace_job
from warren.pipeline.trace import lake as lakes
from warren.pipeline.trace.sources import FileSource

DAYS = 9
BEGIN = datetime(2026, 11, 1, tzinfo=UTC)


def record(at: datetime, type: str, number: int, **fields: Any) -> dict[str, Any]:
    return {
        "schema_version": 1, "timestamp": at.isoformat(timespec="milliseconds"), "type": type, "node": "warren@one",
        "connection": "127.0.0.1:1 -> 127.0.0.1:2", "vhost": "/", "user": "guest", "channel": 1, "exchange": "shop",
        "queue": "none", "routed_queues": [], "routing_keys": ["new"], "properties": {"message_id": f"m{number}"},
        "redelivered": False, "reason": "", "epoch": 0, "nodes": [], "payload": "dHdvIGhhcmVz", **fields,
    }  # fmt: skip


def days_of_traffic() -> Iterator[dict[str, Any]]:
    """Each hour of each day, one message more a day; each delivered 20 ms after its publish, and acked 30 ms later."""
    number = 0
    for hour in range(24 * DAYS):
        for nth in range(1 + hour // 24):
            number += 1
            at = BEGIN + timedelta(hours=hour, minutes=30, seconds=nth)
            yield record(at, "published", number, routed_queues=["orders", "audit"])
            yield record(at + timedelta(milliseconds=20), "received", number, queue="orders")
            yield record(at + timedelta(milliseconds=50), "acked", number, queue="orders")


@pytest.fixture(scope="module")
def traffic(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """A lake with nine whole days, and one line that cannot be read."""
    folder = tmp_path_factory.mktemp("traffic")
    traces = folder / "traces"
    traces.mkdir()
    lines = [json.dumps(each) for each in days_of_traffic()]
    (traces / "orders.log").write_text("\n".join([*lines, "{torn"]) + "\n")
    source, lake = FileSource(str(traces)), Folder(str(folder / "lake"))
    lakes.claim(lake, source.source, source.facts())
    # the query alone, because a report does not need the messages that the whole job rebuilds
    run_through(lambda: trace_job.start(spark, trace_job.Settings(str(lake), (source,)), source))
    return lake


def test_the_report_says_what_was_in_the_traces_and_made_again_it_is_the_same_to_the_byte(
    spark: SparkSession, traffic: Folder, tmp_path: Path
) -> None:
    out = tmp_path / "pages" / "report.html"
    settings = job.Settings(traffic, str(out), limits=Limits(disk_bytes=1000, rate=1))
    published = 24 * sum(range(1, DAYS + 1))
    assert job.run(spark, settings) == job.ReportOutcome(str(out), 3 * published)
    page = out.read_text()
    for said in (
        f"<dt>Published</dt><dd>{published:,}</dd>",
        f"<dt>Arrived in queues</dt><dd>{2 * published:,}</dd>",
        f"<dt>Acked</dt><dd>{published:,}</dd>",
        f'<th scope="row">orders</th><td class="right">{published:,}</td><td class="right">20 ms</td>',
        f'<th scope="row">audit</th><td class="right">{published:,}</td></tr>',
        "1 line of this lake&#39;s traces could not be read",
        "The messages a day grow by 24 messages from one day to the next",
        "1000 bytes are full on 2026-11-10 by the trend",
        "The busiest hour reaches 1 messages a second not within a year of 2026-11-09",
    ):
        assert said in page, said
    spark.conf.set("spark.sql.shuffle.partitions", "5")
    job.run(spark, settings)
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    assert out.read_text() == page
    assert [file.name for file in out.parent.iterdir()] == ["report.html"]


def test_only_the_days_and_virtual_hosts_that_are_asked_for_count(spark: SparkSession, traffic: Folder) -> None:
    events = lakes.events(spark, traffic)
    two_days = job.Settings(traffic, "report.html", date(2026, 11, 2), date(2026, 11, 3), "/")
    assert job.select_events(events, two_days).count() == 3 * 24 * (2 + 3)


def test_without_events_nothing_is_written(spark: SparkSession, traffic: Folder, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    with pytest.raises(PipelineError, match=r"has no events of the virtual host 'shop' since 2027-01-01$"):
        job.run(spark, job.Settings(traffic, str(out), since=date(2027, 1, 1), vhost="shop"))
    assert not out.exists()


@pytest.mark.parametrize(
    ("options", "exit_code", "sentence"),
    [
        (["--rate", "0"], 2, "--rate is a number of messages a second, and more than 0"),
        (["--disk", "much"], 2, "--disk is a size such as 500GB or 1.5TiB, not 'much'"),
        (["--since", "yesterday"], 2, "yesterday"),
        (["--since", "2026-11-02", "--until", "2026-11-01"], 1, "there are no days from 2026-11-02 to 2026-11-01"),
        (["--out", "/"], 1, "/ is a folder, and the report is a file"),
        (["--lake", "/nowhere"], 1, "/nowhere is no lake of traces: there is no lake.json in it"),
    ],
)
def test_an_impossible_order_is_reported_before_spark_is_started(
    options: list[str], exit_code: int, sentence: str, lake: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    lake.put_json("lake.json", {"kind": "warren trace lake", "version": 1})
    command = ["pipeline", "report", "--lake", str(lake), "--out", f"{lake}/report.html", *options]
    assert warren(command) == exit_code
    assert sentence in capsys.readouterr().err
