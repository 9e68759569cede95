"""Tags and patterns, the latter against a naive oracle."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.client.listening.messages import HandMade, with_headers
from warren.client.listening import routed, tagged

WORDS = st.lists(st.sampled_from(["a", "b", "cc", ""]), min_size=1, max_size=6)
PATTERNS = st.lists(st.sampled_from(["a", "b", "cc", "*", "#", ""]), min_size=1, max_size=6)


@pytest.mark.parametrize(
    ("tag", "wanted"),
    [
        ("food", True),
        ("tea", False),
        (["tea", "drink"], True),
        ([], False),
        (None, False),
        (7, False),
        ([["food"]], False),
    ],
)
def test_a_message_is_wanted_for_one_of_its_tags(tag: object, wanted: bool) -> None:
    assert tagged("food", "drink")(with_headers(x_tag=tag)) is wanted


def test_the_header_of_the_tag_can_be_chosen() -> None:
    assert tagged("eu", header="region")(with_headers(region="eu"))
    assert not tagged("eu", header="region")(with_headers(x_tag="eu"))


def test_a_message_is_wanted_if_one_of_the_patterns_fits() -> None:
    accepts = routed("orders.*.eu", "orders.test.#")
    keys = ["orders.new.eu", "orders.test", "orders.test.a.b", "orders.new.us", "orders.eu", "x.orders.new.eu"]
    assert [accepts(HandMade(routing_key=key)) for key in keys] == [True, True, True, False, False, False]


@given(PATTERNS, WORDS)
def test_a_pattern_matches_like_the_equivalent_regular_expression(pattern: list[str], words: list[str]) -> None:
    parts = {"*": r"\.[^.]*", "#": r"(\.[^.]*)*"}
    oracle = re.compile("".join(parts.get(word, re.escape("." + word)) for word in pattern))
    fits = oracle.fullmatch("." + ".".join(words)) is not None
    assert routed(".".join(pattern))(HandMade(routing_key=".".join(words))) is fits
