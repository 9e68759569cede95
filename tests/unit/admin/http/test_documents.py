"""Counting the values of a JSON text without parsing it, and integers that are texts."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.admin.http.documents import JsonValueCounter, number
from warren.admin.http.responses import HttpFault

TEXTS = st.text(alphabet='\\"[]{},a\n', max_size=8)
DOCUMENTS = st.recursive(
    TEXTS | st.integers(), lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4)
)


def marks(value: Any) -> int:
    """The commas and opening brackets of the value's JSON, outside of texts."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(0, len(inner) - 1) + sum(marks(one) for one in inner)


@given(DOCUMENTS, st.integers(1, 7))
def test_values_are_counted_wherever_the_blocks_are_cut(document: Any, block_bytes: int) -> None:
    text = json.dumps(document).encode()
    counter = JsonValueCounter()
    for first in range(0, len(text), block_bytes):
        counter.add(text[first : first + block_bytes])
    assert counter.count == marks(document)


def test_an_integer_may_be_a_text_of_a_bounded_length() -> None:
    assert number({"count": "-12"}, "count", 0) == -12
    for text in ("", "-", "1.5", "9" * 20, "9" * 5000, "\N{ARABIC-INDIC DIGIT THREE}", "3\n"):
        with pytest.raises(HttpFault, match="not_int"):
            number({"count": text}, "count", 0)
