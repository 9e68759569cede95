"""Logging in and out: which users may log in, their menus, and the data left after a logout."""

from collections.abc import Callable

from playwright.sync_api import expect

from tests.browser.conftest import Open
from tests.browser.site import Site
from tests.browser.visitor import Visitor


def ways(visitor: Visitor) -> list[str]:
    return visitor.page.locator("nav a").all_inner_texts()


def test_a_wrong_password_is_shown_beside_the_form_and_refused(open_visitor: Open) -> None:
    visitor = open_visitor()
    visitor.page.goto(visitor.site.url)
    visitor.page.get_by_label("User").fill("guest")
    visitor.page.get_by_label("Password").fill("wrong")
    with visitor.refused(401):
        visitor.page.get_by_role("button", name="Log in").click()
        expect(visitor.form("Log in").get_by_role("alert")).to_have_text("Login failed.")
    expect(visitor.page.locator("nav")).to_have_count(0)
    visitor.page.get_by_label("Password").fill("guest")
    visitor.page.keyboard.press("Enter")
    expect(visitor.heading).to_have_text("Overview")


def test_a_reload_stays_logged_in_and_another_window_is_asked(open_visitor: Open) -> None:
    visitor = open_visitor()
    visitor.log_in()
    visitor.page.reload()
    expect(visitor.heading).to_have_text("Overview")
    another = visitor.page.context.new_page()
    another.goto(visitor.site.url)
    expect(another.get_by_label("Password")).to_be_visible()


def test_nothing_of_the_credentials_outlives_a_logout(visitor: Visitor) -> None:
    page = visitor.page
    assert page.context.cookies() == []
    assert "guest" not in page.evaluate("JSON.stringify(localStorage)")
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_label("Password")).to_be_visible()
    assert page.evaluate("sessionStorage.length") == 0
    page.reload()
    expect(page.get_by_label("Password")).to_be_visible()


def test_a_user_who_is_deleted_meanwhile_is_asked_to_log_in_again(
    open_visitor: Open, site: Site, vhost: str, name: Callable[[str], str]
) -> None:
    user = name("leaver")
    site.make_user(user, "management", vhost)
    visitor = open_visitor()
    visitor.log_in(user)
    with visitor.refused(401):
        site.ask("DELETE", "users", user)
        visitor.go("queues")
        expect(visitor.page.get_by_role("status").filter(has_text="Please log in again.")).to_be_visible()
    expect(visitor.page.get_by_label("Password")).to_be_visible()


def test_a_user_without_a_tag_sees_why_the_login_is_refused(
    open_visitor: Open, site: Site, vhost: str, name: Callable[[str], str]
) -> None:
    user = name("tagless")
    site.make_user(user, "", vhost)
    visitor = open_visitor()
    visitor.page.goto(site.url)
    visitor.page.get_by_label("User").fill(user)
    visitor.page.get_by_label("Password").fill(user)
    with visitor.refused(401):
        visitor.page.get_by_role("button", name="Log in").click()
        expect(visitor.form("Log in").get_by_role("alert")).to_have_text("Not management user.")


def test_a_user_with_few_rights_is_offered_what_they_may_see(
    open_visitor: Open, site: Site, vhost: str, name: Callable[[str], str]
) -> None:
    user = name("few")
    site.make_user(user, "management", vhost)
    visitor = open_visitor()
    visitor.log_in(user)
    assert ways(visitor) == ["Overview", "Connections", "Channels", "Exchanges", "Queues", "Policies"]
    expect(visitor.page.get_by_role("heading", name="Nodes")).to_have_count(0)
    choices = visitor.page.get_by_label("Virtual host").locator("option")
    expect(choices).to_have_text(["All", vhost])
    for page in ("connections", "channels", "exchanges", "queues", "policies"):
        visitor.go(page)
        expect(visitor.heading).to_have_text(page.capitalize())
    expect(visitor.page.get_by_role("button", name="Save")).to_have_count(0)


def test_a_policymaker_is_offered_policies_but_not_operator_policies(
    open_visitor: Open, site: Site, vhost: str, name: Callable[[str], str]
) -> None:
    user = name("maker")
    site.make_user(user, "policymaker", vhost)
    visitor = open_visitor()
    visitor.log_in(user)
    visitor.go("policies")
    expect(visitor.page.locator("summary")).to_have_text(["Add or change a policy"])


def test_a_monitoring_user_sees_the_nodes(
    open_visitor: Open, site: Site, vhost: str, name: Callable[[str], str]
) -> None:
    user = name("watcher")
    site.make_user(user, "monitoring", vhost)
    visitor = open_visitor()
    visitor.log_in(user)
    expect(visitor.table("Nodes").locator("tbody tr")).to_have_count(1)
    assert "Users" not in ways(visitor)
