"""Pages of lists."""

from typing import Any

import pytest

from warren.admin.http.responses import HttpFault
from warren.admin.listing.pagination import page_query


def test_without_a_page_the_whole_list_is_wanted() -> None:
    assert page_query({"page_size": "2", "name": "x", "pagination": "true"}) is None


def test_a_page_has_a_hundred_items_by_default() -> None:
    page = page_query({"page": "2"})
    assert page is not None
    assert page.cut(list(range(250))) == list(range(100, 200))
    assert page.facts(300, 250, 2) == {
        "filtered_count": 250,
        "item_count": 2,
        "page": 2,
        "page_count": 3,
        "page_size": 100,
        "total_count": 300,
    }


@pytest.mark.parametrize(
    ("query", "error", "reason"),
    [
        ({"page": "0"}, "invalid_pagination_parameters", "page number 0, page size undefined"),
        ({"page": "-1"}, "invalid_pagination_parameters", "page number -1, page size undefined"),
        ({"page": "1", "page_size": "501"}, "invalid_pagination_parameters", "page number 1, page size 501"),
        ({"page": "1", "page_size": "0"}, "invalid_pagination_parameters", "page number 1, page size 0"),
        ({"page": "abc"}, "bad_request", "Pagination parameters are invalid"),
        ({"page": ""}, "bad_request", "Pagination parameters are invalid"),
        ({"page": "1.5"}, "bad_request", "Pagination parameters are invalid"),
        ({"page": "1", "page_size": ""}, "bad_request", "Pagination parameters are invalid"),
        ({"page": "1", "name": "[", "use_regex": "true"}, "bad_request", "Pagination parameters are invalid"),
    ],
)
def test_nonsense_is_refused_in_rabbitmqs_words(query: dict[str, str], error: str, reason: str) -> None:
    with pytest.raises(HttpFault) as refused:
        page_query(query)
    assert (refused.value.status, refused.value.error) == (400, error)
    assert str(refused.value.reason).endswith(reason)


@pytest.mark.parametrize(("count", "page", "expected"), [(0, "1", []), (2, "2", []), (3, "2", [2])])
def test_the_page_right_behind_the_end_is_empty(count: int, page: str, expected: list[Any]) -> None:
    wanted = page_query({"page": page, "page_size": "2"})
    assert wanted is not None
    assert wanted.cut(list(range(count))) == expected


def test_a_page_further_on_is_out_of_range() -> None:
    page = page_query({"page": "99", "page_size": "10"})
    assert page is not None
    with pytest.raises(HttpFault) as refused:
        page.cut(list(range(23)))
    assert refused.value.error == "page_out_of_range"
    assert refused.value.reason == "Page out of range, page: 99 page size: 10, len: 23"
