"""`page`, `page_size`, `name` and `use_regex`: which part of a list is wanted, and the envelope it comes in.

Not here: the rows (`listing.rows`).

Names that contain a text, or match a regular expression, upper case or lower.

Python's regular expressions can take for ever, and nothing else runs meanwhile. So an expression is refused that
could: one that repeats what itself repeats or has alternatives, and one with many open repetitions in a row. What is
left takes time that grows with a small power of a name's length, and names have 255 bytes at most.

Not here: the expressions of policies and permissions, whose authors are trusted (`broker.model.name_pattern`).
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from warren.admin.http.responses import HttpFault, bad_request
from warren.broker.model.name_pattern import NamePattern

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


PAGE_SIZE = 100
PAGE_SIZE_MAX = 500


@dataclass(frozen=True)
class PageQuery:
    """One page of a list, of those whose names pass."""

    number: int
    size: int
    passes: Callable[[str], bool] | None = None

    def cut(self, items: list[Any]) -> list[Any]:
        """The items of this page; a fault if the list ends before it begins."""
        start = (self.number - 1) * self.size
        if start > len(items):
            reason = f"Page out of range, page: {self.number} page size: {self.size}, len: {len(items)}"
            raise bad_request(reason, "page_out_of_range")
        return items[start : start + self.size]

    def envelope(self, total_count: int, filtered_count: int, rows: list[Any]) -> dict[str, Any]:
        return {
            "filtered_count": filtered_count,
            "item_count": len(rows),
            "items": rows,
            "page": self.number,
            "page_count": -(-filtered_count // self.size),
            "page_size": self.size,
            "total_count": total_count,
        }


def page_query(query: dict[str, str]) -> PageQuery | None:
    """The page a request asks for; None if it wants the whole list."""
    if "page" not in query:
        return None
    number = _number(query["page"])
    size = _number(query["page_size"]) if "page_size" in query else None
    if number < 1 or (size is not None and not 1 <= size <= PAGE_SIZE_MAX):
        told_size = "undefined" if size is None else size
        reason = f"Invalid pagination parameters: page number {number}, page size {told_size}"
        raise bad_request(reason, "invalid_pagination_parameters")
    return PageQuery(number, PAGE_SIZE if size is None else size, _filter(query))


def _filter(query: dict[str, str]) -> Callable[[str], bool] | None:
    name = query.get("name", "")
    if not name:
        return None
    if query.get("use_regex") != "true":
        return containing(name)
    matches = matching(name)
    if matches is None:
        raise _invalid()
    return matches


def _number(text: str) -> int:
    digits = text.removeprefix("-")
    if not digits.isascii() or not digits.isdigit() or len(digits) > 30:
        raise _invalid()
    return int(text)


def _invalid() -> HttpFault:
    return bad_request("Pagination parameters are invalid")
