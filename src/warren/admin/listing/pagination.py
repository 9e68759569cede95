"""Pages (`page`, `page_size`) and filters by name (`name`, `use_regex`), which ignore case.

A Python regular expression can take exponential time and would block the node. So expressions are refused that repeat a
group which itself repeats or has alternatives, and expressions with many open repetitions. The rest takes time that is
a small power of the length of a name, which is at most 255 bytes.

Not here: rows (`listing.responses`), patterns of policies and permissions, whose authors are trusted
(`broker.model.name_pattern`).
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
    """A filter for names that contain the text."""
    wanted = text.lower()
    return lambda name: wanted in name.lower()


def matching(expression: str) -> Callable[[str], bool] | None:
    """A filter for names that match the expression; None if it is invalid or could take exponential time."""
    if not is_harmless(expression):
        return None
    pattern = NamePattern(f"(?i){expression}")
    return None if pattern.fault else pattern.matches


def is_harmless(expression: str) -> bool:
    """Whether the expression is fast for every name."""
    open_repeats = 0
    # for each open group: whether it contains a repetition or alternatives
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
    """Where the next item begins: an escape, a class or a count is one item."""
    if counted is not None:
        return counted.end()
    if expression[at] == "\\":
        return at + 2
    if expression[at] != "[":
        return at + 1
    at += 2 if expression.startswith("[^", at) else 1
    # a bracket in first place is a member
    end = at + 1
    while end < len(expression) and expression[end] != "]":
        end += 2 if expression[end] == "\\" else 1
    return end + 1


def _after_group_start(expression: str, at: int) -> int:
    """Past the parenthesis and the question mark that gives the group's kind."""
    return at + 2 if expression.startswith("(?", at) else at + 1


PAGE_SIZE = 100
PAGE_SIZE_MAX = 500


@dataclass(frozen=True)
class PageQuery:
    """One page of the names that pass the filter."""

    number: int
    size: int
    passes: Callable[[str], bool] | None = None

    def cut(self, items: list[Any]) -> list[Any]:
        """The items of this page; a fault if the list ends before the page."""
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
    """The page that a request asks for; None for the whole list."""
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
