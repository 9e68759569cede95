"""Charts of a page: bars, lines over time, and a heat map, as figures of Plotly that carry no colours of their own.

A figure is what Plotly draws, as plain lists and dicts. A colour in it is the name of one of the page's,
`var(--series-1)`, which the page's script replaces when it draws: by day, by night and on paper differently. Series are
told apart by dashes as well as by colours. Each chart says in a sentence what it shows, for those who do not see it.

Labels are places on the axis with text at them, so that two long names that are cut alike stay two, and a queue called
`2026-01-01` stays a name. Plotly reads a little HTML in texts: names are escaped.

Not here: drawing (`look/charts.js`).
"""

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

LABEL_LENGTH: Final = 22
SERIES: Final = 8
GAPS: Final = 60
"""A heat map of more moments has no gaps between them: they would be as wide as the cells."""
_DASHES: Final = ("solid", "dash", "dot", "dashdot")
_ROW_PX: Final = 26
_FRAME_PX: Final = 96


@dataclass(frozen=True)
class Chart:
    """A figure for Plotly, its title, what is to be seen in it, and how high it is."""

    title: str
    summary: str
    figure: Mapping[str, Any]
    height_px: int = 320
    kind: str = "chart"


@dataclass(frozen=True)
class Series:
    """A line: a value for each moment of its chart, None where there is none; dots in place of a line if `loose`."""

    name: str
    values: Sequence[float | None]
    loose: bool = False


@dataclass(frozen=True)
class Band:
    """Between which values something lies, at the moments of its chart."""

    name: str
    low: Sequence[float | None]
    high: Sequence[float | None]


def bars(
    title: str, summary: str, labels: Sequence[str], values: Sequence[float], unit: str, tones: Sequence[str] = ()
) -> Chart:
    """One bar for each label, the first on top; `tones` are names of the page's colours."""
    colours = [f"var(--{tone})" for tone in tones] or "var(--series-1)"
    trace = {
        "type": "bar",
        "orientation": "h",
        "x": list(values),
        "y": list(range(len(labels))),
        "customdata": [_plain(label) for label in labels],
        "hovertemplate": f"%{{customdata}}<br>%{{x:,.4~g}} {_plain(unit)}<extra></extra>",
        "marker": {"color": colours},
    }
    across = {"title": {"text": _plain(unit)}, "rangemode": "tozero", "nticks": 5}
    figure = {"data": [trace], "layout": {"xaxis": across, "yaxis": _named_places(labels), "bargap": 0.3}}
    return Chart(title, summary, figure, _FRAME_PX + _ROW_PX * max(len(labels), 2))


def lines(
    title: str,
    summary: str,
    moments: Sequence[datetime],
    series: Sequence[Series],
    unit: str,
    bands: Sequence[Band] = (),
) -> Chart:
    """Values over time. A moment is written without its zone, so that every reader sees UTC."""
    times = [_time(moment) for moment in moments]
    traces = [trace for band in bands for trace in _band_traces(times, band)]
    traces += [_line_trace(times, each, number) for number, each in enumerate(series)]
    layout = {
        "xaxis": {"type": "date", "title": {"text": "UTC"}},
        "yaxis": {"title": {"text": _plain(unit)}, "rangemode": "tozero"},
        "showlegend": len(traces) > 1,
    }
    return Chart(title, summary, {"data": traces, "layout": layout}, 360)


def heat_map(
    title: str,
    summary: str,
    moments: Sequence[datetime],
    labels: Sequence[str],
    cells: Sequence[Sequence[float | None]],
    unit: str,
) -> Chart:
    """A row of cells for each label, a cell for each moment: the stronger, the more; without a value it is empty."""
    trace = {
        "type": "heatmap",
        "x": [_time(moment) for moment in moments],
        "y": list(range(len(labels))),
        "z": [list(row) for row in cells],
        "text": [[_plain(label)] * len(moments) for label in labels],
        "hovertemplate": f"%{{text}}<br>%{{x}}<br>%{{z:,.4~g}} {_plain(unit)}<extra></extra>",
        "hoverongaps": False,
        "colorscale": [[0, "var(--heat-low)"], [1, "var(--heat-high)"]],
        "colorbar": {"title": {"text": _plain(unit), "side": "right"}, "thickness": 10, "outlinewidth": 0},
        "xgap": 1 if len(moments) <= GAPS else 0,
        "ygap": 1,
    }
    layout = {"xaxis": {"type": "date", "title": {"text": "UTC"}}, "yaxis": _named_places(labels)}
    height = _FRAME_PX + _ROW_PX * max(len(labels), 3)
    return Chart(title, summary, {"data": [trace], "layout": layout}, height)


def _line_trace(times: Sequence[str], series: Series, number: int) -> dict[str, Any]:
    colour = f"var(--series-{number % SERIES + 1})"
    return {
        "type": "scatter",
        "mode": "markers" if series.loose or len(times) == 1 else "lines",
        "x": list(times),
        "y": list(series.values),
        "name": _plain(_shortened(series.name)),
        "text": _plain(series.name),
        "hovertemplate": "%{text}<br>%{x}<br>%{y:,.4~g}<extra></extra>",
        "line": {"color": colour, "width": 2, "dash": _DASHES[number % len(_DASHES)]},
        "marker": {"color": colour, "size": 7},
    }


def _band_traces(times: Sequence[str], band: Band) -> list[dict[str, Any]]:
    edge = {"type": "scatter", "mode": "lines", "x": list(times), "line": {"width": 0}, "hoverinfo": "skip"}
    low = {**edge, "y": list(band.low), "showlegend": False}
    filled = {"y": list(band.high), "fill": "tonexty", "fillcolor": "var(--band)", "name": _plain(band.name)}
    return [low, {**edge, **filled}]


def _named_places(labels: Sequence[str]) -> dict[str, Any]:
    return {
        "tickmode": "array",
        "tickvals": list(range(len(labels))),
        "ticktext": [_plain(_shortened(label)) for label in labels],
        "range": [len(labels) - 0.5, -0.5],
        "automargin": True,
        "showgrid": False,
    }


def _time(moment: datetime) -> str:
    return moment.replace(tzinfo=None).isoformat(" ", "seconds")


def _shortened(text: str) -> str:
    return text if len(text) <= LABEL_LENGTH else f"{text[: LABEL_LENGTH - 1]}…"


def _plain(text: str) -> str:
    return html.escape(text, quote=False)
