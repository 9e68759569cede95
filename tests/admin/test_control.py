"""A node's process, changed and stopped over HTTP."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.admin.calling import Api
from tests.support.node_process import STOP_DEADLINE_S, NodeProcess

DISK = "warren/settings/disk_free_limit.absolute"
MEMORY = "warren/settings/vm_memory_high_watermark.relative"


@pytest.fixture
def levels(api: Api) -> Iterator[None]:
    yield
    assert api.call("PUT", "warren/log-levels", {"categories": {"default": "info"}}).status == 204


def test_a_disk_limit_that_is_not_met_is_an_alarm_until_it_is(api: Api) -> None:
    assert api.call("PUT", DISK, {"value": "1000TB"}).status == 204
    heard = api.get("health/checks/alarms")
    assert heard.status == 503
    assert heard.json == {
        "status": "failed",
        "reason": "There are alarms in effect in the cluster",
        "alarms": [{"node": "hare@here", "resource": "disk"}],
    }
    assert api.get("health/checks/local-alarms").reason == "There are alarms in effect on the node"
    assert api.read("healthchecks/node")["status"] == "failed"
    row = api.read("nodes/hare@here")
    assert (row["disk_free_alarm"], row["mem_alarm"]) == (True, False)
    assert row["disk_free_limit"] == 1000 * 10**12
    assert api.call("PUT", DISK, {"value": 50_000_000}).status == 204
    assert api.read("health/checks/alarms") == {"status": "ok"}


def test_settings_are_shown_and_changed(api: Api) -> None:
    assert api.call("PUT", MEMORY, {"value": 0.25}).status == 204
    limit = api.read("nodes/hare@here")["mem_limit"]
    shown = api.read("warren/settings")
    assert shown["vm_memory_high_watermark.absolute"] == limit
    assert shown["frame_max"] == 131072
    assert not [name for name in shown if "pass" in name and name != "password_hashing_module"]


@pytest.mark.parametrize(
    ("path", "body", "status", "reason"),
    [
        ("warren/settings/frame_max", {"value": 1}, 404, "Not Found"),
        (
            MEMORY,
            {"value": 2},
            400,
            "vm_memory_high_watermark.relative must be a fraction from 0 to 1, like 0.4, not '2'",
        ),
        (MEMORY, {"value": True}, 400, "value must be a string or a number"),
        (MEMORY, {}, 400, "value must be a string or a number"),
        (DISK, {"value": "much"}, 400, "disk_free_limit.absolute must be a size"),
        ("warren/log-levels/nosuch", {"level": "info"}, 400, "category must be one of default, connection"),
        ("warren/log-levels/queue", {"level": "loud"}, 400, "level must be one of debug, info"),
        ("warren/log-levels/queue", {}, 400, "level must be one of debug, info"),
        ("warren/log-levels", {"categories": 1}, 400, "categories must be an object"),
    ],
)
def test_nonsense_changes_nothing_and_says_why(api: Api, path: str, body: object, status: int, reason: str) -> None:
    heard = api.call("PUT", path, body)
    assert heard.status == status
    assert heard.reason.startswith(reason)


def test_log_levels_are_changed_while_the_node_runs(api: Api, levels: None) -> None:
    known = api.read("warren/log-levels")
    assert known["levels"] == ["debug", "info", "warning", "error", "critical", "none"]
    assert known["categories"]["connection"] == "info"
    assert api.call("PUT", "warren/log-levels/connection", {"level": "error"}).status == 204
    assert api.call("PUT", "warren/log-levels", {"categories": {"queue": "none", "channel": "bad"}}).status == 400
    now = api.read("warren/log-levels")["categories"]
    assert (now["connection"], now["queue"], now["default"]) == ("error", "info", "info")
    before = api.node.log().count("event=login.refused")
    api.get("whoami", user=("guest", "wrong"))
    assert api.node.log().count("event=login.refused") == before


def test_only_administrators_may(api: Api) -> None:
    assert api.call("PUT", "users/watcher", {"password": "watcher", "tags": "monitoring"}).status == 201
    watcher = ("watcher", "watcher")
    for method, path in (("POST", "nodes/hare@here/stop"), ("PUT", MEMORY), ("PUT", "warren/log-levels/queue")):
        assert api.call(method, path, {}, user=watcher).reason == "Not administrator user"


def test_a_node_is_stopped_and_answers_first(tmp_path: Path) -> None:
    node = NodeProcess(tmp_path, "--name", "hare@here")
    api = Api(node)
    assert api.call("POST", "nodes/other@there/stop", {}).status == 404
    assert api.call("POST", "nodes/hare@here/stop", {}).status == 204
    assert node.process.wait(STOP_DEADLINE_S) == 0
    assert "event=stop.requested user=guest" in node.log()
    node.kill()
