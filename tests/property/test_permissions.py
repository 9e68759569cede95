"""Permissions against a naive judge: what is remembered never differs from what would be found."""

import re

from hypothesis import given
from hypothesis import strategies as st

from warren.access.permissions import JUDGEMENTS_MAX, Permission, Sieve

LETTERS = "ab.-"
expressions = st.lists(st.sampled_from(["a", "b", "\\.", ".", "a*", "(ab)+", "^", "$", "[ab]", "|"]), max_size=6).map(
    "".join
)
names = st.text(LETTERS, max_size=8)


@given(expressions, st.lists(names, max_size=60))
def test_a_sieve_lets_through_what_its_expression_is_found_in(expression: str, asked: list[str]) -> None:
    sieve = Sieve(expression)
    naive = re.compile(expression or "^$")
    for name in [*asked, *asked]:
        assert sieve.lets_through(name) is (naive.search(name) is not None)


@given(st.lists(names, min_size=1, max_size=20))
def test_the_three_expressions_of_a_permission_do_not_mix(asked: list[str]) -> None:
    permission = Permission("u", "/", "^a", "^b", "")
    for name in asked:
        assert permission.configures.lets_through(name) is name.startswith("a")
        assert permission.writes.lets_through(name) is name.startswith("b")
        assert permission.reads.lets_through(name) is (name == "")


def test_what_is_remembered_is_bounded_and_stays_right() -> None:
    sieve = Sieve("7$")
    for number in range(2 * JUDGEMENTS_MAX + 10):
        assert sieve.lets_through(str(number)) is (number % 10 == 7)
    assert len(sieve._judged) <= JUDGEMENTS_MAX
