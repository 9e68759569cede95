"""The broker's counters, from its HTTP API or from a file."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.ports import free_port
from warren.pipeline.audit.counters import Counters, QueueCounters, from_broker, from_file, parsed
from warren.pipeline.errors import PipelineError


def _queue(**fields: Any) -> QueueCounters:
    [found] = parsed([{"vhost": "/", "name": "orders", **fields}], "a test").queues
    return found


def test_the_answer_of_the_api_is_read() -> None:
    counted = {"publish": 10, "deliver_get": 9, "ack": 8, "publish_details": {"rate": 0.0}}
    found = _queue(messages=5, messages_ready=2, message_stats=counted, type="classic")
    assert found == QueueCounters("/", "orders", False, False, 2, 10, 9, 8)


def test_an_unused_queue_has_no_stats() -> None:
    assert _queue(messages=0) == QueueCounters("/", "orders", False, False, 0, None, None, None)


def test_the_counts_of_a_queue_that_is_down_are_unknown() -> None:
    assert _queue(state="down").in_queue is None


@pytest.mark.parametrize(
    ("fields", "may_drop"),
    [
        ({"arguments": {"x-message-ttl": 1000}}, True),
        ({"effective_policy_definition": {"max-length": 10}}, True),
        ({"arguments": {"x-max-length": 10, "x-dead-letter-exchange": "graves"}}, False),
        ({"arguments": {"x-max-length": 10}, "effective_policy_definition": {"dead-letter-exchange": ""}}, False),
        ({"arguments": {"x-max-length": 10, "x-dead-letter-exchange": "", "x-overflow": "reject-publish"}}, True),
        ({"arguments": {"x-overflow": "reject-publish"}}, False),
        ({"arguments": {"x-max-priority": 5}}, False),
    ],
)
def test_limits_may_drop_messages_that_no_dead_letter_tells_of(fields: dict[str, Any], may_drop: bool) -> None:
    assert _queue(messages=0, **fields).may_drop is may_drop


def test_a_file_is_a_list_of_queues_or_has_traces_too(tmp_path: Path) -> None:
    queues = [{"vhost": "/", "name": "b", "messages": 0}, {"vhost": "/", "name": "a", "messages": 1}]
    path = tmp_path / "counters.json"
    path.write_text(json.dumps(queues))
    assert [each.queue for each in from_file(str(path)).queues] == ["a", "b"]
    path.write_text(json.dumps({"queues": queues, "traces": [{"name": "one", "dropped": 3}, {"name": "two"}]}))
    assert from_file(str(path)).copies_dropped == 3


@pytest.mark.parametrize("text", ['{"items": []}', '[{"name": "orders"}]', "[1]", "17"])
def test_a_file_that_is_something_else_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "counters.json"
    path.write_text(text)
    with pytest.raises(PipelineError, match="has no counters of queues"):
        from_file(str(path))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"there is no file .*counters\.json"):
        from_file(str(tmp_path / "counters.json"))


def test_a_broker_that_does_not_answer_is_named() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(PipelineError, match=f"does not answer at {url}: "):
        from_broker(url, "guest", "guest")


def test_no_queues_are_no_mistake() -> None:
    assert parsed([], "a test") == Counters((), 0)
