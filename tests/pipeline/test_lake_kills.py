"""Jobs on traces that are killed at random points, and run again: the same lake, the same audit, the same page.

`WARREN_DRIVER_KILLS` sets how many runs of each are killed; `make faults` kills twenty.
"""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.jobs import Jobs
from tests.pipeline.kills import KILLS, check_that_kills_change_nothing, check_that_kills_change_nothing_of_what_runs_on
from tests.support.node_process import NodeProcess
from warren.client import blocking

pytestmark = pytest.mark.timeout(600 + 120 * KILLS)


@pytest.fixture
def jobs(tmp_path: Path, spark: SparkSession, node: NodeProcess, url: str, broker: blocking.Channel) -> Jobs:
    return Jobs(tmp_path, spark, node, url, broker)


def test_a_trace_that_is_killed_has_each_event_once(jobs: Jobs, tmp_path: Path) -> None:
    check_that_kills_change_nothing(jobs.trace(), tmp_path, 1)


def test_a_trace_that_runs_on_and_is_killed_has_each_event_once(jobs: Jobs, tmp_path: Path) -> None:
    check_that_kills_change_nothing_of_what_runs_on(jobs, tmp_path, 4)


def test_an_audit_that_is_killed_comes_to_the_same_table(jobs: Jobs, tmp_path: Path) -> None:
    check_that_kills_change_nothing(jobs.audit(), tmp_path, 2)


def test_a_report_that_is_killed_comes_to_the_same_page(jobs: Jobs, tmp_path: Path) -> None:
    check_that_kills_change_nothing(jobs.report(), tmp_path, 3)
