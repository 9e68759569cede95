"""Every page, seen: complaining of nothing, fit for a phone, accessible, by day and by night."""

import pytest
from playwright.sync_api import expect

from tests.browser.accessibility import broken_rules
from tests.browser.conftest import Open
from tests.browser.site import Site
from tests.browser.visitor import Visitor
from tests.browser.world import TITLES, furnished

PHONE = {"width": 320, "height": 640}


def title_of(names: tuple[str, ...]) -> str:
    if len(names) > 1:
        return "(default)" if names[-1] == "amq.default" else names[-1]
    page = names[0] if names else ""
    return TITLES.get(page, page.capitalize())


def test_every_page_is_there_and_complains_of_nothing(visitor: Visitor, site: Site, vhost: str) -> None:
    with furnished(site, vhost) as pages:
        for names in pages:
            visitor.go(*names)
            expect(visitor.heading).to_have_text(title_of(names))
            visitor.settle()
            assert visitor.page.title() == f"{title_of(names)} · Warren"
            assert visitor.page.locator("main > .notice.bad").all_inner_texts() == [""] * (2 if names == () else 1)
            assert visitor.complaints == [], names


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_keeps_to_the_rules_of_accessibility(
    open_visitor: Open, site: Site, vhost: str, scheme: str
) -> None:
    visitor = open_visitor(color_scheme=scheme)
    visitor.page.goto(site.url)
    expect(visitor.page.get_by_label("Password")).to_be_visible()
    assert broken_rules(visitor.page) == []
    visitor.log_in()
    with furnished(site, vhost) as pages:
        for names in pages:
            visitor.go(*names)
            expect(visitor.heading).to_have_text(title_of(names))
            visitor.settle()
            assert broken_rules(visitor.page) == [], names


def test_every_page_fits_a_phone(open_visitor: Open, site: Site, vhost: str) -> None:
    visitor = open_visitor(viewport=PHONE, has_touch=True, is_mobile=True)
    visitor.log_in()
    with furnished(site, vhost) as pages:
        for names in pages:
            visitor.go(*names)
            expect(visitor.heading).to_have_text(title_of(names))
            visitor.settle()
            visitor.page.evaluate("() => document.querySelectorAll('details').forEach((part) => (part.open = true))")
            assert visitor.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], names


def test_on_a_phone_the_ways_are_behind_a_button(open_visitor: Open) -> None:
    visitor = open_visitor(viewport=PHONE, has_touch=True, is_mobile=True)
    visitor.log_in()
    queues = visitor.page.get_by_role("link", name="Queues", exact=True).first
    expect(visitor.page.locator("nav")).to_be_hidden()
    menu = visitor.page.get_by_role("button", name="Menu")
    expect(menu).to_have_attribute("aria-expanded", "false")
    menu.tap()
    expect(menu).to_have_attribute("aria-expanded", "true")
    visitor.page.locator("nav").get_by_role("link", name="Queues").tap()
    expect(visitor.heading).to_have_text("Queues")
    expect(visitor.page.locator("nav")).to_be_hidden()
    expect(queues).to_be_hidden()


def test_colours_follow_the_system_until_they_are_chosen(open_visitor: Open) -> None:
    visitor = open_visitor(color_scheme="dark")
    visitor.log_in()

    def brightness() -> int:
        shade: int = visitor.page.evaluate(
            "Number(getComputedStyle(document.documentElement).backgroundColor.match(/\\d+/)[0])"
        )
        return shade

    assert brightness() < 60
    visitor.page.get_by_label("Colours").select_option("light")
    assert brightness() > 200
    visitor.page.reload()
    expect(visitor.heading).to_have_text("Overview")
    assert brightness() > 200
    visitor.page.get_by_label("Colours").select_option("system")
    assert brightness() < 60
