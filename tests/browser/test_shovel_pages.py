"""The page of shovels: a shovel is defined, moves messages, is restarted, changed and deleted; errors are shown."""

from collections.abc import Callable
from urllib.parse import quote

from playwright.sync_api import expect

from tests.browser.site import Site
from tests.browser.visitor import Visitor

Name = Callable[[str], str]
Open = Callable[[], Visitor]


def test_a_shovel_is_added_restarted_changed_and_deleted(visitor: Visitor, site: Site, vhost: str, name: Name) -> None:
    shovel, here = name("moving"), f"amqp:///{quote(vhost, safe='')}"
    site.make_queue(vhost, "from")
    site.publish(vhost, "from", "two spades", count=3)
    visitor.go("shovels")
    visitor.set_pace(1)
    visitor.panel("Add or change a shovel")
    form = visitor.form("Add or change a shovel")
    form.get_by_label("Virtual host").select_option(vhost)
    form.get_by_label("Name", exact=True).first.fill(shovel)
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_role("alert")).to_have_text("Source: URIs are missing.")
    form.get_by_label("Source: URIs").fill("http://elsewhere")
    form.get_by_label("Source: name").fill("from")
    form.get_by_label("Destination: URIs").fill(here)
    form.get_by_label("Destination: name").fill("to")
    with visitor.refused(400):
        form.get_by_role("button", name="Save").click()
        expect(form.get_by_role("alert")).to_contain_text('"http://elsewhere" not a valid URI')
    form.get_by_label("Source: URIs").fill(here)
    form.get_by_role("button", name="+ Prefetch", exact=True).click()
    form.get_by_label("Value").last.fill("7")
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_role("status")).to_contain_text("is defined")
    row = visitor.row("Shovels", shovel)
    expect(row).to_contain_text("running")
    expect(row).to_contain_text("queue to")
    expect(visitor.row("Definitions", shovel)).to_contain_text("src-prefetch-count: 7")
    assert site.get("parameters", "shovel", vhost, shovel)["value"] == {
        "src-uri": here,
        "src-queue": "from",
        "dest-uri": here,
        "dest-queue": "to",
        "src-prefetch-count": 7,
    }
    expect(row.get_by_role("cell", name="3", exact=True)).to_be_visible()

    row.get_by_role("button", name="Restart").click()
    expect(visitor.page.get_by_text("restarts")).to_be_visible()
    expect(row).to_contain_text("running")

    visitor.row("Definitions", shovel).get_by_role("button", name="Change").click()
    expect(form.get_by_label("Source: name")).to_have_value("from")
    form.get_by_label("Destination is").select_option("exchange")
    form.get_by_label("Destination: name").fill("nosuch")
    form.get_by_role("button", name="Save").click()
    expect(row).to_contain_text("destination: the broker closed channel")
    expect(row).to_contain_text("no exchange 'nosuch'")

    visitor.row("Definitions", shovel).get_by_role("button", name="Delete").click()
    visitor.confirm("Delete")
    expect(visitor.row("Definitions", shovel)).to_have_count(0)
    expect(visitor.row("Shovels", shovel)).to_have_count(0)
    assert not site.exists("parameters", "shovel", vhost, shovel)


def test_passwords_in_uris_are_not_shown_in_the_lists(visitor: Visitor, site: Site, vhost: str, name: Name) -> None:
    shovel = name("secret")
    definition = {
        "src-uri": ["amqp://user:carrot@127.0.0.1:1", "amqp://user:carrot@127.0.0.1:2"],
        "src-queue": "from",
        "dest-uri": "amqp://",
        "dest-exchange": "amq.topic",
    }
    site.ask("PUT", "parameters", "shovel", vhost, shovel, body={"value": definition})
    visitor.go("shovels")
    visitor.set_pace(1)
    expect(visitor.row("Definitions", shovel)).to_contain_text("amqp://127.0.0.1:1")
    expect(visitor.row("Shovels", shovel)).to_contain_text("connection refused")
    for caption in ("Definitions", "Shovels"):
        expect(visitor.row(caption, shovel)).not_to_contain_text("carrot")
    site.ask("DELETE", "parameters", "shovel", vhost, shovel)


def test_a_policymaker_sees_the_definitions_of_shovels_and_not_their_status(
    open_visitor: Open, site: Site, vhost: str, name: Name
) -> None:
    user = name("planner")
    site.make_user(user, "policymaker", vhost)
    visitor = open_visitor()
    visitor.log_in(user)
    visitor.go("shovels")
    expect(visitor.page.get_by_role("heading", name="Definitions")).to_be_visible()
    expect(visitor.page.get_by_role("heading", name="Shovels", exact=True, level=2)).to_have_count(0)
    site.ask("DELETE", "users", user)
