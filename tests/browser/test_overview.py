"""The overview: totals, health, ports, and charts that can be read without eyes and without a mouse."""

import re

import pika
from playwright.sync_api import expect

from tests.browser.site import Site
from tests.browser.visitor import Visitor


def test_the_overview_shows_the_node_and_its_health(visitor: Visitor, site: Site) -> None:
    [node] = site.get("nodes")
    row = visitor.row("Nodes", node["name"])
    expect(row).to_contain_text("running")
    expect(row).to_contain_text("MiB of")
    expect(row).to_contain_text(" ms")
    ports = visitor.table("Ports")
    expect(ports.get_by_role("row").filter(has_text="amqp")).to_contain_text(str(site.amqp[1]))
    expect(ports.get_by_role("row").filter(has_text="http").first).to_contain_text(
        site.url.rstrip("/").rsplit(":", 1)[1]
    )


def test_totals_follow_what_happens(visitor: Visitor, site: Site, vhost: str) -> None:
    visitor.set_pace(1)
    tile = visitor.page.locator(".tile").filter(has_text="Messages").locator("dd")
    expect(tile).to_have_text(re.compile("^[0-9,]+$"))
    before = int(tile.inner_text().replace(",", ""))
    site.make_queue(vhost, "counted")
    site.publish(vhost, "counted", "x", count=3)
    expect(tile).to_have_text(f"{before + 3:,}")


def test_by_hand_the_page_is_asked_anew_by_a_button(visitor: Visitor, site: Site, vhost: str) -> None:
    page = visitor.page
    with page.expect_response("**/api/overview*"):
        visitor.set_pace(0)
    with page.expect_response("**/api/overview*"):
        page.get_by_role("button", name="Update now").click()


def test_a_node_that_does_not_answer_is_shown_and_found_again(visitor: Visitor) -> None:
    page = visitor.page
    visitor.set_pace(1)
    trouble = page.get_by_role("alert").filter(has_text="The node does not answer.")
    with visitor.unreachable():
        expect(trouble).to_be_visible()
    expect(trouble).to_have_count(0)


def test_a_chart_is_read_by_keyboard_and_by_its_description(visitor: Visitor, site: Site, vhost: str) -> None:
    site.make_queue(vhost, "measured")
    host, port = site.amqp
    client = pika.BlockingConnection(pika.ConnectionParameters(host, port, vhost))
    channel = client.channel()
    for _ in range(50):
        channel.basic_publish("", "measured", b"x")
    client.close()
    visitor.go("queues", vhost, "measured")
    visitor.set_pace(1)
    chart = visitor.page.get_by_role("slider", name="Messages", exact=True)
    expect(chart).to_have_attribute("aria-valuetext", "Now: Total 50, Ready 50, Unacked 0")
    summary = visitor.page.locator(f"#{chart.get_attribute('aria-describedby')}")
    expect(summary).to_contain_text("Total: now 50, lowest 0, highest 50.", timeout=30_000)
    with visitor.page.expect_response("**/api/queues/**"):
        visitor.set_pace(0)
    visitor.wait_for_answers()
    chart.focus()
    visitor.page.keyboard.press("End")
    visitor.page.keyboard.press("ArrowLeft")
    last = int(chart.get_attribute("aria-valuemax") or 0)
    assert last > 0
    expect(chart).to_have_attribute("aria-valuenow", str(last - 1))
    visitor.page.keyboard.press("Home")
    expect(chart).to_have_attribute("aria-valuenow", "0")
    assert "Now" not in (chart.get_attribute("aria-valuetext") or "")
    visitor.page.keyboard.press("Escape")
    expect(chart).to_have_attribute("aria-valuetext", "Now: Total 50, Ready 50, Unacked 0")


def test_a_line_is_switched_off_in_the_legend(visitor: Visitor) -> None:
    figure = visitor.page.locator("figure").filter(has_text="Queued messages")
    expect(figure.locator("svg .line")).to_have_count(3 + 3)  # three lines, and their three swatches
    ready = figure.get_by_role("button", name="Ready")
    ready.click()
    expect(ready).to_have_attribute("aria-pressed", "false")
    expect(figure.locator("svg .line")).to_have_count(2 + 3)


def test_the_range_of_the_charts_is_remembered(visitor: Visitor) -> None:
    with visitor.page.expect_request(lambda request: "lengths_age=3600" in request.url):
        visitor.page.get_by_label("Charts show").select_option("3600")
    visitor.page.reload()
    expect(visitor.page.get_by_label("Charts show")).to_have_value("3600")
