"""One self-contained HTML page: its parts, its charts and tables, and its bytes.

The content security policy of the page names its scripts by hash and forbids all fetching: a name that got past the
escaping could neither run nor send data. The page has no clock, no random id and no set order, so the same values give
the same bytes.

**Charts** are bars, lines over time, and heat maps, as Plotly figures of plain lists and dicts. A colour is the name of
one of the page's colours, `var(--series-1)`, which the page's script replaces when it draws, differently by day, by
night and on paper. Series differ in dashes as well as in colours. Each chart has a one-sentence summary for readers who
cannot see it. Labels are positions on the axis with text, so that two long names cut alike stay two, and a queue called
`2026-01-01` stays a name. Plotly interprets some HTML in texts, so names are escaped.

**Tables** show the first rows and the number of further ones, because browsers cannot open a page with all of them: no
difference is left out without being counted.

Not here: drawing (`look/charts.js`), the order of rows, which the caller sorts.
"""

import base64
import hashlib
import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, Final

import jinja2
from markupsafe import Markup

from warren.pipeline.html.quantities import shown

LABEL_LENGTH: Final = 22
SERIES_MAX: Final = 8
GAPS: Final = 60
"""With more moments a heat map has no gaps: they would be as wide as the cells."""
_DASHES: Final = ("solid", "dash", "dot", "dashdot")
_ROW_PX: Final = 26
_FRAME_PX: Final = 96


@dataclass(frozen=True)
class Chart:
    """A figure for Plotly, its title, its summary, and its height."""

    title: str
    summary: str
    figure: Mapping[str, Any]
    height_px: int = 320
    kind: str = "chart"


@dataclass(frozen=True)
class ChartSeries:
    """A line: a value for each moment of its chart, None for none; dots instead of a line if `loose`."""

    name: str
    values: Sequence[float | None]
    loose: bool = False


@dataclass(frozen=True)
class ChartBand:
    """A range of values at the moments of its chart."""

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
    series: Sequence[ChartSeries],
    unit: str,
    bands: Sequence[ChartBand] = (),
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
    """A row of cells for each label, a cell for each moment: darker for more; empty without a value."""
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


def _line_trace(times: Sequence[str], series: ChartSeries, number: int) -> dict[str, Any]:
    colour = f"var(--series-{number % SERIES_MAX + 1})"
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


def _band_traces(times: Sequence[str], band: ChartBand) -> list[dict[str, Any]]:
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


ROW_LIMIT: Final = 100


@dataclass(frozen=True)
class HtmlTable:
    """The shown rows; the first cell of each is its heading. `more` rows are not shown."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    to_the_right: tuple[bool, ...]
    more: int = 0
    nothing: str = "None."
    kind: str = "table"


def table(
    caption: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    total: int | None = None,
    limit: int = ROW_LIMIT,
    nothing: str = "None.",
    right: Sequence[str] = (),
) -> HtmlTable:
    """The first `limit` rows; `total` is the number of all rows, if not all are given.

    Columns of numbers are right-aligned, and those named in `right`.
    """
    given = [tuple(row) for row in rows]
    kept = given[:limit]
    beyond = max(total or 0, len(given)) - len(kept)
    numbers = tuple(
        name in right or (any(row[at] is not None for row in kept) and all(_is_number(row[at]) for row in kept))
        for at, name in enumerate(columns)
    )
    cells = tuple(tuple(shown(value) for value in row) for row in kept)
    return HtmlTable(caption, tuple(columns), cells, numbers, beyond, nothing)


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float | Decimal) and not isinstance(value, bool))


_LOOK = Path(__file__).with_name("look")


@dataclass(frozen=True)
class FactList:
    """Names and values, side by side; the values are large if they are the subject of the page."""

    pairs: tuple[tuple[str, str], ...]
    large: bool = False
    kind: str = "facts"


@dataclass(frozen=True)
class Paragraph:
    """A few sentences; `tone` is `plain`, `good`, `warn` or `bad`."""

    text: str
    tone: str = "plain"
    kind: str = "paragraph"


PagePart = FactList | Paragraph | HtmlTable | Chart


@dataclass(frozen=True)
class PageSection:
    """Parts under a heading."""

    title: str
    parts: tuple[PagePart, ...]


@dataclass(frozen=True)
class HtmlPage:
    """A whole report; `lead` is below the title. A served page may be refreshed."""

    title: str
    lead: str
    sections: tuple[PageSection, ...]
    refresh_s: int = 0


def render(page: HtmlPage) -> str:
    """The page as the text of an HTML file, in UTF-8."""
    charts = _charts(page.sections)
    libraries = [_plotly(), _asset("charts.js")] if charts else []
    rendered = _template().render(
        page=page,
        numbers={id(chart): number for number, chart in enumerate(charts)},
        figures=[chart.figure for chart in charts],
        scripts=[Markup(text) for text in libraries],
        policy=_policy(libraries),
        style=Markup(_asset("style.css")),
        id=id,
    )
    return rendered + "\n"


def _plotly() -> str:
    # a page without charts does not need Plotly
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())


def _charts(sections: Sequence[PageSection]) -> list[Chart]:
    return [part for section in sections for part in section.parts if isinstance(part, Chart)]


def _policy(scripts: Sequence[str]) -> str:
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in hashes) or "'none'"
    rest = "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
    return f"default-src 'none'; script-src {allowed}; {rest}"


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_LOOK),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html")


@cache
def _asset(name: str) -> str:
    return (_LOOK / name).read_text("utf-8")
