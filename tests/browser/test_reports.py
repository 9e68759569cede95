"""The pipeline's pages, opened from a file: they make no requests, have no errors, and draw every chart."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.accessibility import broken_rules
from tests.browser.reports import HOSTILE, LONG, REPORTS

PHONE = {"width": 320, "height": 640}
COMPLAINTS = {"error", "warning"}

Look = Callable[..., Page]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Each report as a file."""
    folder = tmp_path_factory.mktemp("reports")
    files = {name: folder / f"{name}.html" for name in REPORTS}
    for name, make in REPORTS.items():
        files[name].write_text(make(), "utf-8")
    return files


@pytest.fixture
def look(browser: Browser, written: dict[str, Path]) -> Iterator[Look]:
    """Opens a report; an error in the browser, or a request beside the file, fails the test."""
    contexts = []
    complaints: list[str] = []

    def opened(name: str, **options: object) -> Page:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        contexts.append(context)
        page = context.new_page()
        address = written[name].as_uri()
        page.on("console", lambda said: complaints.append(said.text) if said.type in COMPLAINTS else None)
        page.on("pageerror", lambda error: complaints.append(f"thrown: {error}"))
        page.on("request", lambda asked: None if _is_harmless(asked.url, address) else complaints.append(asked.url))
        page.goto(address)
        expect(page.locator(".plot .main-svg").first).to_be_visible()
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


def _is_harmless(url: str, address: str) -> bool:
    return url.split("#")[0] == address or url.startswith(("data:", "blob:"))


@pytest.mark.parametrize("name", REPORTS)
def test_every_chart_is_drawn(look: Look, name: str) -> None:
    page = look(name)
    plots = page.locator(".plot").all()
    assert plots
    for plot in plots:
        drawn = plot.locator(".bars .point path, .scatterlayer path, .scatterlayer .point, .heatmaplayer image")
        assert drawn.count() > 0, plot.get_attribute("aria-label")
        expect(plot.locator(".main-svg").first).to_be_visible()


@pytest.mark.parametrize("name", REPORTS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_report_keeps_to_the_rules_of_accessibility(look: Look, name: str, scheme: str) -> None:
    assert broken_rules(look(name, color_scheme=scheme)) == []


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_fits_a_phone(look: Look, name: str) -> None:
    page = look(name, viewport=PHONE, has_touch=True, is_mobile=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    for plot in page.locator(".plot .main-svg").all():
        box = plot.bounding_box()
        assert box is not None
        assert box["width"] <= PHONE["width"]


def test_a_hostile_name_is_shown_as_it_is(look: Look) -> None:
    page = look("full report")
    expect(page.locator("th[scope=row]", has_text=HOSTILE).first).to_be_visible()
    expect(page.locator(".ytick text", has_text=HOSTILE[:20]).first).to_be_visible()
    expect(page.locator("th[scope=row]", has_text=LONG).first).to_be_visible()
    assert page.locator("main img").count() == 0


def test_the_colours_follow_the_system(look: Look) -> None:
    page = look("reconciliation", color_scheme="light")
    by_day = _bar_colour(page)
    page.emulate_media(color_scheme="dark")
    expect(page.locator(".bars path").first).not_to_have_css("fill", by_day)
    page.emulate_media(color_scheme="light")
    expect(page.locator(".bars path").first).to_have_css("fill", by_day)


def test_paper_is_light_and_narrow_and_the_screen_is_as_before(look: Look) -> None:
    page = look("reconciliation", color_scheme="light")
    by_day = _bar_colour(page)
    page.emulate_media(color_scheme="dark")
    expect(page.locator(".bars path").first).not_to_have_css("fill", by_day)
    by_night, wide = _bar_colour(page), _width(page)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    expect(page.locator(".bars path").first).to_have_css("fill", by_day)
    assert _width(page) <= 660
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    expect(page.locator(".bars path").first).to_have_css("fill", by_night)
    assert _width(page) == wide
    assert page.pdf().startswith(b"%PDF")


def test_the_contents_lead_to_the_parts(look: Look) -> None:
    page = look("full report")
    page.get_by_role("navigation", name="Contents").get_by_role("link", name="Forecast").click()
    expect(page.get_by_role("heading", name="Forecast")).to_be_in_viewport()


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_made_again_is_the_same_to_the_byte(written: dict[str, Path], name: str) -> None:
    assert REPORTS[name]().encode() == written[name].read_bytes()


def _bar_colour(page: Page) -> str:
    colour: str = page.locator(".bars path").first.evaluate("bar => getComputedStyle(bar).fill")
    return colour


def _width(page: Page) -> float:
    width: float = page.locator(".plot .main-svg").first.evaluate("drawn => drawn.getBoundingClientRect().width")
    return width
