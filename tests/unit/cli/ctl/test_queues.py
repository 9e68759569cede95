"""The bar and the estimate of `list_queues sync_progress`."""

import pytest

from warren.cli.ctl import output
from warren.cli.ctl.catalog import VERBS
from warren.cli.ctl.verb import Options, Rows, VerbCall
from warren.cli.ctl.verbs.queues import COLUMNS

COLUMN = COLUMNS["sync_progress"]


def shown(percent: float | None, left_s: float | None = None) -> str | None:
    told = COLUMN.value({"name": "work", "sync_percent": percent, "sync_seconds_left": left_s})
    return None if told is None else str(told)


@pytest.mark.parametrize(
    ("percent", "bar"),
    [
        (0, "[....................] 0 %"),
        (4.9, "[....................] 5 %"),
        (5, "[#...................] 5 %"),
        (49.4, "[#########...........] 49 %"),
        (50.0, "[##########..........] 50 %"),
        (99.9, "[###################.] 100 %"),
        (100, "[####################] 100 %"),
    ],
)
def test_the_bar_fills_as_mirrors_catch_up(percent: float, bar: str) -> None:
    assert shown(percent) == bar


def test_the_estimate_is_there_once_there_is_one() -> None:
    assert shown(25.0) == "[#####...............] 25 %"
    assert shown(25.0, 12.4) == "[#####...............] 25 %, 12 s left"
    assert shown(99.0, 0.2) == "[###################.] 99 %, 0 s left"


def test_of_a_queue_whose_mirrors_do_not_catch_up_nothing_is_shown() -> None:
    assert shown(None) is None
    assert COLUMN.value({"name": "work"}) is None


def test_a_listing_requests_its_columns_and_prints_them_unchanged(capsys: pytest.CaptureFixture[str]) -> None:
    assert COLUMN.fields == ("sync_percent", "sync_seconds_left")
    rows = [
        {"name": "one", "sync_progress": COLUMN.value({"sync_percent": 40, "sync_seconds_left": 3})},
        {"name": "other", "sync_progress": COLUMN.value({})},
    ]
    call = VerbCall(VERBS["list_queues"], [], Options(http="", user="", password=""))
    output.write(call, Rows(["name", "sync_progress"], rows, streamed=True))
    assert capsys.readouterr().out == ("name\tsync_progress\none\t[########............] 40 %, 3 s left\nother\t\n")
