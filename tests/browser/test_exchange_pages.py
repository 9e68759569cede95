"""The list of exchanges and the page of one: every form is used, and its effect is checked with the API."""

from playwright.sync_api import expect

from tests.browser.site import Site
from tests.browser.visitor import Visitor


def make_exchange(site: Site, vhost: str, name: str, kind: str = "topic") -> None:
    site.ask("PUT", "exchanges", vhost, name, body={"type": kind, "durable": True})


def test_an_exchange_is_added_and_appears_in_the_list(visitor: Visitor, site: Site, vhost: str) -> None:
    visitor.go("exchanges")
    visitor.panel("Add an exchange")
    form = visitor.form("Add an exchange")
    form.get_by_label("Virtual host").select_option(vhost)
    form.get_by_label("Name", exact=True).first.fill("news")
    form.get_by_label("Type").first.select_option("fanout")
    form.get_by_label("Internal").check()
    form.get_by_role("button", name="+ Alternate exchange").click()
    form.get_by_label("Value").last.fill("amq.fanout")
    form.get_by_role("button", name="Add exchange").click()
    expect(form.get_by_role("status")).to_have_text("The exchange “news” was added.")
    exchange = site.get("exchanges", vhost, "news")
    assert (exchange["type"], exchange["internal"], exchange["durable"]) == ("fanout", True, True)
    assert exchange["arguments"] == {"alternate-exchange": "amq.fanout"}
    expect(visitor.row("Exchanges", "news")).to_contain_text("internal")


def test_an_exchange_is_bound_both_ways_and_unbound(visitor: Visitor, site: Site, vhost: str) -> None:
    make_exchange(site, vhost, "middle")
    site.make_queue(vhost, "end")
    visitor.go("exchanges", vhost, "middle")
    visitor.panel("Bind from here")
    onward = visitor.form("Add a binding from this exchange")
    onward.get_by_label("Named").fill("end")
    onward.get_by_label("Routing key").fill("#")
    onward.get_by_role("button", name="Bind").click()
    expect(visitor.row("Bindings from this exchange", "end")).to_contain_text("queue")
    visitor.panel("Bind to here")
    inward = visitor.form("Add a binding to this")
    inward.get_by_label("From the exchange").fill("amq.headers")
    inward.get_by_role("button", name="+ Match").click()
    inward.get_by_label("Value").last.select_option("any")
    inward.get_by_role("button", name="Bind").click()
    row = visitor.row("Bindings to this exchange", "amq.headers")
    expect(row).to_contain_text("x-match: any")
    [binding] = site.get("bindings", vhost, "e", "amq.headers", "e", "middle")
    assert binding["arguments"] == {"x-match": "any"}
    row.get_by_role("button", name="Unbind").click()
    visitor.confirm("Unbind")
    expect(row).to_have_count(0)
    assert site.get("bindings", vhost, "e", "amq.headers", "e", "middle") == []


def test_a_publish_shows_whether_a_queue_took_it(visitor: Visitor, site: Site, vhost: str) -> None:
    make_exchange(site, vhost, "post", "direct")
    site.make_queue(vhost, "box")
    site.ask("POST", "bindings", vhost, "e", "post", "q", "box", body={"routing_key": "home"})
    visitor.go("exchanges", vhost, "post")
    visitor.panel("Publish a message")
    form = visitor.form("Publish a message")
    form.get_by_label("Routing key").fill("nowhere")
    form.get_by_label("Payload", exact=True).fill("aGVsbG8=")
    form.get_by_label("The payload is").select_option("base64")
    form.get_by_role("button", name="Publish").click()
    expect(form.get_by_role("status")).to_contain_text("no queue takes it")
    form.get_by_label("Routing key").fill("home")
    form.get_by_role("button", name="Publish").click()
    expect(form.get_by_role("status")).to_have_text("Published.")
    assert site.payloads(vhost, "box") == ["hello"]


def test_an_exchange_is_deleted_after_a_question(visitor: Visitor, site: Site, vhost: str) -> None:
    make_exchange(site, vhost, "gone")
    visitor.go("exchanges", vhost, "gone")
    visitor.panel("Delete this exchange")
    visitor.page.get_by_role("button", name="Delete the exchange").click()
    visitor.confirm("Delete")
    expect(visitor.heading).to_have_text("Exchanges")
    assert not site.exists("exchanges", vhost, "gone")


def test_the_default_exchange_has_a_page_and_cannot_be_deleted_or_bound(visitor: Visitor, vhost: str) -> None:
    visitor.go("exchanges")
    visitor.choose_vhost(vhost)
    # a list of all virtual hosts may still be there for a moment
    visitor.page.locator(f'a[href="#/exchanges/{vhost}/amq.default"]').click()
    expect(visitor.heading).to_have_text("(default)")
    expect(visitor.page.locator("summary")).to_have_text(["Publish a message"])
