"""One self-contained HTML page, from its parts to its bytes.

What runs in the page is named by its hash in the page's own content security policy, and nothing may be fetched: a name
that would get past the escaping still could neither run nor call home. There is no clock, no random id and no order of
a set in it, so the same values give the same bytes.

Not here: what the parts are made of (`tables`, `charts`); how it looks (`look`).
"""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import jinja2
from markupsafe import Markup

from warren.pipeline.html.charts import Chart
from warren.pipeline.html.tables import Table

_LOOK = Path(__file__).with_name("look")


@dataclass(frozen=True)
class Facts:
    """Names and values, side by side; the values are large if they are what the page is about."""

    pairs: tuple[tuple[str, str], ...]
    large: bool = False
    kind: str = "facts"


@dataclass(frozen=True)
class Paragraph:
    """A sentence or a few; `tone` is `plain`, `good`, `warn` or `bad`."""

    text: str
    tone: str = "plain"
    kind: str = "paragraph"


Part = Facts | Paragraph | Table | Chart


@dataclass(frozen=True)
class Section:
    """Parts under a heading."""

    title: str
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Page:
    """A whole report; `lead` stands below the title. One that is served may be asked for again, now and then."""

    title: str
    lead: str
    sections: tuple[Section, ...]
    refresh_s: int = 0


def render(page: Page) -> str:
    """The page as the text of an HTML file, in UTF-8."""
    charts = _charts(page.sections)
    libraries = [_plotly(), _text("charts.js")] if charts else []
    rendered = _template().render(
        page=page,
        numbers={id(chart): number for number, chart in enumerate(charts)},
        figures=[chart.figure for chart in charts],
        scripts=[Markup(text) for text in libraries],
        policy=_policy(libraries),
        style=Markup(_text("style.css")),
        id=id,
    )
    return rendered + "\n"


def _plotly() -> str:
    # a page without charts is made where there is no Plotly
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())


def _charts(sections: Sequence[Section]) -> list[Chart]:
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
def _text(name: str) -> str:
    return (_LOOK / name).read_text("utf-8")
