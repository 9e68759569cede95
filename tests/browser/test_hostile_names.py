"""Names with slashes, percent signs, markup and emoji are shown as they are, and lead where they say."""

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.browser.site import Site
from tests.browser.visitor import Visitor

NAMES = [
    "a/b",
    "100% %2F %",
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "\"quotes\" & 'ticks' ; ? # + =",
    "кролик 🐇 兎",
    "../../users",
    "x" * 255,
]


@pytest.mark.parametrize("strange", NAMES, ids=lambda text: text[:12])
def test_a_queue_of_any_name_is_listed_opened_and_deleted(
    visitor: Visitor, site: Site, vhost: str, strange: str
) -> None:
    site.make_queue(vhost, strange)
    visitor.go("queues")
    visitor.choose_vhost(vhost)
    visitor.row("Queues", strange).get_by_role("link").click()
    expect(visitor.heading).to_have_text(strange)
    expect(visitor.panel("Rules")).to_contain_text("running")
    visitor.panel("Purge or delete")
    visitor.page.get_by_role("button", name="Delete the queue").click()
    expect(visitor.page.get_by_role("dialog")).to_contain_text(strange)
    visitor.confirm("Delete")
    expect(visitor.heading).to_have_text("Queues")
    assert not site.exists("queues", vhost, strange)


def test_every_other_thing_may_have_such_a_name(visitor: Visitor, site: Site, name: Callable[[str], str]) -> None:
    strange = name("<b>50%/</b> 🐇")
    site.ask("PUT", "vhosts", strange, body={"description": "<i>deep</i>"})
    site.make_user(strange, "", strange)
    site.ask("PUT", "permissions", strange, "guest", body={"configure": ".*", "write": ".*", "read": ".*"})
    site.ask("PUT", "exchanges", strange, strange, body={"type": "topic"})
    site.make_queue(strange, strange)
    site.ask("POST", "bindings", strange, "e", strange, "q", strange, body={"routing_key": strange})
    site.ask("PUT", "policies", strange, strange, body={"pattern": "nothing", "definition": {"max-length": 1}})

    visitor.go("vhosts")
    visitor.row("Virtual hosts", strange).get_by_role("link").click()
    expect(visitor.heading).to_have_text(strange)
    expect(visitor.panel("Details")).to_contain_text("<i>deep</i>")
    visitor.row("Permissions", strange).get_by_role("link").click()
    expect(visitor.heading).to_have_text(strange)
    visitor.go("policies")
    expect(visitor.row("Policies", strange)).to_have_count(1)
    visitor.go("exchanges", strange, strange)
    row = visitor.row("Bindings from this exchange", f"{strange}")
    expect(row).to_have_count(1)
    row.get_by_role("button", name="Unbind").click()
    visitor.confirm("Unbind")
    expect(row).to_have_count(0)
    assert site.get("bindings", strange, "e", strange, "q", strange) == []
    site.ask("DELETE", "vhosts", strange)
    site.ask("DELETE", "users", strange)


def test_a_name_of_dots_is_refused_before_it_becomes_another_address(visitor: Visitor, vhost: str) -> None:
    visitor.go("queues", vhost, "..")
    expect(visitor.page.get_by_role("alert").filter(has_text="A name of dots alone")).to_be_visible()
