"""The page as text: one file, nothing fetched, nothing run that was not meant to."""

import base64
import hashlib
import json
import re
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime

from warren.pipeline.html.page import ChartSeries, FactList, HtmlPage, PageSection, Paragraph, lines, render, table

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)> & \"'"


def page_of(name: str, with_chart: bool = True) -> HtmlPage:
    moments = [datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 11, 2, tzinfo=UTC)]
    chart = lines(name, name, moments, [ChartSeries(name, [1, 2])], name)
    listed = table(name, (name,), [(name,)] * 3, limit=2)
    parts = (FactList(((name, name),)), Paragraph(name), listed, *([chart] if with_chart else []))
    return HtmlPage(name, name, (PageSection(name, parts),))


def test_the_same_values_give_the_same_bytes() -> None:
    assert render(page_of("a")) == render(page_of("a"))


def test_a_hostile_name_stays_text_wherever_it_stands() -> None:
    rendered = render(page_of(HOSTILE))
    assert "<script>alert" not in rendered
    assert "<img" not in rendered.split('id="figures"')[0]
    [figures] = re.findall(r'<script type="application/json" id="figures">(.*?)</script>', rendered)
    assert json.loads(figures)[0]["data"][0]["text"].startswith("&lt;/script&gt;")


def test_the_policy_names_every_script_by_its_hash_and_allows_no_address() -> None:
    rendered = render(page_of("a"))
    [policy] = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', rendered)
    scripts = re.findall(r"<script>(.*?)</script>", rendered, re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts]
    assert len(digests) == 2
    assert re.findall(r"sha256-([\w+/=]+)", policy.replace("&#39;", "'")) == digests
    assert policy.startswith("default-src &#39;none&#39;")
    assert "http" not in policy


def test_plotly_is_there_once_and_only_if_there_is_a_chart() -> None:
    assert render(page_of("a")).count("window.Plotly = Plotly") == 1
    without = render(page_of("a", with_chart=False))
    assert len(without) < 20_000
    assert "<script" not in without


def test_a_table_says_how_many_rows_are_beyond_it() -> None:
    assert '<p class="more">1 more is not shown.</p>' in render(page_of("a"))


def test_an_empty_table_says_so() -> None:
    rendered = render(
        HtmlPage("a", "a", (PageSection("a", (table("Keys", ("Key", "Amount"), [], nothing="No key."),)),))
    )
    assert '<td colspan="2">No key.</td>' in rendered


def test_a_page_that_is_served_is_asked_for_again() -> None:
    refreshing = '<meta http-equiv="refresh" content="5">'
    page = page_of("a", with_chart=False)
    assert refreshing in render(replace(page, refresh_s=5))
    assert "refresh" not in render(page)


def test_a_page_without_charts_needs_no_plotly_and_no_spark() -> None:
    program = (
        "import sys; from warren.pipeline.html.page import HtmlPage, render; render(HtmlPage('a', 'a', ()));"
        "print(sorted({'plotly', 'pyspark', 'pyarrow'} & set(sys.modules)))"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"
