"""Content headers: decoded, encoded, scanned and edited."""

import pytest

from tests.support.amqp_values import write_properties as written_by_the_tests
from warren.errors import FRAME_ERROR, SYNTAX_ERROR, UNEXPECTED_FRAME, ConnectionFault
from warren.wire.field_tables import Long, Table
from warren.wire.properties import Properties, decode_properties, edit_headers, encode_header_payload, find_header
from warren.wire.property_scan import PropertyScan

EVERYTHING = {
    "content_type": "text/plain",
    "content_encoding": "gzip",
    "headers": {"a": 1, "b": "two"},
    "delivery_mode": 2,
    "priority": 9,
    "correlation_id": "correlation",
    "reply_to": "replies",
    "expiration": "60000",
    "message_id": "message",
    "timestamp": 2**64 - 1,
    "type": "kind",
    "user_id": "guest",
    "app_id": "app",
    "cluster_id": "cluster",
}


def payload_of(properties: dict[str, object], body_bytes: int = 0) -> bytes:
    return b"\x00\x3c\x00\x00" + body_bytes.to_bytes(8, "big") + written_by_the_tests(properties)


def with_headers(table_content: bytes) -> bytes:
    return b"\x00\x3c\x00\x00" + bytes(8) + b"\x20\x00" + len(table_content).to_bytes(4, "big") + table_content


def decoded(payload: bytes) -> Properties:
    return decode_properties(payload, 0, len(payload))


def scanned(payload: bytes) -> PropertyScan:
    scan = PropertyScan()
    scan.scan(payload, 0, len(payload))
    return scan


def test_all_properties_are_read_and_written_as_the_specification_lays_them_out() -> None:
    payload = payload_of(EVERYTHING, 17)
    properties = decoded(payload)
    assert dict(properties.fields()) == EVERYTHING
    assert encode_header_payload(properties, 17) == payload


@pytest.mark.parametrize("name", sorted(EVERYTHING))
def test_each_property_can_be_the_only_one(name: str) -> None:
    payload = payload_of({name: EVERYTHING[name]})
    properties = decoded(payload)
    assert [(key, value) for key, value in properties.fields() if value is not None] == [(name, EVERYTHING[name])]
    assert encode_header_payload(properties, 0) == payload
    assert scanned(payload).flags == int.from_bytes(payload[12:14], "big")


def test_properties_show_and_compare_their_present_fields() -> None:
    assert Properties() == Properties()
    assert Properties(priority=1) != Properties(priority=2)
    assert hash(Properties(message_id="m")) == hash(Properties(message_id="m"))
    assert repr(Properties(delivery_mode=2, headers={})) == "Properties(headers={}, delivery_mode=2)"


@pytest.mark.parametrize(
    "properties",
    [
        Properties(timestamp=-1),
        Properties(timestamp=2**64),
        Properties(priority=256),
        Properties(app_id="a" * 256),
        Properties(headers={"k": object()}),
    ],
)
def test_a_property_that_does_not_fit_is_refused_on_writing(properties: Properties) -> None:
    with pytest.raises(ValueError):
        encode_header_payload(properties, 0)


def test_a_scan_finds_the_properties_that_the_broker_uses() -> None:
    payload = payload_of(EVERYTHING, 1234)
    data = b"before" + payload + b"after"
    scan = PropertyScan()
    scan.scan(data, 6, 6 + len(payload))
    assert (scan.class_id, scan.body_bytes, scan.flags) == (60, 1234, 0xFFFC)
    assert (scan.delivery_mode, scan.priority) == (2, 9)
    assert data[scan.expiration_start : scan.expiration_end] == b"60000"
    assert data[scan.user_id_start : scan.user_id_end] == b"guest"
    assert data[scan.reply_to_start : scan.reply_to_end] == b"replies"
    assert data[scan.headers_start : scan.headers_end] == b"\x01aI\x00\x00\x00\x01\x01bS\x00\x00\x00\x03two"


@pytest.mark.parametrize("properties", [{}, {"delivery_mode": 1}, {"app_id": "x"}])
def test_a_scan_forgets_the_header_before(properties: dict[str, object]) -> None:
    fresh, reused = PropertyScan(), PropertyScan()
    everything, payload = payload_of(EVERYTHING, 5), payload_of(properties)
    reused.scan(everything, 0, len(everything))
    for scan in (fresh, reused):
        scan.scan(payload, 0, len(payload))
    names = [name for name in dir(fresh) if not name.startswith("_") and name != "scan"]
    assert len(names) == 13
    assert {name: getattr(fresh, name) for name in names} == {name: getattr(reused, name) for name in names}


def test_a_failed_scan_leaves_nothing_of_the_header_before() -> None:
    scan = scanned(payload_of(EVERYTHING, 5))
    with pytest.raises(ConnectionFault):
        scan.scan(b"", 0, 0)
    assert (scan.class_id, scan.body_bytes, scan.priority, scan.headers_end) == (0, 0, -1, 0)


def test_a_body_size_of_64_bits_counts_as_the_maximum() -> None:
    assert scanned(payload_of({}, 2**64 - 1)).body_bytes == 2**63 - 1


@pytest.mark.parametrize("name", sorted(EVERYTHING))
def test_a_property_cut_short_is_a_syntax_error(name: str) -> None:
    payload = payload_of({name: EVERYTHING[name]})
    for end in range(12, len(payload)):
        with pytest.raises(ConnectionFault) as fault:
            scanned(payload[:end])
        assert fault.value.code == SYNTAX_ERROR


@pytest.mark.parametrize(
    "payload",
    [
        payload_of({}) + b"z",
        payload_of({"delivery_mode": 2}) + b"z",
        payload_of(EVERYTHING) + b"z",
        b"\x00\x3c\x00\x00" + bytes(8) + b"\x00\x01\x00\x00",
        with_headers(b"\x01aQ"),
        with_headers(b"\x01ad\x7f\xf0" + bytes(6)),
        b"\x00\x3c\x00\x00" + bytes(8) + b"\x20\x00\xff\xff\xff\xff\x01aV",
    ],
    ids=["spare", "spare mode", "spare all", "more flags", "unknown type", "infinite", "overrun"],
)
def test_properties_that_do_not_fit_their_flags_are_a_syntax_error(payload: bytes) -> None:
    for read in (scanned, decoded):
        with pytest.raises(ConnectionFault) as fault:
            read(payload)
        assert fault.value.code == SYNTAX_ERROR


def test_a_header_too_short_for_its_size_is_an_unknown_frame() -> None:
    with pytest.raises(ConnectionFault) as fault:
        scanned(b"\x00\x3c")
    assert (fault.value.code, fault.value.text) == (FRAME_ERROR, "type 2, all octets = <<0,60>>: unknown_frame")


def test_a_header_with_a_weight_is_not_a_header() -> None:
    with pytest.raises(ConnectionFault) as fault:
        scanned(b"\x00\x3c\x00\x01" + bytes(10))
    assert fault.value.code == UNEXPECTED_FRAME


def test_the_flag_without_a_meaning_is_ignored() -> None:
    payload = b"\x00\x3c\x00\x00" + bytes(8) + b"\x10\x02\x02"
    assert scanned(payload).delivery_mode == 2
    assert decoded(payload) == Properties(delivery_mode=2)


def test_a_header_is_found_by_its_whole_name_at_the_first_level() -> None:
    content = with_headers(b"\x02abV\x01xF\x00\x00\x00\x03\x01aV\x01aB\x01\x01aB\x02")[18:]
    at = find_header(content, 0, len(content), b"a")
    assert content[at : at + 2] == b"B\x01"
    assert find_header(content, 0, len(content), b"ab") == 3
    assert find_header(content, 0, len(content), b"b") == -1
    assert find_header(content, 0, 0, b"a") == -1


def test_a_malformed_table_is_noticed_while_looking_for_a_header() -> None:
    for content in (b"\x01a", b"\x01aQ", b"\x01aI\x00"):
        with pytest.raises(ConnectionFault):
            find_header(content, 0, len(content), b"b")


def test_an_edit_keeps_the_bytes_of_all_other_headers_and_properties() -> None:
    kept = b"\x01ab\x01\x01bf\x3f\xc0\x00\x00\x01dL" + bytes(8)
    payload = with_headers(b"\x01cB\x01" + kept + b"\x01eV")
    edited = edit_headers(payload, ["c"], {"e": Long(5)})
    assert edited == with_headers(kept + b"\x01el" + bytes(7) + b"\x05")


def test_an_edit_removes_every_header_of_that_name() -> None:
    assert edit_headers(with_headers(b"\x01cB\x01\x01aV\x01cB\x02"), ["c"], {}) == with_headers(b"\x01aV")


@pytest.mark.parametrize("names", [[], ["content_type"], ["content_encoding", "app_id"], ["expiration"]])
def test_an_edit_gives_a_message_the_headers_it_lacked(names: list[str]) -> None:
    properties = {name: EVERYTHING[name] for name in names}
    added: Table = {"x-death": [{"count": 1}]}
    edited = edit_headers(payload_of(properties, 3), ["BCC"], added)
    assert edited == payload_of(properties | {"headers": added}, 3)


def test_an_edit_that_adds_nothing_creates_no_headers() -> None:
    payload = payload_of({"app_id": "a"})
    assert edit_headers(payload, ["BCC"], {}) == payload


def test_headers_that_become_empty_stay_as_an_empty_table() -> None:
    assert edit_headers(with_headers(b"\x03BCCV"), ["BCC"], {}) == with_headers(b"")


def test_an_edit_can_drop_the_expiration_alone() -> None:
    rest = {name: value for name, value in EVERYTHING.items() if name != "expiration"}
    assert edit_headers(payload_of(EVERYTHING), [], {}, drop_expiration=True) == payload_of(rest)
    assert edit_headers(payload_of(rest), [], {}, drop_expiration=True) == payload_of(rest)


def test_an_edit_works_on_names_that_are_not_utf8() -> None:
    assert edit_headers(with_headers(b"\x01\xffV\x01aV"), ["\udcff"], {}) == with_headers(b"\x01aV")
