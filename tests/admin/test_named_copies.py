"""Queues that copy others, made and shown over HTTP."""

import pytest

from tests.admin.calling import Api

COPIES: list[object] = ["orders", {"src_name": "returns", "routing_key": "eu.#"}]


@pytest.fixture
def copy(api: Api) -> str:
    """Copies `orders` and some of `returns`."""
    for name in ("orders", "returns"):
        assert api.call("PUT", f"queues/%2F/{name}", {"durable": True}).status in (201, 204)
    body = {"durable": True, "arguments": {"copy_from": COPIES, "mirrored": False}}
    assert api.call("PUT", "queues/%2F/audit", body).status in (201, 204)
    return "audit"


def test_a_queue_copy_is_shown_with_its_usual_arguments_and_its_sources(api: Api, copy: str) -> None:
    shown = api.get(f"queues/%2F/{copy}").json
    assert shown["arguments"] == {"x-copy-from": COPIES}
    assert "copied_by" not in shown
    for name in ("orders", "returns"):
        assert api.get(f"queues/%2F/{name}").json["copied_by"] == [copy]
    exported = api.get("definitions/%2F").json["queues"]
    (definition,) = [queue for queue in exported if queue["name"] == copy]
    assert definition["arguments"] == {"x-copy-from": COPIES}


def test_a_message_published_over_http_is_copied(api: Api, copy: str) -> None:
    message = {"properties": {}, "routing_key": "orders", "payload": "once", "payload_encoding": "string"}
    assert api.call("POST", "exchanges/%2F/amq.default/publish", message).json == {"routed": True}
    wanted = {"count": 10, "ackmode": "ack_requeue_false", "encoding": "auto"}
    for name in ("orders", copy):
        (found,) = api.call("POST", f"queues/%2F/{name}/get", wanted).json
        assert (found["routing_key"], found["payload"]) == ("orders", "once")


def test_definitions_may_name_sources_in_either_words(api: Api) -> None:
    queue = {"name": "imported", "vhost": "/", "durable": True, "arguments": {"copy_from": "orders"}}
    assert api.call("POST", "definitions", {"queues": [queue]}).status in (201, 204)
    assert api.get("queues/%2F/imported").json["arguments"] == {"x-copy-from": "orders"}


def test_a_copy_of_itself_is_refused(api: Api) -> None:
    heard = api.call("PUT", "queues/%2F/me", {"arguments": {"x-copy-from": "me"}})
    assert heard.status == 400
    assert "a queue cannot copy itself" in heard.reason
