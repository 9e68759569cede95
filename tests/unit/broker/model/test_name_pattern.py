"""Patterns over names, in PCRE's dialect and with PCRE's error texts, recorded from RabbitMQ 3.10.8."""

import time

import pytest

from warren.broker.model.name_pattern import NO_LOOK_AHEADS, NamePattern


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
        ("^\\Qa+b\\E$", "a+b", True),
        ("\\Q[", "a[b", True),
        ("a\\z", "ba", True),
        ("a\\Z", "ab", False),
        ("(?i)ORDERS", "my-orders", True),
        ("a{", "xa{", True),
        ("a(?i)b", "aB", True),
        ("(?:a(?i)b|c)d", "Cd", True),
        ("(?:a(?i)b|c)d", "CD", False),
        ("^a.b$", "a\nb", False),
        ("(?s)^a.b$", "a\nb", True),
        ("^a$", "a\n", True),
        ("^a\\z", "a\n", False),
        ("[[:^digit:]]", "12", False),
        ("[^\\W_]", "_", False),
        ("(?i)[^a]", "A", False),
        ("[a\\-z]", "m", False),
        ("[\\w-]", "-", True),
        ("^\\x41\\x{42}\\103\\cA$", "ABC\x01", True),
        ("a{,2}", "a{,2}", True),
        ("\\B", "", True),
        ("\\b", "", False),
        ("(?#any)a(?P<n>b)(?'m'c)", "abc", True),
        ("^é+$", "éé", False),
        ("^(?:é)+$", "éé", True),
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


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("^(?!amq\\.).*", ["orders", "my.amq.", ""], ["amq.gen-1", "amq."]),
        ("^(?!amq\\.)", ["orders", "amq"], ["amq.topic"]),
        ("^(?!amq\\.|celery).+$", ["orders"], ["amq.x", "celeryev", ""]),
        ("^(?!amq\\.)(?!tmp)(?=.*eu)o", ["orders.eu"], ["orders", "tmp.eu", "amq.eu", "eu"]),
        ("\\A(?!.*-retry$)", ["orders", "orders-retry-1"], ["orders-retry", "orders-retry\n"]),
        ("(?i)^(?!AMQ)", ["orders"], ["amq", "Amq"]),
        ("^(?!(a|b){2}c)(x|y)", ["x", "y"], ["abc", "z"]),
    ],
)
def test_look_aheads_at_the_start_decide_on_the_start_of_a_name(
    pattern: str, matching: list[str], others: list[str]
) -> None:
    compiled = NamePattern(pattern)
    assert compiled.fault == ""
    assert [name for name in matching + others if compiled.matches(name)] == matching


@pytest.mark.parametrize(
    ("pattern", "fault", "at"),
    [
        ("(a)\\1", "back references are not supported", 3),
        ("(?P<x>a)(?P=x)", "back references are not supported", 8),
        ("a(?<!b)", "look-behind assertions are not supported", 1),
        ("(?<=a)b", "look-behind assertions are not supported", 0),
        ("a(?=b)", NO_LOOK_AHEADS, 1),
        ("(?!a)b", NO_LOOK_AHEADS, 0),
        ("(^(?!a)b)", NO_LOOK_AHEADS, 2),
        ("^(?!a(?!b))", NO_LOOK_AHEADS, 5),
        ("^(?!a)b|c", NO_LOOK_AHEADS, 7),
        ("^(?!a)*b", NO_LOOK_AHEADS, 6),
        ("c|^(?!a)b", NO_LOOK_AHEADS, 3),
        ("^a++b", "possessive quantifiers and atomic groups are not supported", 3),
        ("(?>a)", "possessive quantifiers and atomic groups are not supported", 0),
        ("(a)(?(1)b|c)", "conditions, recursion, branch resets and callouts are not supported", 3),
        ("(?R)", "conditions, recursion, branch resets and callouts are not supported", 0),
        ("(*UTF8)a", "verbs like (*UTF8) are not supported", 0),
        ("(?m)^a", "of the options, only (?i) and (?s) are supported", 0),
        ("\\p{L}", "the escape \\p is not supported", 0),
        ("a{1001}", "quantifiers above 1000 are not supported", 7),
        ("(a{1000}){1000}", "patterns of more than 1000 steps, repetitions included, are not supported", 0),
        ("((a?b?){30}){30}", "patterns of more than 1000 steps, repetitions included, are not supported", 16),
        ("a" * 4097, "patterns longer than 4096 octets are not supported", 4096),
        ("(?:" * 1300 + "a" + ")" * 1, "missing )", 3902),
    ],
)
def test_a_pattern_beyond_linear_time_is_a_fault_that_says_so(pattern: str, fault: str, at: int) -> None:
    compiled = NamePattern(pattern)
    assert (compiled.fault, compiled.fault_at) == (fault, at)
    assert not compiled.matches("a")


@pytest.mark.parametrize(
    "pattern",
    [
        "^pol(a+)+$", "^((.|[^b]){0,10}){0,10}\x00", "(a*)*b", "(a|aa)+$", "(x+x+)+y", ".*.*.*.*.*.*x",
        "(a|b)*a(a|b){800}c", "(a?){300}a{300}", "((a?b?){15}){15}c", "^(?!(a+)+!$)(?!(a*)*b).*c",
    ],
)  # fmt: skip
def test_the_worst_pattern_takes_milliseconds_for_a_name(pattern: str) -> None:
    compiled = NamePattern(pattern)
    assert compiled.fault == ""
    name = "pol" + "a" * 251 + "!"
    began = time.process_time()
    for _ in range(10):
        compiled.matches(name)
    assert time.process_time() - began < 0.5


@pytest.mark.parametrize("pattern", ["a{99999999999999999999}", "(" * 20_000, "[[:foo:]]", "[:alpha:]", "²", "\\²"])
def test_any_text_is_a_pattern_or_a_fault(pattern: str) -> None:
    compiled = NamePattern(pattern)
    assert compiled.fault or compiled.matches(pattern.strip("\\"))
