"""Lists: filtered, sorted, turned page by page, with the columns one wants, at any size, and always up to date."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Response, Route, expect

from tests.browser.site import Site
from tests.browser.visitor import Visitor

CROWD = 10_000

_WATCH_ROWS = """() => {
  window.touched = [];
  for (const row of document.querySelectorAll("tbody tr")) {
    const watch = new MutationObserver(() => window.touched.push(row.querySelector("th").textContent));
    watch.observe(row, { childList: true, subtree: true, characterData: true });
  }
}"""
_HIDE = """(hidden) => {
  Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


@pytest.fixture
def crowd(site: Site, vhost: str) -> Iterator[str]:
    """A virtual host with ten thousand queues."""
    queues = [
        {"name": f"q{number:05}", "vhost": vhost, "durable": True, "auto_delete": False, "arguments": {}}
        for number in range(CROWD)
    ]
    site.ask("POST", "definitions", body={"queues": queues})
    yield vhost
    site.ask("DELETE", "vhosts", vhost)


def names(visitor: Visitor) -> list[str]:
    return visitor.table("Queues").locator("tbody th").all_inner_texts()


def show_queues(visitor: Visitor, vhost: str) -> None:
    visitor.go("queues")
    visitor.choose_vhost(vhost)
    expect(visitor.heading).to_have_text("Queues")


def test_a_list_is_filtered_by_text_and_by_regular_expression(visitor: Visitor, site: Site, vhost: str) -> None:
    for queue in ("apple", "apricot", "pear.a", "plum"):
        site.make_queue(vhost, queue)
    show_queues(visitor, vhost)
    rows = visitor.table("Queues").locator("tbody th")
    expect(rows).to_have_text(["apple", "apricot", "pear.a", "plum"])
    visitor.page.get_by_label("Filter by name").fill("AP")
    expect(rows).to_have_text(["apple", "apricot"])
    visitor.page.get_by_label("Filter by name").fill("^p.*[am]$")
    expect(visitor.page.get_by_text("No queues to show.")).to_be_visible()
    visitor.page.get_by_label("Regular expression").check()
    expect(rows).to_have_text(["pear.a", "plum"])
    with visitor.refused(400):
        visitor.page.get_by_label("Filter by name").fill("(")
        expect(visitor.page.get_by_role("alert").filter(has_text="not a regular expression")).to_be_visible()
        # the page asks again, and is refused again, until there is another filter
        visitor.page.get_by_label("Filter by name").fill("^p.*m$")
        expect(rows).to_have_text(["plum"])


def test_the_way_back_finds_the_list_as_it_was_left(visitor: Visitor, site: Site, vhost: str) -> None:
    for queue in ("one", "two", "three"):
        site.make_queue(vhost, queue)
    site.publish(vhost, "two", "x", count=2)
    site.publish(vhost, "three", "x", count=3)
    show_queues(visitor, vhost)
    rows = visitor.table("Queues").locator("tbody th")
    expect(rows).to_have_count(3)
    visitor.page.get_by_label("Filter by name").fill("t")
    expect(rows).to_have_count(2)
    total = visitor.table("Queues").get_by_role("columnheader", name="Total")
    total.get_by_role("button").click()
    expect(total).to_have_attribute("aria-sort", "descending")
    expect(rows).to_have_text(["three", "two"])
    total.get_by_role("button").click()
    expect(total).to_have_attribute("aria-sort", "ascending")
    expect(rows).to_have_text(["two", "three"])
    visitor.page.get_by_role("link", name="three").click()
    expect(visitor.heading).to_have_text("three")
    visitor.page.go_back()
    expect(rows).to_have_text(["two", "three"])
    expect(visitor.page.get_by_label("Filter by name")).to_have_value("t")


def test_chosen_columns_are_remembered(visitor: Visitor, site: Site, vhost: str) -> None:
    site.make_queue(vhost, "columns")
    show_queues(visitor, vhost)
    headers = visitor.table("Queues").locator("thead th")
    expect(headers.filter(has_text="Consumers")).to_have_count(1)
    expect(headers.filter(has_text="Memory")).to_have_count(0)
    visitor.page.locator("summary", has_text="Columns").click()
    visitor.page.get_by_label("Consumers").uncheck()
    visitor.page.get_by_label("Memory").check()
    expect(headers.filter(has_text="Memory")).to_have_count(1)
    expect(headers.filter(has_text="Consumers")).to_have_count(0)
    visitor.page.reload()
    expect(headers.filter(has_text="Memory")).to_have_count(1)
    expect(headers.filter(has_text="Consumers")).to_have_count(0)


def lists_queues(response: Response) -> bool:
    return "/api/queues" in response.url


def test_of_ten_thousand_queues_the_browser_loads_only_the_page_that_it_shows(visitor: Visitor, crowd: str) -> None:
    page = visitor.page
    visitor.go("exchanges")
    visitor.choose_vhost(crowd)
    expect(visitor.table("Exchanges").locator("tbody tr")).to_have_count(7)
    with page.expect_response(lists_queues) as first:
        visitor.go("queues")
    rows = visitor.table("Queues").locator("tbody tr")
    expect(rows).to_have_count(100)
    assert len(first.value.json()["items"]) == 100
    expect(page.get_by_text("1–100 of 10,000", exact=True)).to_be_visible()
    with page.expect_response(lists_queues) as second:
        page.get_by_role("button", name="Next").click()
    expect(page.get_by_text("101–200 of 10,000", exact=True)).to_be_visible()
    assert len(second.value.json()["items"]) == 100
    assert names(visitor)[0] == "q00100"
    with page.expect_response(lists_queues) as filtered:
        page.get_by_label("Filter by name").fill("q0999")
    expect(rows).to_have_count(10)
    assert len(filtered.value.json()["items"]) == 10
    expect(page.get_by_text("1–10 of 10 (of 10,000)", exact=True)).to_be_visible()


def test_an_update_touches_only_what_changed(visitor: Visitor, site: Site, vhost: str) -> None:
    page = visitor.page
    for queue in ("still", "busy"):
        site.make_queue(vhost, queue)
    show_queues(visitor, vhost)
    visitor.set_pace(1)
    still = visitor.row("Queues", "still")
    expect(still).to_have_count(1)
    still.get_by_role("link").focus()
    page.evaluate(_WATCH_ROWS)
    site.publish(vhost, "busy", "x", count=4)
    expect(visitor.row("Queues", "busy").locator("td").filter(has_text=re.compile("^4$")).first).to_be_visible()
    expect(still.get_by_role("link")).to_be_focused()
    assert set(page.evaluate("window.touched")) == {"busy"}


def test_an_old_answer_never_overwrites_a_newer_one(visitor: Visitor, site: Site, vhost: str) -> None:
    page = visitor.page
    for queue in ("alpha", "beta"):
        site.make_queue(vhost, queue)
    show_queues(visitor, vhost)
    rows = visitor.table("Queues").locator("tbody th")
    expect(rows).to_have_count(2)
    visitor.set_pace(0)
    held: list[Route] = []
    page.route("**/api/queues/*name=alpha*", lambda route: held.append(route))
    with page.expect_request("**/api/queues/*name=alpha*"):
        page.get_by_label("Filter by name").fill("alpha")
    page.get_by_label("Filter by name").fill("beta")
    expect(rows).to_have_text(["beta"])
    assert len(held) == 1
    held[0].continue_()
    visitor.wait_for_answers()
    assert rows.all_inner_texts() == ["beta"]


def test_a_hidden_page_makes_no_requests(visitor: Visitor) -> None:
    page = visitor.page
    with page.expect_response("**/api/overview*"):
        visitor.set_pace(1)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.evaluate(_HIDE, True)
    visitor.wait_for_answers()
    page.wait_for_timeout(300)  # what was on its way to us comes to its end, too
    visitor.wait_for_answers()
    asked.clear()
    page.wait_for_timeout(2500)
    assert asked == []
    with page.expect_response("**/api/overview*"):
        page.evaluate(_HIDE, False)
