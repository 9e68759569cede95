"""Methods: what is written can be read, and no bytes do harm."""

from hypothesis import given
from hypothesis import strategies as st

from tests.property.peer_faults import fault_of
from tests.property.wire_strategies import method_payloads, mutated
from tests.support.amqp_methods import IDS
from warren.errors import COMMAND_INVALID, FRAME_ERROR, SYNTAX_ERROR
from warren.wire.methods import decode_method, encode_method


def framed(channel: int, payload: bytes) -> bytes:
    return b"\x01" + channel.to_bytes(2, "big") + len(payload).to_bytes(4, "big") + payload + b"\xce"


@given(method_payloads(), st.integers(0, 65535))
def test_a_method_comes_back_as_it_was_sent(payload: bytes, channel: int) -> None:
    method = decode_method(payload, 0, len(payload))
    assert encode_method(channel, method) == framed(channel, payload)


@given(st.sampled_from(sorted(IDS.values())), st.binary(max_size=100))
def test_any_arguments_decode_or_are_a_fault_of_the_peer(ids: tuple[int, int], arguments: bytes) -> None:
    decode_or_fault(ids[0].to_bytes(2, "big") + ids[1].to_bytes(2, "big") + arguments)


@given(mutated(method_payloads()))
def test_a_damaged_method_decodes_or_is_a_fault_of_the_peer(payload: bytes) -> None:
    decode_or_fault(payload)


@given(st.binary(max_size=50))
def test_any_payload_decodes_or_is_a_fault_of_the_peer(payload: bytes) -> None:
    decode_or_fault(payload)


def decode_or_fault(payload: bytes) -> None:
    fault = fault_of(lambda: decode_method(payload, 0, len(payload)))
    if fault is not None:
        assert fault.code in (FRAME_ERROR, SYNTAX_ERROR, COMMAND_INVALID)
        assert len(fault.reply_text().encode()) <= 255
        return
    # what could be read can be written, and means the same
    method = decode_method(payload, 0, len(payload))
    again = encode_method(1, method)[7:-1]
    assert decode_method(again, 0, len(again)) == method
