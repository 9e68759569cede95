"""Methods against a second, independent codec; and the faults of methods that cannot be decoded."""

import inspect

import pytest
from librt.strings import BytesWriter

from tests.support.amqp_methods import IDS, LAYOUTS, NAMES
from tests.support.amqp_methods import read_method as read_by_the_tests
from tests.support.amqp_methods import write_method as written_by_the_tests
from warren.errors import COMMAND_INVALID, FRAME_ERROR, ConnectionFault
from warren.wire import methods
from warren.wire.methods import NAMES as REGISTERED_NAMES
from warren.wire.methods import (
    READERS,
    BasicAck,
    BasicPublish,
    BasicQos,
    ChannelClose,
    ExchangeUnbindOk,
    Method,
    QueueDeclare,
    decode_method,
    encode_method,
    method_name,
    write_method,
)
from warren.wire.values import ArgumentReader

SAMPLES = {
    "bit": True, "octet": 200, "short": 60000, "long": 4000000000, "longlong": 2**62, "shortstr": "näme",
    "longstr": b"\x00secret\xff", "table": {"x-key": "value", "flag": True},
}  # fmt: skip

RENAMED = {
    ("connection.start", "major"): "version_major",
    ("connection.start", "minor"): "version_minor",
    ("connection.close", "class_id"): "blamed_class_id",
    ("connection.close", "method_id"): "blamed_method_id",
    ("channel.close", "class_id"): "blamed_class_id",
    ("channel.close", "method_id"): "blamed_method_id",
    ("access.request", "write"): "allows_write",
    ("access.request", "read"): "allows_read",
    ("basic.qos", "global"): "global_",
}

RESERVED = {"out_of_band", "channel_id", "capabilities", "insist", "known_hosts", "cluster_id"}


def reserved(name: str, field: str) -> bool:
    return field in RESERVED or (field == "ticket" and name != "access.request-ok")


def decoded(payload: bytes) -> Method:
    return decode_method(payload, 0, len(payload))


def read_from_zeros(key: int) -> Method:
    return READERS[key](ArgumentReader(bytes(64), 0, 64))


def fault_of(payload: bytes) -> ConnectionFault:
    with pytest.raises(ConnectionFault) as fault:
        decoded(payload)
    return fault.value


@pytest.mark.parametrize("name", sorted(IDS))
def test_a_method_is_read_and_written_as_the_specification_lays_it_out(name: str) -> None:
    sample = {field: SAMPLES[kind] for field, kind in LAYOUTS[name] if not reserved(name, field)}
    payload = written_by_the_tests(name, sample)
    method = decoded(payload)
    assert (method.name, (method.class_id, method.method_id)) == (name, IDS[name])
    for field, value in sample.items():
        assert getattr(method, RENAMED.get((name, field), field)) == value
    assert encode_method(0x1234, method) == b"\x01\x12\x34" + len(payload).to_bytes(4, "big") + payload + b"\xce"


@pytest.mark.parametrize("name", sorted(IDS))
def test_each_bit_has_its_own_attribute(name: str) -> None:
    bits = [field for field, kind in LAYOUTS[name] if kind == "bit" and not reserved(name, field)]
    for bit in bits:
        method = decoded(written_by_the_tests(name, {bit: True}))
        values = {field: getattr(method, RENAMED.get((name, field), field)) for field in bits}
        assert values == {field: field == bit for field in bits}
        assert read_by_the_tests(encode_method(1, method)[7:-1])[1][bit] is True


@pytest.mark.parametrize("name", sorted(IDS))
def test_arguments_cut_short_or_too_long_are_a_frame_error(name: str) -> None:
    payload = written_by_the_tests(name, {})
    for wrong in [payload[:end] for end in range(4, len(payload))] + [payload + b"z"]:
        fault = fault_of(wrong)
        assert fault.code == FRAME_ERROR
        assert fault.text == f"cannot decode <<{','.join(str(octet) for octet in wrong[4:])}>>"


def test_the_tables_have_every_method_and_no_other() -> None:
    assert {key: method_name(*ids) for ids in NAMES for key in [ids[0] << 16 | ids[1]]} == REGISTERED_NAMES
    assert READERS.keys() == REGISTERED_NAMES.keys()


def test_every_class_is_read_under_its_own_ids() -> None:
    classes = {one for one in vars(methods).values() if inspect.isclass(one) and issubclass(one, Method)} - {Method}
    assert {type(read_from_zeros(key)) for key in READERS} == classes
    assert all(method.class_id << 16 | method.method_id == key for key in READERS for method in [read_from_zeros(key)])


def test_a_method_without_ids_is_an_unknown_frame() -> None:
    assert fault_of(b"").text == "type 1, all octets = <<>>: unknown_frame"
    assert fault_of(b"\x00\x32\x00").text == "type 1, all octets = <<0,50,0>>: unknown_frame"


@pytest.mark.parametrize("payload", [b"\x00\x63\x00\x0a", b"\x00\x32\x00\x63", b"\xff\xff\xff\xff"])
def test_a_method_that_does_not_exist_is_an_invalid_command(payload: bytes) -> None:
    assert fault_of(payload).code == COMMAND_INVALID


@pytest.mark.parametrize("name", sorted(IDS))
def test_text_that_is_not_utf8_is_refused_except_in_methods_with_content(name: str) -> None:
    strings = [field for field, kind in LAYOUTS[name] if kind == "shortstr"]
    carries_content = name in ("basic.publish", "basic.deliver", "basic.return", "basic.get-ok")
    for field in strings:
        payload = written_by_the_tests(name, {field: b"\xff\xfe"})
        if carries_content:
            assert encode_method(1, decoded(payload))[7:-1] == payload
        else:
            assert fault_of(payload).reply_text() == "FRAME_ERROR - Malformed UTF-8 in shortstr"


def test_missing_arguments_are_noticed_before_malformed_text() -> None:
    assert fault_of(b"\x00\x32\x00\x0a\x00\x00\x02\xff\xfe").text == "cannot decode <<0,0,2,255,254>>"


def test_bits_without_a_meaning_are_ignored() -> None:
    assert decoded(b"\x00\x3c\x00\x0a" + b"\x00\x00\x00\x00\x00\x01\xfe") == BasicQos(prefetch_count=1)


def test_methods_are_equal_when_they_are_the_same_on_the_wire() -> None:
    assert QueueDeclare("q", arguments={}) == QueueDeclare(queue="q")
    assert hash(QueueDeclare("q")) == hash(QueueDeclare("q"))
    assert QueueDeclare("q") != QueueDeclare("p")
    assert ChannelClose(406) != BasicAck(1)
    assert repr(BasicAck(1)) == "<basic.ack b'\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x01\\x00'>"


def test_methods_follow_one_another_in_one_buffer() -> None:
    out = BytesWriter()
    write_method(out, 1, BasicAck(7, multiple=True))
    write_method(out, 65535, ExchangeUnbindOk())
    assert out.getvalue() == encode_method(1, BasicAck(7, True)) + encode_method(65535, ExchangeUnbindOk())


def test_a_method_is_found_anywhere_in_its_buffer() -> None:
    frame = encode_method(3, BasicPublish("exchange", "key", mandatory=True))
    assert decode_method(b"before" + frame + b"after", 13, 6 + len(frame) - 1) == BasicPublish("exchange", "key", True)


def test_an_unknown_method_is_named_by_its_numbers() -> None:
    assert method_name(50, 11) == "queue.declare-ok"
    assert method_name(50, 99) == "50.99"
