"""Requests made up from the API's own description: every answer is one that the description has.

Names are drawn from those of things that are there as often as they are made up, so that requests get somewhere. What
would end the node, or hold up its clients by setting its limits, is left out.
"""

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.admin.calling import Api, connected
from tests.support.node_process import NodeProcess
from warren.admin.api import api_router
from warren.admin.openapi import description

EXAMPLES = 5
CHECKS = [status_code_conformance, content_type_conformance, response_schema_conformance]
LEFT_OUT = {
    "/api/nodes/{node}/stop",
    "/api/warren/membership/stop_app",
    "/api/warren/settings/{key}",
    "/api/warren/log-levels/{category}",
}
WITHOUT_BODY = {
    ("PUT", "/api/feature-flags/{name}/enable"),
    ("POST", "/api/rebalance/queues"),
    ("POST", "/api/vhosts/{vhost}/start/{node}"),
    ("POST", "/api/nodes/{node}/stop"),
    ("PUT", "/api/nodes/{node}/draining"),
    ("POST", "/api/warren/membership/stop_app"),
    ("POST", "/api/warren/membership/start_app"),
    # a browser's form
    ("POST", "/api/login"),
}
PUT_LEFT_OUT = {"/api/warren/log-levels"}

FUZZER = ("fuzzer", "fuzzer")
THERE = {
    "vhost": ["fuzz"],
    "user": ["fuzzed"],
    "node": ["hare@here"],
    "name": ["thing", "max-queues", "max-connections", "limits", "trace.log"],
    "source": ["thing", "amq.topic"],
    "destination": ["thing"],
    "kind": ["q", "e"],
    "key": ["thing", "~"],
    "exchange": ["thing"],
    "component": ["operator_policy", "vhost-limits"],
}
"""What is there, by the names that paths have for it."""

NOT_TO_BE_TOUCHED = {"/", "guest", "fuzzer"}

document = description(api_router())
schema = schemathesis.openapi.from_dict(document)
operations: list[APIOperation[Any, Any, Any, Any]] = [
    found.ok()
    for found in schema.get_all_operations()
    if found.ok().path not in LEFT_OUT and not (found.ok().method == "put" and found.ok().path in PUT_LEFT_OUT)
]


@pytest.fixture(scope="module", autouse=True)
def _scene(api: Api) -> Iterator[None]:
    """Things to ask for, an administrator of its own, and a client that must not notice."""
    for path, body in (
        ("users/fuzzer", {"password": "fuzzer", "tags": "administrator"}),
        ("users/fuzzed", {"password": "fuzzed", "tags": "management"}),
        ("vhosts/fuzz", {}),
        ("permissions/fuzz/fuzzer", {"configure": ".*", "write": ".*", "read": ".*"}),
        ("queues/fuzz/thing", {"durable": True}),
        ("exchanges/fuzz/thing", {"type": "topic", "durable": True}),
    ):
        assert api.call("PUT", path, body).status == 201
    api.call("POST", "bindings/fuzz/e/thing/q/thing", {"routing_key": "thing"})
    with connected(api.node, heartbeat_s=0) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("beside", durable=True)
        channel.basic_publish("", "beside", b"before")
        yield
        channel.basic_publish("", "beside", b"after")
        assert channel.queue_purge("beside").method.message_count == 2
    assert "http.failed" not in api.node.log()
    assert is_the_same_after_a_restart(api)


def is_the_same_after_a_restart(api: Api) -> bool:
    before = lasting(api.read("definitions"))
    api.node.restart()
    return before == lasting(api.read("definitions"))


def lasting(definitions: dict[str, Any]) -> dict[str, Any]:
    """What is kept on disk: not what is transient, nor what is bound to it."""
    for kind in ("queues", "exchanges"):
        definitions[kind] = [row for row in definitions[kind] if row["durable"]]
    kept = {(row["vhost"], row["name"]) for kind in ("queues", "exchanges") for row in definitions[kind]}
    definitions["bindings"] = [
        row
        for row in definitions["bindings"]
        if all((row["vhost"], row[end]) in kept or row[end].startswith("amq.") for end in ("source", "destination"))
    ]
    return definitions


@pytest.mark.parametrize("operation", operations, ids=lambda operation: operation.label)
def test_every_answer_is_one_of_those_described(node: NodeProcess, operation: APIOperation[Any, Any, Any, Any]) -> None:
    host, port = node.addresses["http"]

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=st.one_of([operation.as_strategy(generation_mode=mode) for mode in GenerationMode]), data=st.data())
    def ask(case: Any, data: st.DataObject) -> None:
        for name in case.path_parameters or {}:
            if data.draw(st.booleans()) or case.path_parameters[name] in NOT_TO_BE_TOUCHED:
                case.path_parameters[name] = data.draw(st.sampled_from(THERE.get(name, ["thing"])))
        response = case.call(base_url=f"http://{host}:{port}", auth=FUZZER)
        case.validate_response(response, checks=CHECKS)

    ask()


def test_every_request_that_may_have_a_body_is_described_with_it() -> None:
    undescribed = {
        (method, path)
        for path, item in document["paths"].items()
        for method in ("PUT", "POST")
        if method.lower() in item and "requestBody" not in item[method.lower()]
    }
    assert undescribed == WITHOUT_BODY


def test_the_description_is_served_without_a_login(api: Api) -> None:
    heard = api.get("openapi.json", user=None)
    assert (heard.status, heard.json) == (200, document)
