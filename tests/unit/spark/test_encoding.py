"""Rows as frames: read back as a broker reads them."""

from typing import Any

import pyarrow as pa
import pytest

from warren.spark.encoder import EncodingError, RowEncoder
from warren.spark.options import PROPERTIES, write_options
from warren.spark.publishing_ids import TaskPublisher
from warren.wire.frames import BODY, METHOD, FrameReader
from warren.wire.methods import BasicPublish, decode_method
from warren.wire.properties import Properties, decode_properties

FRAME_MAX = 4096
KINDS = {"string": pa.string(), "int": pa.int32(), "bigint": pa.int64()}
TEXTS = pa.map_(pa.string(), pa.string())
Published = tuple[str, str, bool, Properties, bytes]


def encoder(**options: str) -> RowEncoder:
    given = write_options({"url": "amqp://localhost", **options})
    return RowEncoder(given, TaskPublisher("query/1", "5-"), FRAME_MAX - 8)


def published(made: RowEncoder, **columns: Any) -> list[Published]:
    batch = pa.RecordBatch.from_pydict(columns)
    return [each for piece in made.pieces(batch) for each in read_back(piece.frames)]


def read_back(frames: bytes) -> list[Published]:
    reader = FrameReader(FRAME_MAX)
    reader.feed(frames)
    found: list[list[Any]] = []
    while reader.next():
        assert reader.channel == 1
        if reader.frame_type == METHOD:
            method = decode_method(reader.data, reader.start, reader.end)
            assert isinstance(method, BasicPublish)
            found.append([method.exchange, method.routing_key, method.mandatory, b"", b""])
        elif reader.frame_type == BODY:
            found[-1][4] += reader.payload()
        else:
            found[-1][3] = reader.payload()
    for each in found:
        assert int.from_bytes(each[3][4:12], "big") == len(each[4])
        each[3] = decode_properties(each[3], 0, len(each[3]))
    return [tuple(each) for each in found]  # type: ignore[misc]


def test_a_body_alone_is_a_persistent_message_with_an_id() -> None:
    (first, second) = published(encoder(exchange="e", routingKey="k"), body=[b"one", b""])
    assert (first[:3], first[4]) == (("e", "k", True), b"one")
    assert second[4] == b""
    headers = first[3].headers
    assert headers is not None
    assert headers["x-warren-publisher"] in TaskPublisher("query/1").names()
    assert str(headers["x-warren-publishing-id"]).startswith("5-")
    assert first[3] == Properties(headers=headers, delivery_mode=2)


def test_a_body_larger_than_a_frame_comes_in_several() -> None:
    bodies = [b"a" * 10_000, b"b", b"c" * (FRAME_MAX - 8), b"d" * (FRAME_MAX - 7)]
    assert [each[4] for each in published(encoder(routingKey="k"), body=bodies)] == bodies


def test_text_is_written_as_utf_8() -> None:
    assert [each[4] for each in published(encoder(routingKey="k"), body=["Käse"])] == ["Käse".encode()]


def test_columns_take_the_place_of_options_where_they_are_not_null() -> None:
    found = published(
        encoder(exchange="e", routingKey="k", mandatory="false"),
        body=[b"", b"", b""],
        exchange=pa.array(["x", None, "x"]),
        routing_key=pa.array([None, "key", "ключ"]),
    )
    assert [each[:3] for each in found] == [("x", "k", False), ("e", "key", False), ("x", "ключ", False)]


def test_every_property_and_header_comes_through() -> None:
    kind = pa.struct([(name, KINDS[PROPERTIES[name]]) for name in PROPERTIES])
    whole = {
        "content_type": "text/plain", "content_encoding": "gzip", "delivery_mode": 1, "priority": 9,
        "correlation_id": "c", "reply_to": "r", "expiration": "1000", "timestamp": 1_700_000_000, "type": "t",
        "user_id": "guest", "app_id": "a", "cluster_id": "i",
    }  # fmt: skip
    found = published(
        encoder(routingKey="k"),
        body=[b"1", b"2", b"3"],
        message_id=pa.array(["m", None, None]),
        properties=pa.array([whole, None, {"priority": 3}], kind),
        headers=pa.array([[("a", "b"), ("ä", "")], None, []], TEXTS),
    )
    ours = {"x-warren-publisher", "x-warren-publishing-id"}
    headers = [{k: v for k, v in (each[3].headers or {}).items() if k not in ours} for each in found]
    assert headers == [{"a": "b", "ä": ""}, {}, {}]
    for each in found:
        each[3].headers = None
    assert [each[3] for each in found] == [
        Properties(message_id="m", **whole),  # type: ignore[arg-type]
        Properties(delivery_mode=2),
        Properties(delivery_mode=2, priority=3),
    ]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.string(), "x"),
        (pa.int64(), -(2**40)),
        (pa.int32(), 7),
        (pa.bool_(), True),
        (pa.float64(), 0.5),
        (pa.binary(), b"\xff"),
    ],
)
def test_headers_keep_their_kind(kind: Any, value: object) -> None:
    headers = pa.array([[("h", value), ("none", None), ("x-stream-offset", value)]], pa.map_(pa.string(), kind))
    (found,) = published(encoder(routingKey="k"), body=[b""], headers=headers)
    assert found[3].headers is not None
    assert {k: v for k, v in found[3].headers.items() if not k.startswith("x-warren-")} == {"h": value}


def test_slices_of_columns_are_read_as_they_are() -> None:
    batch = pa.RecordBatch.from_pydict({
        "body": [b"%d" % number for number in range(10)],
        "routing_key": [f"key {number}" for number in range(10)],
        "headers": pa.array([[("n", number)] for number in range(10)], pa.map_(pa.string(), pa.int64())),
        "properties": pa.array([{"priority": number} for number in range(10)], pa.struct([("priority", pa.int32())])),
    })  # fmt: skip
    found = [each for piece in encoder().pieces(batch.slice(3, 4)) for each in read_back(piece.frames)]
    assert [(each[1], (each[3].headers or {})["n"], each[3].priority, each[4]) for each in found] == [
        (f"key {number}", number, number, b"%d" % number) for number in range(3, 7)
    ]


def ids(**columns: Any) -> list[object]:
    return [(each[3].headers or {})["x-warren-publishing-id"] for each in published(encoder(), **columns)]


def test_an_id_is_the_message_id_or_depends_on_all_the_row_says() -> None:
    assert ids(body=[b"1", b"1"], message_id=["a", "b"]) == ["a", "b"]
    mixed = ids(body=[b"1", b"1"], message_id=pa.array(["a", None]))
    assert mixed[0] == "a"
    assert str(mixed[1]).startswith("5-")
    by_key = ids(body=[b"1", b"1"], routing_key=["a", "b"])
    assert by_key[0] != by_key[1]
    assert by_key == ids(body=[b"1", b"1"], routing_key=["b", "a"])[::-1]
    kind = pa.struct([("correlation_id", pa.string()), ("reply_to", pa.string())])
    properties = pa.array([{"correlation_id": "a"}, {"reply_to": "a"}], kind)
    assert len({str(each).partition(".")[0] for each in ids(body=[b"1", b"1"], properties=properties)}) == 2


def test_an_id_does_not_depend_on_the_rows_beside() -> None:
    kind = pa.struct([("priority", pa.int32())])
    rows = [
        {"body": b"1", "message_id": None, "headers": None, "properties": None},
        {"body": b"2", "message_id": "m", "headers": None, "properties": None},
        {"body": b"3", "message_id": None, "headers": [("a", "b")], "properties": None},
        {"body": b"4", "message_id": "", "headers": None, "properties": {"priority": 4}},
    ]

    def found(*some: dict[str, Any]) -> list[object]:
        kinds = {"body": pa.binary(), "message_id": pa.string(), "headers": TEXTS, "properties": kind}
        return ids(**{name: pa.array([row[name] for row in some], each) for name, each in kinds.items()})

    together = found(*rows)
    assert together == [each for row in rows for each in found(row)]
    assert together == found(*rows[::-1])[::-1]
    assert (together[1], len(set(together))) == ("m", 4)


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"body": pa.array([b"", None])}, "a row has no body"),
        ({"body": [b""], "routing_key": ["k" * 256]}, "routing_key of a row has more than 255 bytes"),
        ({"body": [b""], "message_id": ["k" * 256]}, "message_id of a row has more than 255 bytes"),
        ({"body": [b""], "properties": pa.array([{"priority": 256}])}, "property priority of a row is below 0 or"),
        (
            {"body": [b""], "headers": pa.array([[("h", "x" * 5000)]], TEXTS)},
            "the headers and properties of a row have",
        ),
    ],
)
def test_a_row_that_does_not_fit_is_refused(columns: dict[str, Any], sentence: str) -> None:
    with pytest.raises(EncodingError, match=sentence):
        published(encoder(routingKey="k"), **columns)


def test_a_row_has_the_same_publisher_among_any_others() -> None:
    bodies = [b"%d" % number for number in range(300)]

    def publishers(numbered: list[bytes], **columns: Any) -> dict[bytes, Any]:
        found = published(encoder(routingKey="k"), body=numbered, **columns)
        return {each[4]: (each[3].headers or {})["x-warren-publisher"] for each in found}

    assert publishers(bodies) == publishers(bodies[::-1])
    assert set(publishers(bodies).values()) == set(TaskPublisher("query/1").names())
    given = [body.decode() if int(body) % 2 else None for body in bodies]
    mixed = publishers(bodies, message_id=given)
    assert {body: mixed[body] for body in bodies[1::2]} == publishers(bodies[1::2], message_id=given[1::2])


def test_what_was_read_of_bytes_that_are_no_utf8_is_written_as_these_bytes() -> None:
    """Two ids that differ in such bytes alone stay two: the broker would drop the second message of one id."""
    names = ["Not UTF-8, base64 is: /w==", "Not UTF-8, base64 is: /g==", "Not UTF-8, base64 is: eA=="]
    found = published(
        encoder(),
        body=[b""] * 3,
        routing_key=names,
        message_id=names,
        headers=pa.array([[(name, name)] for name in names], TEXTS),
        properties=pa.array([{"app_id": name} for name in names], pa.struct([("app_id", pa.string())])),
    )
    octets = ["\udcff", "\udcfe", names[2]]
    assert [each[1] for each in found] == octets
    assert [(each[3].message_id, each[3].app_id) for each in found] == [(name, name) for name in octets]
    headers = [each[3].headers or {} for each in found]
    assert [each["x-warren-publishing-id"] for each in headers] == octets
    assert [each[name] for each, name in zip(headers, octets, strict=True)] == octets


def test_bytes_that_were_cast_to_text_are_written_as_they_are() -> None:
    raw = pa.Array.from_buffers(pa.string(), 2, pa.array([b"\xff\x00", b"caf\xe9"], pa.binary()).buffers())
    found = published(encoder(), body=[b"", b""], routing_key=raw, message_id=raw)
    assert [each[1] for each in found] == ["\udcff\x00", "caf\udce9"]
