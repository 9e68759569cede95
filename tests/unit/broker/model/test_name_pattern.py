"""Patterns over names, in PCRE's dialect and with PCRE's error texts, recorded from RabbitMQ 3.10.8."""

import pytest

from warren.broker.model.name_pattern import NamePattern


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("^amq\\.", "amq.gen-1", True),
        ("^amq\\.", "x.amq.", False),
        ("b", "abc", True),
        ("", "anything", True),
        ("^.$", "é", False),
        ("\\w", "é", False),
        ("^[[:alpha:]]+[[:digit:]]*$", "abc12", True),
        ("^[[:alpha:]]+$", "abc1", False),
        ("^[^[:space:]]+$", "a b", False),
        ("^[]x]+$", "x]", True),
        ("^[[a&&b||c~~d]+$", "[&|~", True),
        ("^(?<word>a+)$", "aaa", True),
        ("(?<=a)b", "ab", True),
        ("^\\Qa+b\\E$", "a+b", True),
        ("\\Q[", "a[b", True),
        ("a\\z", "ba", True),
        ("a\\Z", "ab", False),
        ("(?i)ORDERS", "my-orders", True),
        ("a{", "xa{", True),
        ("^a++b", "aaab", True),
        ("\\.", "a.b", True),
        ("a/b%", "a/b%c", True),
    ],
)
def test_a_pattern_is_searched_in_a_names_octets(pattern: str, name: str, matches: bool) -> None:
    compiled = NamePattern(pattern)
    assert compiled.fault == ""
    assert compiled.matches(name) is matches


@pytest.mark.parametrize(
    ("pattern", "fault", "at"),
    [
        ("[", "missing terminating ] for character class", 1),
        ("[a-", "missing terminating ] for character class", 3),
        ("[[:alpha:]", "missing terminating ] for character class", 10),
        ("[]", "missing terminating ] for character class", 2),
        ("(", "missing )", 1),
        ("a(b(c)", "missing )", 6),
        ("(?<=", "missing )", 4),
        ("a)", "unmatched parentheses", 1),
        ("*", "nothing to repeat", 0),
        ("a|*", "nothing to repeat", 2),
        ("x**", "nothing to repeat", 2),
        ("\\", "\\ at end of pattern", 1),
        ("(?P<x", "syntax error in subpattern name (missing terminator)", 5),
        ("(?<n", "syntax error in subpattern name (missing terminator)", 4),
        ("[z-a]", "range out of order in character class", 3),
        ("\\1", "reference to non-existent subpattern", 2),
        ("(?P=x)", "reference to non-existent subpattern", 5),
        ("(?z)", "unrecognized character after (? or (?-", 2),
        ("(?#x", "missing ) after comment", 4),
    ],
)
def test_an_invalid_pattern_has_pcres_error_text(pattern: str, fault: str, at: int) -> None:
    compiled = NamePattern(pattern)
    assert (compiled.fault, compiled.fault_at) == (fault, at)
    assert not compiled.matches(pattern)


@pytest.mark.parametrize("pattern", ["a{99999999999999999999}", "(" * 20_000, "\\p{L}", "a(?i)b"])
def test_a_pattern_that_python_cannot_compile_is_a_fault(pattern: str) -> None:
    assert NamePattern(pattern).fault
