"""Definitions files of more commands than one turn carries out."""

from typing import Any

from tests.admin.calling import Api
from warren.admin.definition_import import SLICE_COMMANDS

COUNT = 3 * SLICE_COMMANDS + 1


def file_of(prefix: str, **last: Any) -> dict[str, Any]:
    names = [f"{prefix}{number}" for number in range(COUNT)]
    # bindings stand before the queues that they need, and are carried out after them
    bindings = [
        {"vhost": "/", "source": "amq.topic", "destination": name, "destination_type": "queue"} for name in names
    ]
    bindings[-1] |= last
    return {"bindings": bindings, "queues": [{"name": name, "vhost": "/"} for name in names]}


def queues_of(api: Api, prefix: str) -> int:
    return sum(row["name"].startswith(prefix) for row in api.read("queues"))


def test_a_large_file_is_imported_whole(api: Api) -> None:
    assert api.call("POST", "definitions", file_of("whole")).status == 204
    assert queues_of(api, "whole") == COUNT
    assert len(api.read("exchanges/%2F/amq.topic/bindings/source")) == COUNT


def test_a_fault_at_the_end_of_a_large_file_leaves_nothing(api: Api) -> None:
    refused = api.call("POST", "definitions", file_of("part", destination="nosuch"))
    assert refused.status == 400
    assert refused.reason.startswith("line 1, bindings: ")
    assert refused.reason.endswith("; nothing was imported")
    assert queues_of(api, "part") == 0
