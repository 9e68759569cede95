"""The page of federation: upstreams are made, changed and deleted, links are seen and restarted."""

from collections.abc import Callable

from playwright.sync_api import expect

from tests.browser.site import Site
from tests.browser.visitor import Visitor


def test_an_upstream_is_made_its_link_seen_and_restarted_and_deleted(
    visitor: Visitor, site: Site, vhost: str, name: Callable[[str], str]
) -> None:
    upstream = name("up")
    site.ask("PUT", "exchanges", vhost, "fx", body={"type": "topic"})
    definition = {"federation-upstream": upstream}
    site.ask(
        "PUT", "policies", vhost, "fed", body={"pattern": "^fx$", "apply-to": "exchanges", "definition": definition}
    )
    visitor.go("federation")
    visitor.set_pace(1)
    expect(visitor.row("Links", "fx")).to_contain_text(f"the policy names the upstream '{upstream}'")

    visitor.panel("Add or change an upstream")
    form = visitor.form("Add or change an upstream")
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_role("alert")).to_have_text("Name is missing.")
    form.get_by_label("Virtual host").select_option(vhost)
    form.get_by_label("Name", exact=True).first.fill(upstream)
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_role("alert")).to_have_text("URIs are missing.")
    form.get_by_label("URIs").fill("amqp://guest:secret@")
    form.get_by_role("button", name="+ Exchange").click()
    form.get_by_label("Value").fill("source")
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_role("status")).to_have_text(f"The upstream “{upstream}” was set.")
    value = {"uri": "amqp://guest:secret@", "exchange": "source"}
    assert site.get("parameters", "federation-upstream", vhost, upstream)["value"] == value
    expect(visitor.row("Upstreams", upstream)).not_to_contain_text("secret")
    expect(visitor.row("Links", "fx")).to_contain_text("running")
    expect(visitor.row("Links", "fx")).to_contain_text("source")

    visitor.row("Links", "fx").get_by_role("button", name="Restart").click()
    expect(visitor.panel("Links").get_by_role("status")).to_have_text("The link of “fx” restarts.")
    expect(visitor.row("Links", "fx")).to_contain_text("running")

    visitor.row("Upstreams", upstream).get_by_role("button", name="Change").click()
    expect(form.get_by_label("URIs")).to_have_value("amqp://guest:secret@")
    form.get_by_label("URIs").fill("amqp://guest@\namqp://guest@/")
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_role("status")).to_have_text(f"The upstream “{upstream}” was set.")
    value = site.get("parameters", "federation-upstream", vhost, upstream)["value"]
    assert value == {"uri": ["amqp://guest@", "amqp://guest@/"], "exchange": "source"}

    visitor.row("Upstreams", upstream).get_by_role("button", name="Delete").click()
    visitor.confirm("Delete")
    expect(visitor.panel("Upstreams").get_by_role("status")).to_have_text(f"“{upstream}” was deleted.")
    assert not site.exists("parameters", "federation-upstream", vhost, upstream)


def test_a_wrong_upstream_is_refused_with_the_reason(
    visitor: Visitor, site: Site, vhost: str, name: Callable[[str], str]
) -> None:
    upstream = name("up")
    visitor.go("federation")
    visitor.panel("Add or change an upstream")
    form = visitor.form("Add or change an upstream")
    form.get_by_label("Virtual host").select_option(vhost)
    form.get_by_label("Name", exact=True).first.fill(upstream)
    form.get_by_label("URIs").fill("http://far")
    with visitor.refused(400):
        form.get_by_role("button", name="Save").click()
        expect(form.get_by_role("alert")).to_contain_text("not a valid URI")
    assert not site.exists("parameters", "federation-upstream", vhost, upstream)
