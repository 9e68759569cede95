"""The messages that pass a filter."""

from typing import Any

import pytest

from tests.unit.broker.streams.stage import PretendReader, message_of
from warren.broker.streams.reader import StreamFilter
from warren.errors import ChannelFault

RED = {"x-stream-filter-value": "red"}
BLUE = {"a": 1, "x-stream-filter-value": "blue", "z": [1, 2]}
NUMBER = {"x-stream-filter-value": 5}
LOOKS_ALIKE = {"name": "x-stream-filter-value", "inner": {"x-stream-filter-value": "red"}}


def covered(headers: Any, **arguments: Any) -> bool:
    properties = message_of(b"body", headers).header_payload()[12:]
    return StreamFilter(PretendReader(**arguments), "here").covers(properties)


@pytest.mark.parametrize("headers", [None, {}, RED, BLUE, NUMBER, LOOKS_ALIKE])
def test_without_a_filter_all_messages_pass(headers: Any) -> None:
    assert covered(headers)
    assert covered(headers, x_stream_filter=[])


@pytest.mark.parametrize(
    ("headers", "values", "wanted"),
    [
        (RED, "red", True),
        (RED, ["blue", "red"], True),
        (RED, ["blue"], False),
        (BLUE, "blue", True),
        (RED, "re", False),
        (RED, "", False),
    ],
)
def test_a_value_must_be_one_of_the_filter_values(headers: Any, values: Any, wanted: bool) -> None:
    assert covered(headers, x_stream_filter=values) is wanted
    assert covered(headers, x_stream_filter=values, x_stream_match_unfiltered=True) is wanted


@pytest.mark.parametrize("headers", [None, {}, {"a": "red"}, NUMBER, LOOKS_ALIKE])
def test_messages_without_a_value_pass_if_the_reader_asks_for_them(headers: Any) -> None:
    assert not covered(headers, x_stream_filter="red")
    assert covered(headers, x_stream_filter="red", x_stream_match_unfiltered=True)


@pytest.mark.parametrize("values", [5, ["red", 5], {"red": 1}, True])
def test_a_filter_is_made_of_strings(values: object) -> None:
    with pytest.raises(ChannelFault, match="invalid arg 'x-stream-filter' for here: not a string"):
        StreamFilter(PretendReader(x_stream_filter=values), "here")
