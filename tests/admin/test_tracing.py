"""Traces on a real node: started, fed by a real client, read and stopped over HTTP."""

import base64
import json
import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pika
import pytest

from tests.admin.calling import Api, connected, in_path
from tests.support.deadlines import eventually
from tests.support.node_process import NodeProcess

DEADLINE_S = 60.0
TEXT = {"format": "text", "pattern": "#"}
JSON = {"format": "json", "pattern": "#"}
NOT_STARTED = "Something went wrong trying to start the trace - "
_NUMBERS = count(1)


@pytest.fixture
def channel(node: NodeProcess) -> Iterator[pika.adapters.blocking_connection.BlockingChannel]:
    connection = connected(node)
    opened = connection.channel()
    opened.confirm_delivery()
    yield opened
    connection.close()


@pytest.fixture
def name(api: Api) -> Iterator[str]:
    """Of a trace, which is stopped afterwards if the test did not."""
    chosen = f"trail-{next(_NUMBERS)}"
    yield chosen
    api.call("DELETE", f"traces/%2F/{chosen}")


def start(api: Api, name: str, order: dict[str, Any], vhost: str = "/") -> None:
    heard = api.call("PUT", f"traces/{in_path(vhost)}/{in_path(name)}", order)
    assert (heard.status, heard.body) == (201, b"")


def stop(api: Api, name: str, vhost: str = "/") -> None:
    assert api.call("DELETE", f"traces/{in_path(vhost)}/{in_path(name)}").status == 204


def lines(api: Api, name: str) -> list[dict[str, Any]]:
    """What stands in a trace's file of JSON; its last line may not be whole yet."""
    heard = api.get(f"trace-files/{name}.log")
    assert heard.headers["content-type"] == "text/plain"
    return [json.loads(line) for line in heard.body.split(b"\n")[:-1]]


def traced(api: Api, vhost: str = "/") -> bool:
    return bool(api.read(f"vhosts/{in_path(vhost)}")["tracing"])


def test_a_message_is_seen_when_it_is_published_delivered_and_got(api: Api, name: str, channel: Any) -> None:
    channel.exchange_declare("tx", "topic")
    channel.queue_declare("tq")
    channel.queue_bind("tq", "tx", "r.#")
    start(api, name, JSON)
    start(api, f"{name}-text", TEXT)
    properties = pika.BasicProperties(type="order", headers={"n": 5})
    channel.basic_publish("tx", "r.k", b"got \xff", properties)
    assert channel.basic_get("tq", auto_ack=True)[2] == b"got \xff"
    channel.basic_publish("", "tq", b"delivered")
    next(channel.consume("tq", auto_ack=True))
    channel.cancel()
    eventually(lambda: len(lines(api, name)) == 4)
    stop(api, name)
    stop(api, f"{name}-text")

    found = lines(api, name)
    assert [(one["type"], one["exchange"], one["queue"]) for one in found] == [
        ("published", "tx", "none"),
        ("received", "tx", "tq"),
        ("published", "", "none"),
        ("received", "", "tq"),
    ]
    assert [one["routed_queues"] for one in found] == [["tq"], [], ["tq"], []]
    assert [one["routing_keys"] for one in found] == [["r.k"], ["r.k"], ["tq"], ["tq"]]
    assert [base64.b64decode(one["payload"]) for one in found] == [b"got \xff", b"got \xff", b"delivered", b"delivered"]
    assert found[0]["properties"] == {"type": "order", "headers": {"n": 5}}
    assert {(one["schema_version"], one["node"], one["vhost"], one["user"], one["channel"]) for one in found} == {
        (1, "hare@here", "/", "guest", 1)
    }

    text = api.get(f"trace-files/{name}-text.log").body
    assert text.count(b"\n" + b"=" * 80 + b"\n") == 4
    assert b": Message published\n\nNode:         hare@here\nConnection:   127.0.0.1:" in text
    assert b'Routing keys: [<<"r.k">>]\nRouted queues: [<<"tq">>]\n' in text
    assert b"Queue:        tq\n" in text
    assert b'{<<"headers">>,table,[{<<"n">>,signedint,5}]}' in text
    assert text.endswith(b"Payload: \ndelivered\n")


def test_acks_requeues_and_dead_letters_are_traced(api: Api, name: str, channel: Any) -> None:
    channel.queue_declare("grave")
    channel.queue_declare("dying", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "grave"})
    channel.basic_publish("", "dying", b"acked")
    channel.basic_publish("", "dying", b"buried")
    start(api, name, {"format": "json", "pattern": "*.dying"})
    channel.basic_ack(channel.basic_get("dying")[0].delivery_tag)
    channel.basic_nack(channel.basic_get("dying")[0].delivery_tag, requeue=True)
    channel.basic_reject(channel.basic_get("dying")[0].delivery_tag, requeue=False)
    eventually(lambda: len(lines(api, name)) == 7)
    stop(api, name)
    found = lines(api, name)
    assert [(one["type"], base64.b64decode(one["payload"]), one["redelivered"], one["reason"]) for one in found] == [
        ("received", b"acked", False, ""),
        ("acked", b"acked", False, ""),
        ("received", b"buried", False, ""),
        ("rejected", b"buried", False, "requeued"),
        ("received", b"buried", True, ""),
        ("rejected", b"buried", True, "rejected"),
        ("dead_lettered", b"buried", False, "rejected"),
    ]
    assert found[-1]["routed_queues"] == ["grave"]
    assert {one["queue"] for one in found} == {"dying"}


def test_a_pattern_and_a_payload_limit_say_what_is_written(api: Api, name: str, channel: Any) -> None:
    channel.queue_declare("tq")
    start(api, name, {"format": "json", "pattern": "deliver.tq", "max_payload_bytes": 4})
    channel.basic_publish("", "tq", b"hello")
    channel.basic_get("tq", auto_ack=True)
    stop(api, name)
    assert [(one["type"], one["payload"]) for one in lines(api, name)] == [("received", "aGVsbA==")]


def test_the_first_trace_switches_the_firehose_on_and_the_last_off(api: Api, name: str) -> None:
    before = api.read("vhosts/%2F")["description"]
    start(api, name, TEXT)
    start(api, f"{name}-2", JSON)
    assert traced(api)
    stop(api, name)
    assert traced(api)
    stop(api, f"{name}-2")
    assert not traced(api)
    assert api.read("vhosts/%2F")["description"] == before
    assert not [queue for queue in api.read("queues") if queue["name"].startswith("amq.gen")]


def test_a_running_trace_is_shown(api: Api, name: str) -> None:
    start(
        api,
        name,
        {**TEXT, "max_payload_bytes": 9, "tracer_connection_username": "guest", "tracer_connection_password": "guest"},
    )
    [row] = api.read("traces")
    queue = row.pop("queue")
    assert row == {
        "vhost": "/",
        "name": name,
        "format": "text",
        "pattern": "#",
        "max_payload_bytes": 9,
        "tracer_connection_username": "guest",
        "file": f"{name}.log",
        "state": "running",
        "written": 0,
        "dropped": 0,
    }
    assert queue["name"].startswith("amq.gen-")
    assert (queue["exclusive"], queue["durable"], queue["messages"], queue["node"]) == (True, False, 0, "hare@here")
    for path in ("traces/%2F", "traces/node/hare@here", "traces/node/hare@here/%2F"):
        assert [one["name"] for one in api.read(path)] == [name]
    for path in (f"traces/%2F/{name}", f"traces/node/hare@here/%2F/{name}"):
        assert api.read(path)["name"] == name
    for path in ("traces/nosuch", "traces/node/other", f"traces/nosuch/{name}", "traces/%2F/nosuch"):
        assert api.get(path).status == 404
    assert api.call("DELETE", "traces/%2F/nosuch").json == {"error": "Object Not Found", "reason": "Not Found"}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({}, "[{key_missing,format},{key_missing,pattern}]"),
        ({"format": "text"}, "[{key_missing,pattern}]"),
        ({"pattern": "#"}, "[{key_missing,format}]"),
        ({"format": "xml", "pattern": "#"}, "format not json or text"),
        ({"format": [], "pattern": "#"}, "format not json or text"),
        ({"format": "text", "pattern": 5}, "pattern must be a string"),
        ({"format": "text", "pattern": "#" * 256}, "pattern should be less than 255 bytes"),
        ({**TEXT, "max_payload_bytes": "5"}, "max_payload_bytes not integer"),
        ({**TEXT, "max_payload_bytes": 5.5}, "max_payload_bytes not integer"),
        ({**TEXT, "max_payload_bytes": True}, "max_payload_bytes not integer"),
        ({**TEXT, "max_payload_bytes": -1}, "max_payload_bytes must not be negative"),
        ({**TEXT, "tracer_connection_username": "nosuch"}, NOT_STARTED + "the user nosuch cannot log in"),
        ([], "not_json"),
    ],
)
def test_an_order_that_makes_no_sense_starts_nothing(api: Api, body: object, reason: str) -> None:
    heard = api.call("PUT", "traces/%2F/bad", body)
    assert heard.status == 400
    assert heard.reason.startswith(reason)
    assert api.read("traces") == []
    assert not traced(api)


def test_an_impossible_trace_is_refused_with_a_reason(api: Api, name: str) -> None:
    assert api.call("PUT", "vhosts/empty", {}).status == 201
    assert api.call("DELETE", "permissions/empty/guest").status == 204
    assert api.call("PUT", f"traces/nosuch/{name}", TEXT).status == 404
    heard = api.call("PUT", f"traces/empty/{name}", TEXT)
    assert heard.status == 400
    assert heard.reason.startswith(NOT_STARTED)
    assert not traced(api, "empty")
    start(api, name, TEXT)
    for vhost in ("%2F", "empty"):
        again = api.call("PUT", f"traces/{vhost}/{name}", TEXT)
        assert (again.status, again.reason) == (400, f"{NOT_STARTED}{name} is running in the virtual host /")
    assert api.call("PUT", "traces/%2F/" + "n" * 250, TEXT).status == 400
    api.call("DELETE", "vhosts/empty")


def test_only_administrators_may(api: Api) -> None:
    assert api.call("PUT", "users/watcher", {"password": "watcher", "tags": "monitoring"}).status == 201
    watcher = ("watcher", "watcher")
    for method, path in (
        ("GET", "traces"),
        ("PUT", "traces/%2F/t"),
        ("GET", "trace-files"),
        ("GET", "trace-files/t.log"),
    ):
        heard = api.call(method, path, TEXT if method == "PUT" else None, user=watcher)
        assert (heard.status, heard.reason) == (401, "Not administrator user")


def test_no_name_leads_out_of_the_directory(api: Api, node: NodeProcess, channel: Any) -> None:
    trace = "../a%2F\U0001f407"
    start(api, trace, JSON)
    channel.basic_publish("amq.fanout", "k", b"x")
    stop(api, trace)
    made = "%2E.%2Fa%252F\U0001f407.log"
    assert made in [one["name"] for one in api.read("trace-files")]
    assert api.get(f"trace-files/{in_path(made)}").status == 200
    (node.data / "secret.log").write_bytes(b"secret")
    for name in (
        "..%2Fsecret.log",
        "..%2FNODE",
        "..",
        "%2Fetc%2Fpasswd",
        "nosuch.log",
        "%00.log",
        "a" * 300 + ".log",
        "%FF.log",
    ):
        assert api.get(f"trace-files/{name}").status == 404
        assert api.call("DELETE", f"trace-files/{name}").status == 404
    assert (node.data / "secret.log").read_bytes() == b"secret"
    assert api.call("DELETE", f"trace-files/{in_path(made)}").status == 204


def test_a_file_is_read_whole_or_from_near_its_end_and_deleted(api: Api, name: str, channel: Any) -> None:
    start(api, name, JSON)
    for number in range(50):
        channel.basic_publish("amq.fanout", f"key-{number}", b"x" * 5000)
    stop(api, name)
    whole = api.get(f"trace-files/{name}.log")
    assert int(whole.headers["content-length"]) == len(whole.body) > 50 * 6000
    assert {"name": f"{name}.log", "size": len(whole.body)} in api.read("trace-files")
    assert api.read("trace-files/node/hare@here") == api.read("trace-files")
    tail = api.get(f"trace-files/{name}.log?tail=20000").body
    assert tail == whole.body[-len(tail) :]
    assert [one["routing_keys"] for one in map(json.loads, tail.splitlines())] == [["key-48"], ["key-49"]]
    assert api.get(f"trace-files/{name}.log?tail=much").reason == "tail must be a number of bytes"
    assert api.call("HEAD", f"trace-files/{name}.log").headers["content-length"] == str(len(whole.body))
    assert api.call("DELETE", f"trace-files/{name}.log").status == 204
    assert api.get(f"trace-files/{name}.log").status == 404


def test_deleting_a_virtual_host_ends_its_traces(api: Api, node: NodeProcess) -> None:
    assert api.call("PUT", "vhosts/gone", {}).status == 201
    start(api, "of-gone", TEXT, "gone")
    assert api.call("DELETE", "vhosts/gone").status == 204
    eventually(lambda: api.read("traces") == [])
    eventually(lambda: "event=trace.stopped vhost=gone name=of-gone" in node.log())
    assert "of-gone.log" in [one["name"] for one in api.read("trace-files")]


def test_deleting_its_user_ends_a_trace_with_a_reason(api: Api, name: str) -> None:
    assert api.call("PUT", "users/tracer", {"password": "tracer", "tags": ""}).status == 201
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    assert api.call("PUT", "permissions/%2F/tracer", everything).status == 201
    start(api, name, {**TEXT, "tracer_connection_username": "tracer", "tracer_connection_password": "tracer"})
    assert api.call("DELETE", "users/tracer").status == 204
    eventually(lambda: api.read(f"traces/%2F/{name}")["state"] == "failed")
    eventually(lambda: not traced(api))
    row = api.read(f"traces/%2F/{name}")
    assert row["reason"]
    assert "queue" not in row
    start(api, name, TEXT)
    assert api.read(f"traces/%2F/{name}")["state"] == "running"


def test_a_trace_stops_before_it_fills_the_disk(api: Api, name: str, node: NodeProcess) -> None:
    limit = "warren/settings/disk_free_limit.absolute"
    start(api, name, JSON)
    assert api.call("PUT", limit, {"value": "1000TB"}).status == 204
    try:
        eventually(lambda: api.get("health/checks/alarms").status == 503)
        refused = api.call("PUT", "traces/%2F/another", TEXT)
        assert refused.reason == NOT_STARTED + "the disk is low on free space"
        publish = {"properties": {}, "routing_key": "k", "payload": "x", "payload_encoding": "string"}
        assert api.call("POST", "exchanges/%2F/amq.fanout/publish", publish).status == 200
        eventually(lambda: api.read(f"traces/%2F/{name}")["state"] == "failed")
    finally:
        assert api.call("PUT", limit, {"value": 50_000_000}).status == 204
    assert api.read(f"traces/%2F/{name}")["reason"] == "the disk is low on free space"
    eventually(lambda: f"event=trace.failed vhost=/ name={name}" in node.log())
    eventually(lambda: not traced(api))


def test_messages_that_come_faster_than_they_are_written_wait_or_are_counted_as_dropped(
    api: Api, name: str, node: NodeProcess
) -> None:
    start(api, name, {"format": "json", "pattern": "publish.#"})
    connection = connected(node)
    fast = connection.channel()
    for _ in range(2000):
        fast.basic_publish("amq.fanout", "k", b"x" * 20_000)
    connection.close()

    def row() -> dict[str, Any]:
        found: dict[str, Any] = api.read(f"traces/%2F/{name}")
        return found

    eventually(lambda: bool((seen := row())["written"] + seen["dropped"] == 2000))
    written = row()["written"]
    stop(api, name)
    assert len(lines(api, name)) == written


def test_files_are_put_aside_and_survive_the_node_and_traces_do_not(tmp_path: Path) -> None:
    directory = tmp_path / "elsewhere"
    configuration = (
        f"trace_files.directory = {directory}\ntrace_files.rotation.size = 10KiB\ntrace_files.rotation.count = 3\n"
    )
    node = NodeProcess(tmp_path / "node", "--name", "hare@here", configuration=configuration)
    api = Api(node)
    start(api, "long", JSON)
    connection = connected(node)
    channel = connection.channel()
    channel.confirm_delivery()
    for number in range(100):
        channel.basic_publish("amq.fanout", f"key-{number}", b"x" * 700)
    eventually(lambda: bool(api.read("traces/%2F/long")["written"] == 100))
    sizes = {one["name"]: one["size"] for one in api.read("trace-files")}
    newest = max(int(name.rpartition(".")[2]) for name in sizes if name != "long.log")
    pieces = [f"long.log.{number}" for number in range(newest - 2, newest + 1)]
    assert sorted(sizes) == sorted([*pieces, "long.log"])
    assert max(sizes.values()) <= 10 * 1024
    text = b"".join(api.get(f"trace-files/{piece}").body for piece in [*pieces, "long.log"])
    keys = [json.loads(line)["routing_keys"][0] for line in text.splitlines()]
    assert keys == [f"key-{number}" for number in range(100 - len(keys), 100)]

    channel.basic_publish("amq.fanout", "last", b"before the node stops")
    connection.close()
    node.stop()
    assert json.loads((directory / "long.log").read_bytes().splitlines()[-1])["routing_keys"] == ["last"]
    node.start()
    assert api.read("traces") == []
    assert not traced(api)
    assert "long.log" in os.listdir(directory)
    node.stop()
