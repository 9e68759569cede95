"""Any values as JSON."""

import json
import math

import pytest

from warren.admin.http.responses import to_json


@pytest.mark.parametrize(
    "value",
    [
        {"name": "a/b%c \N{RABBIT}", "n": [1, 2.5, None, True]},
        {"not utf-8": "a\udcffb"},
        {"\udcff": 1},
        {"large": 2**70},
    ],
)
def test_a_written_value_is_read_back_unchanged(value: object) -> None:
    assert json.loads(to_json(value)) == value


def test_a_number_that_is_none_is_null() -> None:
    assert json.loads(to_json([math.nan, math.inf])) == [None, None]
    assert json.loads(to_json([math.nan, "\udcff"])) == [None, "\udcff"]
