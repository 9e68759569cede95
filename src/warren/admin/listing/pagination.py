"""Pages (`page`, `page_size`) and filters by name (`name`, `use_regex`), which ignore case.

Expressions are those of policies and take linear time. The worst ones still take a millisecond for a name, so lists
are filtered in time slices (`listing.responses`).

Not here: rows (`listing.responses`), the expressions (`broker.model.name_pattern`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from warren.admin.http.responses import HttpFault, bad_request
from warren.broker.model.name_pattern import NamePattern


def containing(text: str) -> Callable[[str], bool]:
    """A filter for names that contain the text."""
    wanted = text.lower()
    return lambda name: wanted in name.lower()


def matching(expression: str) -> Callable[[str], bool]:
    """A filter for names that match the expression; an `HttpFault` if it is invalid or not supported."""
    pattern = NamePattern(expression, any_case=True)
    if pattern.unsupported:
        raise bad_request(f"The name filter cannot be used: {pattern.fault}")
    if pattern.fault:
        raise _invalid()
    return pattern.matches


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

    def facts(self, total_count: int, filtered_count: int, item_count: int) -> dict[str, int]:
        """What a response says about its `items`."""
        return {
            "filtered_count": filtered_count,
            "item_count": item_count,
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
    return matching(name) if query.get("use_regex") == "true" else containing(name)


def _number(text: str) -> int:
    digits = text.removeprefix("-")
    if not digits.isascii() or not digits.isdigit() or len(digits) > 30:
        raise _invalid()
    return int(text)


def _invalid() -> HttpFault:
    return bad_request("Pagination parameters are invalid")
