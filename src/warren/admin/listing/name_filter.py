"""Names that contain a text, or match a regular expression, upper case or lower.

Python's regular expressions can take for ever, and nothing else runs meanwhile. So an expression is refused that
could: one that repeats what itself repeats or has alternatives, and one with many open repetitions in a row. What is
left takes time that grows with a small power of a name's length, and names have 255 bytes at most.

Not here: the expressions of policies and permissions, whose authors are trusted (`model.patterns`).
"""

import re
from collections.abc import Callable

from warren.model.patterns import NamePattern

REPEATS_MAX = 2
_SMALL_COUNT = 10
_COUNTED = re.compile(r"\{(\d*)(,?)(\d*)\}")


def containing(text: str) -> Callable[[str], bool]:
    """Whether a name contains the text."""
    wanted = text.lower()
    return lambda name: wanted in name.lower()


def matching(expression: str) -> Callable[[str], bool] | None:
    """Whether a name matches the expression; None if it is none, or one that could take for ever."""
    if not is_harmless(expression):
        return None
    pattern = NamePattern(f"(?i){expression}")
    return None if pattern.fault else pattern.matches


def is_harmless(expression: str) -> bool:
    """Whether no name makes the expression take long."""
    open_repeats = 0
    # of each group we are in, whether it repeats or chooses
    groups = [False]
    closed = False
    at = 0
    while at < len(expression):
        character = expression[at]
        counted = _COUNTED.match(expression, at)
        many = character in "*+" or (counted is not None and _is_many(counted))
        if many and closed:
            return False
        if many:
            open_repeats += 1
        if many or character in "?|":
            groups[-1] = True
        if character == "(":
            groups.append(False)
            at = _after_group_start(expression, at)
            closed = False
            continue
        if character == ")" and len(groups) > 1:
            closed = groups.pop()
            groups[-1] = groups[-1] or closed
        elif not (counted or character in "*+?"):
            closed = False
        at = _next(expression, at, counted)
    anchored = expression.startswith("^")
    return open_repeats <= (REPEATS_MAX + 1 if anchored else REPEATS_MAX)


def _is_many(counted: re.Match[str]) -> bool:
    least, comma, most = counted.groups()
    if comma and not most:
        return True
    return int(most or least or 0) > _SMALL_COUNT


def _next(expression: str, at: int, counted: re.Match[str] | None) -> int:
    """Where the next thing begins: an escape, a class and a count are one thing each."""
    if counted is not None:
        return counted.end()
    if expression[at] == "\\":
        return at + 2
    if expression[at] != "[":
        return at + 1
    at += 2 if expression.startswith("[^", at) else 1
    # a bracket that comes first is a member
    end = at + 1
    while end < len(expression) and expression[end] != "]":
        end += 2 if expression[end] == "\\" else 1
    return end + 1


def _after_group_start(expression: str, at: int) -> int:
    """Past the parenthesis, and past the question mark that says what kind of group it is."""
    return at + 2 if expression.startswith("(?", at) else at + 1
