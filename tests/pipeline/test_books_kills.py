"""Reconciliations, compensations and loads that are killed at random points, and run again: the same result, and each
message in the broker once.

`WARREN_DRIVER_KILLS` sets how many runs of each are killed; `make faults` kills twenty.
"""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.jobs import Jobs
from tests.pipeline.kills import KILLS, check_that_kills_change_nothing
from tests.support.node_process import NodeProcess
from warren.client import blocking

pytestmark = pytest.mark.timeout(600 + 120 * KILLS)


@pytest.fixture
def jobs(tmp_path: Path, spark: SparkSession, node: NodeProcess, url: str, broker: blocking.Channel) -> Jobs:
    return Jobs(tmp_path, spark, node, url, broker)


def test_a_reconciliation_that_is_killed_comes_to_the_same_result(jobs: Jobs, tmp_path: Path) -> None:
    check_that_kills_change_nothing(jobs.reconcile(), tmp_path, 4)


def test_a_load_that_is_killed_publishes_each_message_once(jobs: Jobs, tmp_path: Path) -> None:
    check_that_kills_change_nothing(jobs.load(), tmp_path, 5)


def test_a_compensation_that_is_killed_sends_each_message_once(jobs: Jobs, tmp_path: Path) -> None:
    check_that_kills_change_nothing(jobs.compensate(), tmp_path, 6)


def test_a_compensation_through_an_outbox_that_is_killed_leaves_each_row_once(jobs: Jobs, tmp_path: Path) -> None:
    check_that_kills_change_nothing(jobs.settle(), tmp_path, 7)
