"""Filters by name: what they find, and expressions that would take exponential time."""

import time

import pytest

from warren.admin.listing.pagination import containing, is_harmless, matching

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
    assert matches is not None
    assert [name for name in NAMES if matches(name)] == found


@pytest.mark.parametrize("expression", ["[", "(", "*", "a{2,1}", "(?P<n"])
def test_a_malformed_expression_is_refused(expression: str) -> None:
    assert matching(expression) is None


@pytest.mark.parametrize(
    "expression",
    [
        "(a+)+$", "(a*)*b", "(a|a)*b", "(a|aa)+$", "(?:a+){12}b", "((a?)b?)*c", "(a?){60}b", "(.*)*x",
        ".*.*.*x", "^.*.*.*.*x", "a+a+a+a+b", "(a{1,50}){1,50}b", "([ab]*c?)+d",
    ],
)  # fmt: skip
def test_an_expression_that_could_take_for_ever_is_refused(expression: str) -> None:
    assert matching(expression) is None


@pytest.mark.parametrize(
    "expression",
    [
        "^orders\\.(eu|us)\\..*$",
        "a{3}",
        "[*+?]+",
        "\\(a+\\)b+",
        "(ab){2,5}",
        "^a.*b.*c.*$",
        "(a)(b)(c)",
        "x|y|z",
        "[]+*]a",
    ],
)
def test_an_ordinary_expression_is_harmless(expression: str) -> None:
    assert is_harmless(expression)


@pytest.mark.parametrize("expression", ["a*a*b", "^a*a*a*b", "[^b]+[^b]+b", "(?:aaaaaaaaaa)?a*a*b"])
def test_the_worst_that_is_let_through_takes_no_longer_than_a_moment(expression: str) -> None:
    matches = matching(expression)
    assert matches is not None
    began = time.process_time()
    assert not matches("a" * 255)
    assert time.process_time() - began < 2.0
