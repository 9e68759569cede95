"""A background loop of a real node fails: the node says so, and starts it again."""

import json
import sys
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tests.node.conftest import Serve
from tests.node.serving import Serving

FAILING_SAMPLER = """
import sys
from warren.admin.history.sampler import Sampler
from warren.cli.main import main
take = Sampler.take
failures = []
def fail_once(sampler):
    if not failures:
        failures.append(1)
        raise KeyError("a defect")
    return take(sampler)
Sampler.take = fail_once
sys.exit(main())
"""


def read(node: Serving, path: str) -> tuple[int, Any]:
    host, port = node.address("http")
    request = Request(f"http://{host}:{port}/api/{path}", headers={"authorization": "Basic Z3Vlc3Q6Z3Vlc3Q="})
    try:
        with urlopen(request) as answer:
            return answer.status, json.load(answer)
    except HTTPError as refusal:
        return refusal.code, json.load(refusal)


def test_statistics_that_fail_are_logged_shown_by_the_health_check_and_go_on(serve: Serve) -> None:
    node = serve(command=[sys.executable, "-c", FAILING_SAMPLER], configuration="collect_statistics_interval = 500")
    node.wait_for(lambda: node.events("task.failed"))
    assert "task=statistics" in node.events("task.failed")[0]
    status, answer = read(node, "health/checks/background-tasks")
    assert (status, answer["status"]) == (503, "failed")
    assert answer["tasks"] == [{"name": "statistics", "failures": 1, "reason": "KeyError: 'a defect'"}]
    assert read(node, "healthchecks/node")[1]["reason"] == "background task(s) failing: statistics"

    def switches_a_second() -> float:
        [row] = read(node, "nodes")[1]
        return float(row["context_switches_details"]["rate"])

    # a rate needs samples from after the failure
    node.wait_for(switches_a_second)
