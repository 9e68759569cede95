"""Name patterns against Python's backtracking expressions, which mean the same in this common part of the dialect."""

import re

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from warren.broker.model.name_pattern import NamePattern

NAMES = st.text("aAb.-\n_\xe9", max_size=7)
# none of these matches a newline
PLAIN = ["a", "B", "\\.", ".", "[ab]", "[^a\\n]", "\\w", "-", "[a-]", "é"]
NEWLINES = ["\\n", "\\s", "[^a]", "\\W", "\\D", "(?s:.)", "[^\\w.]"]
# without the escape B, which Python does not find in an empty name
ANCHORS = ["^", "\\b", "\\A"]
QUANTIFIERS = ["*", "+", "?", "{2}", "{0,2}", "{1,}", "*?", "+?", "??"]


def patterns(atoms: list[str], anchors: list[str]) -> SearchStrategy[str]:
    """Expressions without look-arounds."""
    repeated = st.builds("{}{}".format, st.sampled_from(atoms), st.sampled_from([*QUANTIFIERS, "", ""]))
    single = repeated | st.sampled_from(anchors)

    def grown(inner: SearchStrategy[str]) -> SearchStrategy[str]:
        group = st.builds("({}{}){}".format, st.sampled_from(["", "?:", "?i:"]), inner, st.sampled_from(QUANTIFIERS))
        return st.lists(inner | group, min_size=1, max_size=3).map("".join) | st.builds("{}|{}".format, inner, inner)

    return st.recursive(single, grown, max_leaves=5)


def naive(pattern: str, name: str) -> bool:
    return re.search(pattern.encode(), name.encode()) is not None


@given(patterns(PLAIN, [*ANCHORS, "$"]) | patterns(PLAIN + NEWLINES, ANCHORS), st.lists(NAMES, max_size=8))
def test_a_pattern_finds_what_backtracking_finds(pattern: str, names: list[str]) -> None:
    compiled = NamePattern(pattern)
    assert compiled.fault == ""
    for name in names:
        assert compiled.matches(name) is naive(pattern, name)


@given(
    st.sampled_from(["", "(?i)", "(?s)"]),
    st.sampled_from(["^", "\\A"]),
    st.lists(st.tuples(st.sampled_from("!="), patterns(PLAIN, [*ANCHORS, "$"])), min_size=1, max_size=3),
    patterns(PLAIN, [*ANCHORS, "$"]).map("(?:{})".format) | st.sampled_from(["", ".*", ".*$", "a"]),
    st.lists(NAMES, max_size=8),
)
def test_look_aheads_at_the_start_mean_what_they_mean_to_backtracking(
    options: str, start: str, look_aheads: list[tuple[str, str]], rest: str, names: list[str]
) -> None:
    pattern = options + start + "".join([f"(?{kind}{inner})" for kind, inner in look_aheads]) + rest
    compiled = NamePattern(pattern)
    assert compiled.fault == ""
    for name in names:
        assert compiled.matches(name) is naive(pattern, name)


@given(st.text("ab*+?{}()[]|\\^$.-:=!<>#P1,QEisxd\xb2", max_size=14))
def test_any_text_is_a_pattern_or_has_a_fault_within_it(text: str) -> None:
    compiled = NamePattern(text)
    assert compiled.fault or not compiled.fault_at
    assert 0 <= compiled.fault_at <= len(text.encode())
    assert not (compiled.fault and compiled.matches("a"))
