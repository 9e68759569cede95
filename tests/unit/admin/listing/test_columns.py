"""Column selection."""

import time
from typing import Any

import pytest

from warren.admin.listing.columns import ALL_COLUMNS, ColumnSelection, selected_columns, value_at

ROW: dict[str, Any] = {
    "name": "q",
    "stats": {"publish": 3, "publish_details": {"rate": 1.5}, "ack": 2},
    "consumers": [{"tag": "a", "queue": {"name": "q"}}, {"tag": "b", "queue": {"name": "r"}}],
    "empty": {},
}


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ("name", {"name": "q"}),
        ("name,stats.publish", {"name": "q", "stats": {"publish": 3}}),
        ("stats.publish_details.rate,stats.ack", {"stats": {"publish_details": {"rate": 1.5}, "ack": 2}}),
        ("stats.publish,stats", {"stats": ROW["stats"]}),
        ("stats,stats.publish", {"stats": ROW["stats"]}),
        ("consumers.tag", {"consumers": [{"tag": "a"}, {"tag": "b"}]}),
        ("consumers.queue.name", {"consumers": [{"queue": {"name": "q"}}, {"queue": {"name": "r"}}]}),
        ("name.x", {"name": "q"}),
        ("stats.ack.x.y,stats.publish,stats.ack.x", {"stats": {"publish": 3, "ack": 2}}),
        (",".join(["x", "y", "z", "name", "u", "v", "w"]), {"name": "q"}),
        ("stats.nosuch,name", {"stats": [], "name": "q"}),
        ("nosuch", []),
        ("", []),
        (",", []),
    ],
)
def test_columns_cut_a_row_as_rabbitmq_does(columns: str, expected: object) -> None:
    assert selected_columns({"columns": columns}).cut(ROW) == expected


def test_without_columns_a_row_stays_whole() -> None:
    assert selected_columns({}) is ALL_COLUMNS
    assert ALL_COLUMNS.cut(ROW) is ROW


def test_a_selection_knows_which_columns_need_not_be_built() -> None:
    wanted = ColumnSelection(["stats.publish_details.rate", "name"])
    assert "stats" in wanted
    assert "consumers" not in wanted
    assert wanted.any_of("consumers", "name")
    assert not wanted.any_of("consumers", "empty")
    assert "anything" in ALL_COLUMNS


@pytest.mark.parametrize(
    ("path", "value"), [("name", "q"), ("stats.publish_details.rate", 1.5), ("stats.nosuch.x", 0), ("name.x", 0)]
)
def test_a_path_leads_to_a_value_or_to_zero(path: str, value: object) -> None:
    assert value_at(ROW, path.split(".")) == value


def test_long_paths_and_many_columns_take_no_longer_than_reading_them() -> None:
    deep = ".".join(["a"] * 60_000)
    many = [f"x{number}" for number in range(20_000)]
    started_s = time.process_time()
    wanted = ColumnSelection([f"{deep}.b", f"{deep}.c", *many])
    for _ in range(1000):
        assert wanted.cut(ROW) == []
    # quadratic work takes a minute
    assert time.process_time() - started_s < 5
