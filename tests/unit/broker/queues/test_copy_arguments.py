"""Validation of `x-copy-from` and `x-copy-routing-key`."""

import pytest

from warren.broker.queues.arguments import validate_arguments
from warren.errors import PRECONDITION_FAILED, ChannelFault
from warren.wire.field_tables import Table

LONGEST = "ä" * 127 + "b"


@pytest.mark.parametrize(
    "arguments",
    [
        {"x-copy-from": "orders"},
        {"x-copy-from": "orders", "x-copy-routing-key": "eu.#"},
        {"x-copy-from": "orders", "x-copy-routing-key": ""},
        {"x-copy-from": LONGEST, "x-copy-routing-key": LONGEST},
        {"x-copy-from": ["orders", "returns", "orders"]},
        {"x-copy-from": [{"src_name": "orders"}, {"src_name": "returns", "routing_key": "eu.#"}]},
        {"x-copy-from": {"src_name": "orders", "routing_key": "eu.#"}},
        {"x-copy-from": "orders", "x-queue-type": "quorum"},
    ],
)
def test_queues_are_named_alone_or_in_a_list(arguments: Table) -> None:
    validate_arguments("q", "/", arguments)


@pytest.mark.parametrize(
    ("arguments", "name", "reason"),
    [
        ({"x-copy-from": 5}, "x-copy-from", "{unacceptable_type,signedint}"),
        ({"x-copy-from": None}, "x-copy-from", "{unacceptable_type,void}"),
        ({"x-copy-from": True}, "x-copy-from", "{unacceptable_type,bool}"),
        ({"x-copy-from": b"orders"}, "x-copy-from", "{unacceptable_type,binary}"),
        ({"x-copy-from": ""}, "x-copy-from", '"name of a queue to copy must be non-empty"'),
        ({"x-copy-from": LONGEST + "b"}, "x-copy-from", "longer_than_255_octets"),
        ({"x-copy-from": []}, "x-copy-from", '"list of queues to copy must be non-empty"'),
        ({"x-copy-from": ["orders", 5]}, "x-copy-from", "{unacceptable_type,signedint}"),
        ({"x-copy-from": ["orders", ""]}, "x-copy-from", '"name of a queue to copy must be non-empty"'),
        ({"x-copy-from": [["orders"]]}, "x-copy-from", "{unacceptable_type,array}"),
        ({"x-copy-from": [{}]}, "x-copy-from", '"src_name of a queue to copy is missing"'),
        ({"x-copy-from": [{"src_name": 5}]}, "x-copy-from", "{unacceptable_type,signedint}"),
        ({"x-copy-from": [{"src_name": "a", "key": "b"}]}, "x-copy-from", "\"unknown key 'key' of a queue to copy\""),
        ({"x-copy-from": [{"src_name": "a", "routing_key": 1}]}, "x-copy-from", "{unacceptable_type,signedint}"),
        ({"x-copy-from": [{"src_name": "a", "routing_key": LONGEST * 2}]}, "x-copy-from", "longer_than_255_octets"),
        ({"x-copy-from": "q"}, "x-copy-from", '"a queue cannot copy itself"'),
        ({"x-copy-from": ["a", {"src_name": "q"}]}, "x-copy-from", '"a queue cannot copy itself"'),
        ({"x-copy-routing-key": "eu.#"}, "x-copy-routing-key", "routing_key_but_no_copy_from_defined"),
        ({"x-copy-from": "a", "x-copy-routing-key": 5}, "x-copy-routing-key", "{unacceptable_type,signedint}"),
        ({"x-copy-from": "a", "x-copy-routing-key": LONGEST + "b"}, "x-copy-routing-key", "longer_than_255_octets"),
    ],
)
def test_a_source_without_a_name_or_with_an_invalid_pattern_is_refused(
    arguments: Table, name: str, reason: str
) -> None:
    with pytest.raises(ChannelFault) as fault:
        validate_arguments("q", "/", arguments)
    assert (fault.value.code, fault.value.text) == (
        PRECONDITION_FAILED,
        f"invalid arg '{name}' for queue 'q' in vhost '/': {reason}",
    )
