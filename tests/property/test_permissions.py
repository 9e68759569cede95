"""Permissions against a naive check: cached answers never differ from computed ones."""

import re

from hypothesis import given
from hypothesis import strategies as st

from warren.broker.access.users import CACHED_NAMES_MAX, CachedPattern, Permission

LETTERS = "ab.-"
expressions = st.lists(st.sampled_from(["a", "b", "\\.", ".", "a*", "(ab)+", "^", "$", "[ab]", "|"]), max_size=6).map(
    "".join
)
names = st.text(LETTERS, max_size=8)


@given(expressions, st.lists(names, max_size=60))
def test_a_sieve_lets_through_what_its_expression_is_found_in(expression: str, asked: list[str]) -> None:
    sieve = CachedPattern(expression)
    naive = re.compile(expression or "^$")
    for name in [*asked, *asked]:
        assert sieve.matches(name) is (naive.search(name) is not None)


@given(st.lists(names, min_size=1, max_size=20))
def test_the_three_expressions_of_a_permission_do_not_mix(asked: list[str]) -> None:
    permission = Permission("u", "/", "^a", "^b", "")
    for name in asked:
        assert permission.configures.matches(name) is name.startswith("a")
        assert permission.writes.matches(name) is name.startswith("b")
        assert permission.reads.matches(name) is (name == "")


def test_the_cache_of_permissions_is_bounded_and_stays_right() -> None:
    sieve = CachedPattern("7$")
    for number in range(2 * CACHED_NAMES_MAX + 10):
        assert sieve.matches(str(number)) is (number % 10 == 7)
    assert len(sieve._judged) <= CACHED_NAMES_MAX
