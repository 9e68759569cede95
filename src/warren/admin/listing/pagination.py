"""`page`, `page_size`, `name` and `use_regex`: which part of a list is wanted, and the envelope it comes in.

Not here: the rows (`listing.rows`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from warren.admin.http.faults import HttpFault, bad_request
from warren.admin.listing.name_filter import containing, matching

PAGE_SIZE = 100
PAGE_SIZE_MAX = 500


@dataclass(frozen=True)
class Page:
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


def page_of(query: dict[str, str]) -> Page | None:
    """The page a request asks for; None if it wants the whole list."""
    if "page" not in query:
        return None
    number = _number(query["page"])
    size = _number(query["page_size"]) if "page_size" in query else None
    if number < 1 or (size is not None and not 1 <= size <= PAGE_SIZE_MAX):
        told_size = "undefined" if size is None else size
        reason = f"Invalid pagination parameters: page number {number}, page size {told_size}"
        raise bad_request(reason, "invalid_pagination_parameters")
    return Page(number, PAGE_SIZE if size is None else size, _filter(query))


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
