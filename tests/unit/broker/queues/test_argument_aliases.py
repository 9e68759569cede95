"""Aliases of queue arguments are replaced by the `x-` arguments."""

import pytest

from warren.broker.queues.arguments import without_aliases
from warren.errors import PRECONDITION_FAILED, ChannelFault
from warren.wire.field_tables import Table


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({}, {}),
        ({"x-max-length": 5, "x-copy-from": "a"}, {"x-max-length": 5, "x-copy-from": "a"}),
        ({"copy_from": "a"}, {"x-copy-from": "a"}),
        ({"copy_from": "a", "routing_key": "eu.#"}, {"x-copy-from": "a", "x-copy-routing-key": "eu.#"}),
        ({"copy_from": ["a", {"src_name": "b"}]}, {"x-copy-from": ["a", {"src_name": "b"}]}),
        ({"copy_from": 5}, {"x-copy-from": 5}),
        ({"mirrored": True}, {"x-ha-mode": "all"}),
        ({"mirrored": False}, {}),
        ({"mirrored": "exactly", "x-ha-params": 2}, {"x-ha-mode": "exactly", "x-ha-params": 2}),
        ({"mirrored": True, "x-ha-mode": "all", "copy_from": "a", "x-copy-from": "a"}, None),
    ],
)
def test_an_alias_is_replaced(given: Table, meant: Table | None) -> None:
    before = dict(given)
    expected = {"x-ha-mode": "all", "x-copy-from": "a"} if meant is None else meant
    assert without_aliases("q", "/", given) == expected
    assert given == before


@pytest.mark.parametrize(
    ("given", "name", "reason"),
    [
        ({"copy_from": "a", "x-copy-from": "b"}, "copy_from", '"x-copy-from says otherwise"'),
        ({"routing_key": "a", "x-copy-routing-key": "b"}, "routing_key", '"x-copy-routing-key says otherwise"'),
        ({"mirrored": True, "x-ha-mode": "exactly"}, "mirrored", '"x-ha-mode says otherwise"'),
        ({"mirrored": False, "x-ha-mode": "all"}, "mirrored", '"x-ha-mode says otherwise"'),
        ({"mirrored": 2}, "mirrored", "{unacceptable_type,signedint}"),
        ({"mirrored": None}, "mirrored", "{unacceptable_type,void}"),
    ],
)
def test_an_alias_that_differs_from_its_argument_is_refused(given: Table, name: str, reason: str) -> None:
    with pytest.raises(ChannelFault) as fault:
        without_aliases("q", "/", given)
    assert (fault.value.code, fault.value.text) == (
        PRECONDITION_FAILED,
        f"invalid arg '{name}' for queue 'q' in vhost '/': {reason}",
    )
