"""Records as text and as JSON, compared with RabbitMQ's files of the same messages."""

import json
from typing import Any

from tests.unit.admin.tracing.copies import RECORDED, RECORDED_COPIES, Copy
from warren.admin.tracing.formats import SCHEMA_VERSION, json_of, text_of
from warren.admin.tracing.records import TraceRecord, record_of, timestamp_of
from warren.wire.method_stream import ReceivedMethod
from warren.wire.methods import BasicDeliver
from warren.wire.properties import Properties, encode_header_payload


def text_record(copy: Copy, payload_bytes_max: int | None = None) -> bytes:
    return text_of(record_of(copy.heard(), copy.at_ms, payload_bytes_max))


def json_record(copy: Copy, payload_bytes_max: int | None = None) -> dict[str, Any]:
    line = json_of(record_of(copy.heard(), copy.at_ms, payload_bytes_max))
    assert line.endswith(b"}\n")
    assert line.count(b"\n") == 1
    found: dict[str, Any] = json.loads(line)
    return found


def of_rabbitmq(line: bytes) -> dict[str, Any]:
    """RabbitMQ's line without the intended differences."""
    found: dict[str, Any] = json.loads(line)
    if found["routed_queues"] == "none":
        found["routed_queues"] = []
    headers = found["properties"].get("headers", {})
    if "d" in headers:
        # RabbitMQ takes the scale of a decimal for its integer part
        assert headers["d"] == 1.15
        headers["d"] = 1.5
    # each trace has its own timestamps
    return {name: value for name, value in found.items() if name != "timestamp"}


def test_text_is_that_of_rabbitmq_octet_for_octet() -> None:
    assert b"".join(text_record(copy) for copy in RECORDED_COPIES) == (RECORDED / "text.log").read_bytes()


def test_json_has_the_fields_and_values_of_rabbitmq() -> None:
    written = [json_record(copy) for copy in RECORDED_COPIES]
    assert {found.pop("schema_version") for found in written} == {SCHEMA_VERSION}
    assert [found.pop("timestamp")[:17] for found in written] == ["2026-11-15T09:51:"] * len(written)
    # fields that RabbitMQ does not have
    beyond = {"epoch": 0, "nodes": [], "reason": "", "redelivered": False}
    assert [{name: found.pop(name) for name in beyond} for found in written] == [beyond] * len(written)
    assert written == [of_rabbitmq(line) for line in (RECORDED / "json.log").read_bytes().splitlines()]


def test_a_payload_is_cut_where_it_is_too_long() -> None:
    copy = RECORDED_COPIES[0]
    assert json_record(copy, 4)["payload"] == "aGVsbA=="
    assert text_record(copy, 4).endswith(b"\nPayload: \nhell\n")
    assert json_record(copy, 0)["payload"] == ""
    assert json_record(copy, 100) == json_record(copy)


def test_names_that_are_not_utf_8_lose_nothing() -> None:
    name = b"\xff\x00q".decode("utf-8", "surrogateescape")
    published = Copy(
        "09:51:50.014", b"x", exchange=name, key=name, routed=(name,), properties={"headers": {name: name}}
    )
    found = json_record(published)
    escaped = "Not UTF-8, base64 is: /wBx"
    assert (found["exchange"], found["routing_keys"], found["routed_queues"]) == (escaped, [escaped], [escaped])
    assert found["properties"] == {"headers": {escaped: escaped}}
    assert b"Exchange:     \xff\x00q\nRouting keys: [<<255,0,113>>]\n" in text_record(published)
    assert json_record(Copy("09:51:50.014", b"x", queue=name))["queue"] == escaped


def test_every_field_has_the_same_type_in_every_record() -> None:
    types = [{name: type(value) for name, value in json_record(copy).items()} for copy in RECORDED_COPIES]
    assert all(found == types[0] for found in types)


def record_with(key: str, **headers: object) -> TraceRecord:
    """The record of a copy with this key and these extra headers."""
    facts = {"exchange_name": "", "routing_keys": ["tq"], "properties": {}, "node": "a", "vhost": "/"}
    heard = ReceivedMethod(1, BasicDeliver("ctag", 1, False, "amq.rabbitmq.trace", key))
    heard.header = encode_header_payload(Properties(headers={**facts, **headers}), 0)
    return record_of(heard, 0, None)


def test_the_outcome_of_a_delivery_is_written() -> None:
    acked = record_with("ack.tq", redelivered=1)
    found = json.loads(json_of(acked))
    assert (found["type"], found["queue"], found["redelivered"], found["reason"]) == ("acked", "tq", True, "")
    assert b": Message acked\n" in text_of(acked)
    rejected = record_with("reject.tq", redelivered=0, requeue=1, reason="requeued")
    found = json.loads(json_of(rejected))
    assert (found["type"], found["redelivered"], found["reason"]) == ("rejected", False, "requeued")
    assert b"\nQueue:        tq\nReason:       requeued\n" in text_of(rejected)


def test_the_trace_of_a_dead_letter_names_its_destination() -> None:
    record = record_with("dead.tq", reason="expired", dead_letter_exchange="dlx", routed_queues=["grave"])
    found = json.loads(json_of(record))
    assert (found["type"], found["queue"], found["reason"]) == ("dead_lettered", "tq", "expired")
    assert found["routed_queues"] == ["grave"]
    assert b'\nQueue:        tq\nReason:       expired\nRouted queues: [<<"grave">>]\n' in text_of(record)


def test_the_holders_of_a_confirmed_message_are_written() -> None:
    record = record_with("confirm.tq", epoch=3, nodes=["a", "b"])
    found = json.loads(json_of(record))
    assert (found["type"], found["queue"], found["epoch"], found["nodes"]) == ("confirmed", "tq", 3, ["a", "b"])
    text = text_of(record)
    assert b": Message confirmed\n" in text
    assert b'\nQueue:        tq\nEpoch:        3\nHeld by:      [<<"a">>,<<"b">>]\n' in text


def test_a_timestamp_has_milliseconds_in_utc() -> None:
    assert timestamp_of(0) == "1970-01-01T00:00:00.000+00:00"
    assert timestamp_of(1_794_736_310_014) == "2026-11-15T09:51:50.014+00:00"
