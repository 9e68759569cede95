"""Filters by name: their matches, refused expressions, and expressions that would take exponential time."""

import time

import pytest

from warren.admin.http.responses import HttpFault
from warren.admin.listing.pagination import containing, matching

NAMES = ["q.load", "q.lazy", "Quorum", "amq.gen-ZlI", "a" * 255]


@pytest.mark.parametrize(("text", "found"), [("Q.L", ["q.load", "q.lazy"]), ("UO", ["Quorum"]), ("[", [])])
def test_a_text_is_found_anywhere_and_in_any_case(text: str, found: list[str]) -> None:
    assert [name for name in NAMES if containing(text)(name)] == found


@pytest.mark.parametrize(
    ("expression", "found"),
    [("^Q\\.", ["q.load", "q.lazy"]), ("(load|rum)$", ["q.load", "Quorum"]), ("q.*z.*y", ["q.lazy"])],
)
def test_an_expression_is_searched_in_any_case(expression: str, found: list[str]) -> None:
    matches = matching(expression)
    assert [name for name in NAMES if matches(name)] == found


@pytest.mark.parametrize("expression", ["[", "(", "*", "a{2,1}", "(?P<n"])
def test_a_malformed_expression_is_refused_in_rabbitmqs_words(expression: str) -> None:
    with pytest.raises(HttpFault) as refused:
        matching(expression)
    assert refused.value.reason == "Pagination parameters are invalid"


def test_an_expression_beyond_linear_time_is_refused_with_a_sentence() -> None:
    with pytest.raises(HttpFault) as refused:
        matching("(a)\\1")
    assert refused.value.reason == "The name filter cannot be used: back references are not supported"


@pytest.mark.parametrize("expression", ["^((.|[^b]){0,10}){0,10}\x00", "(a+)+$", "(a*)*b", "(a|aa)+b", ".*.*.*.*.*x"])
def test_an_expression_that_backtracking_would_never_finish_takes_a_moment(expression: str) -> None:
    matches = matching(expression)
    began = time.process_time()
    assert not matches("a" * 254 + "!")
    assert time.process_time() - began < 0.5
