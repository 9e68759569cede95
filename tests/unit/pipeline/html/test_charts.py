"""Charts as figures: names are text, colours are the page's, moments are UTC."""

import json
from datetime import UTC, datetime

from warren.pipeline.html.page import LABEL_LENGTH, Chart, ChartBand, ChartSeries, bars, heat_map, lines

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
LATER = datetime(2026, 11, 1, 13, tzinfo=UTC)


def every_chart(name: str) -> list[Chart]:
    return [
        bars("Bars", "Some.", [name], [1], "messages"),
        lines("Lines", "Some.", [NOON, LATER], [ChartSeries(name, [1, None])], "ms", [ChartBand(name, [0, 0], [2, 2])]),
        heat_map("Map", "Some.", [NOON, LATER], [name], [[1, None]], "ms"),
    ]


def test_markup_in_a_name_is_escaped_in_every_chart() -> None:
    for chart in every_chart("<b>&"):
        written = json.dumps(chart.figure)
        assert "&lt;b&gt;&amp;" in written
        assert "<b>" not in written


def test_names_that_are_cut_alike_keep_their_own_bars() -> None:
    names = ["q" * 100 + "1", "q" * 100 + "2"]
    figure = bars("Bars", "Some.", names, [1, 2], "messages").figure
    [trace] = figure["data"]
    assert trace["y"] == [0, 1]
    assert trace["customdata"] == names
    assert [len(text) for text in figure["layout"]["yaxis"]["ticktext"]] == [LABEL_LENGTH] * 2


def test_the_first_bar_is_on_top() -> None:
    layout = bars("Bars", "Some.", ["a", "b"], [1, 2], "messages").figure["layout"]
    assert layout["yaxis"]["range"] == [1.5, -0.5]


def test_moments_are_written_without_a_zone() -> None:
    [trace] = lines("Lines", "Some.", [NOON], [ChartSeries("a", [1])], "ms").figure["data"]
    assert trace["x"] == ["2026-11-01 12:00:00"]
    assert trace["mode"] == "markers"  # a line of one point is not seen


def test_lines_differ_by_dashes_and_by_colours() -> None:
    made = lines("Lines", "Some.", [NOON, LATER], [ChartSeries("a", [1, 2]), ChartSeries("b", [2, 1])], "ms")
    first, second = (trace["line"] for trace in made.figure["data"])
    assert first["dash"] != second["dash"]
    assert (first["color"], second["color"]) == ("var(--series-1)", "var(--series-2)")
