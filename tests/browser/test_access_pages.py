"""Users, virtual hosts, limits and policies: every form is used, and its effect is checked with the API."""

from collections.abc import Callable

from playwright.sync_api import expect

from tests.browser.site import Site
from tests.browser.visitor import Visitor

Name = Callable[[str], str]


def test_a_user_is_added_given_rights_and_deleted(visitor: Visitor, site: Site, vhost: str, name: Name) -> None:
    user = name("rabbit")
    visitor.go("users")
    visitor.panel("Add a user")
    form = visitor.form("Add a user")
    form.get_by_label("Name").fill(user)
    form.get_by_label("Password", exact=True).fill("carrot")
    form.get_by_label("Repeat password").fill("carot")
    form.get_by_role("button", name="Add user").click()
    expect(form.get_by_role("alert")).to_have_text("The two passwords differ.")
    form.get_by_label("Repeat password").fill("carrot")
    form.get_by_label("policymaker").check()
    form.get_by_role("button", name="Add user").click()
    expect(form.get_by_role("status")).to_contain_text("was added")
    assert site.get("users", user)["tags"] == ["policymaker"]
    expect(visitor.row("Users", user)).to_contain_text("no virtual host")

    visitor.page.get_by_role("link", name=user).click()
    expect(visitor.heading).to_have_text(user)
    permission = visitor.form("Set permission")
    permission.get_by_label("Virtual host").select_option(vhost)
    permission.get_by_label("Configure").fill("^mine-")
    permission.get_by_label("Write").fill("")
    permission.get_by_role("button", name="Set permission").click()
    expect(visitor.row("Permissions", vhost)).to_contain_text("^mine-")
    given = {"user": user, "vhost": vhost, "configure": "^mine-", "write": "", "read": ".*"}
    assert site.get("permissions", vhost, user) == given

    topics = visitor.form("Set topic permission")
    topics.get_by_label("Virtual host").select_option(vhost)
    topics.get_by_label("Write").fill("^news")
    topics.get_by_role("button", name="Set topic permission").click()
    expect(visitor.row("Topic permissions", vhost)).to_contain_text("^news")
    [topic] = site.get("users", user, "topic-permissions")
    assert (topic["exchange"], topic["write"], topic["read"]) == ("amq.topic", "^news", ".*")
    visitor.row("Topic permissions", vhost).get_by_role("button", name="Clear").click()
    visitor.confirm("Clear it")
    expect(visitor.row("Topic permissions", vhost)).to_have_count(0)
    visitor.row("Permissions", vhost).get_by_role("button", name="Clear").click()
    visitor.confirm("Clear it")
    expect(visitor.row("Permissions", vhost)).to_have_count(0)
    assert site.get("users", user, "permissions") == []

    visitor.go("users")
    visitor.row("Users", user).get_by_role("button", name="Delete").click()
    visitor.confirm("Delete")
    expect(visitor.row("Users", user)).to_have_count(0)
    assert not site.exists("users", user)


def test_tags_are_changed_without_the_password_and_the_password_without_tags(
    visitor: Visitor, site: Site, vhost: str, name: Name
) -> None:
    user = name("changing")
    site.make_user(user, "management", vhost)
    visitor.go("users", user)
    visitor.panel("Change tags or password")
    form = visitor.form("Change this user")
    expect(form.get_by_label("management")).to_be_checked()
    form.get_by_label("monitoring").check()
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_role("status")).to_contain_text("was changed")
    assert sorted(site.ask("GET", "whoami", user=user)["tags"]) == ["management", "monitoring"]

    form.get_by_label("Password", exact=True).select_option("set")
    form.get_by_label("New password").fill("other")
    form.get_by_label("Repeat password").fill("other")
    before = site.get("users", user)["password_hash"]
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_label("New password")).to_have_value("")
    changed = site.get("users", user)
    assert changed["password_hash"] != before
    assert sorted(changed["tags"]) == ["management", "monitoring"]

    visitor.panel("Delete this user")
    visitor.page.get_by_role("button", name="Delete the user").click()
    visitor.confirm("Delete")
    expect(visitor.heading).to_have_text("Users")
    assert not site.exists("users", user)


def test_limits_of_users_and_virtual_hosts_are_set_and_cleared(
    visitor: Visitor, site: Site, vhost: str, name: Name
) -> None:
    user = name("limited")
    site.make_user(user, "", vhost)
    visitor.go("limits")
    ofvhost = visitor.form("Set a limit of a virtual host")
    ofvhost.get_by_label("Virtual host").select_option(vhost)
    ofvhost.get_by_label("Limit").select_option("max-queues")
    ofvhost.get_by_label("At most").fill("7")
    ofvhost.get_by_role("button", name="Set limit").click()
    expect(visitor.row("Limits of virtual hosts", vhost)).to_contain_text("7")
    assert site.get("vhost-limits", vhost) == [{"vhost": vhost, "value": {"max-queues": 7}}]
    ofuser = visitor.form("Set a limit of a user")
    ofuser.get_by_label("User").fill(user)
    ofuser.get_by_label("At most").fill("3")
    ofuser.get_by_role("button", name="Set limit").click()
    expect(visitor.row("Limits of users", user)).to_contain_text("3")
    assert site.get("user-limits", user) == [{"user": user, "value": {"max-connections": 3}}]
    visitor.row("Limits of users", user).get_by_role("button", name="Clear").click()
    expect(visitor.row("Limits of users", user)).to_have_count(0)
    visitor.row("Limits of virtual hosts", vhost).get_by_role("button", name="Clear").click()
    expect(visitor.row("Limits of virtual hosts", vhost)).to_have_count(0)
    assert [limits["value"] for limits in site.get("vhost-limits", vhost) if limits["value"]] == []
    site.ask("DELETE", "users", user)


def test_a_virtual_host_is_added_traced_and_deleted(visitor: Visitor, site: Site, name: Name) -> None:
    vhost = name("burrow")
    visitor.go("vhosts")
    visitor.panel("Add a virtual host")
    form = visitor.form("Add a virtual host")
    form.get_by_label("Name").fill(vhost)
    form.get_by_label("Description").fill("under the oak")
    form.get_by_label("Tags").fill("deep, warm")
    form.get_by_role("button", name="Add virtual host").click()
    expect(visitor.row("Virtual hosts", vhost)).to_contain_text("under the oak")
    expect(visitor.page.get_by_role("region", name="Choices").locator("option", has_text=vhost)).to_have_count(1)
    made = site.get("vhosts", vhost)
    assert (made["description"], made["tags"]) == ("under the oak", ["deep", "warm"])

    visitor.page.get_by_role("link", name=vhost).click()
    expect(visitor.heading).to_have_text(vhost)
    visitor.page.get_by_role("button", name="Switch tracing on").click()
    expect(visitor.page.get_by_role("button", name="Switch tracing off")).to_be_visible()
    assert site.get("vhosts", vhost)["tracing"] is True
    visitor.page.get_by_role("button", name="Switch tracing off").click()
    expect(visitor.page.get_by_role("button", name="Switch tracing on")).to_be_visible()
    assert site.get("vhosts", vhost)["tracing"] is False

    permission = visitor.form("Set permission")
    permission.get_by_label("User").fill("guest")
    permission.get_by_label("Read").fill("^seen")
    permission.get_by_role("button", name="Set permission").click()
    expect(visitor.row("Permissions", "guest")).to_contain_text("^seen")

    visitor.panel("Delete this virtual host")
    deleting = visitor.form("Delete this virtual host")
    deleting.get_by_label("Type its name").fill("another")
    deleting.get_by_role("button", name="Delete the virtual host").click()
    expect(deleting.get_by_role("alert")).to_have_text("The name does not match.")
    deleting.get_by_label("Type its name").fill(vhost)
    deleting.get_by_role("button", name="Delete the virtual host").click()
    visitor.confirm("Delete everything")
    expect(visitor.heading).to_have_text("Virtual hosts")
    assert not site.exists("vhosts", vhost)


def test_a_policy_is_added_changed_and_deleted(visitor: Visitor, site: Site, vhost: str, name: Name) -> None:
    policy = name("short")
    visitor.go("policies")
    visitor.panel("Add or change a policy")
    form = visitor.form("Add or change: policy")
    form.get_by_label("Virtual host").select_option(vhost)
    form.get_by_label("Name", exact=True).first.fill(policy)
    form.get_by_label("Pattern").fill("(")
    form.get_by_label("Applies to").select_option("queues")
    form.get_by_label("Priority").fill("4")
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_role("alert")).to_have_text("The definition is empty.")
    form.get_by_role("button", name="+ Max length", exact=True).click()
    form.get_by_label("Value").last.fill("10")
    with visitor.refused(400):
        form.get_by_role("button", name="Save").click()
        expect(form.get_by_role("alert")).to_contain_text("Validation failed")
    form.get_by_label("Pattern").fill("^short")
    form.get_by_role("button", name="Save").click()
    row = visitor.row("Policies", policy)
    expect(row).to_contain_text("max-length: 10")
    saved = site.get("policies", vhost, policy)
    assert (saved["pattern"], saved["apply-to"], saved["priority"]) == ("^short", "queues", 4)

    row.get_by_role("button", name="Change").click()
    expect(form.get_by_label("Value")).to_have_value("10")
    form.get_by_label("Value").fill("20")
    form.get_by_role("button", name="Save").click()
    expect(row).to_contain_text("max-length: 20")
    assert site.get("policies", vhost, policy)["definition"] == {"max-length": 20}
    row.get_by_role("button", name="Delete").click()
    visitor.confirm("Delete")
    expect(row).to_have_count(0)
    assert not site.exists("policies", vhost, policy)


def test_an_operator_policy_is_added_and_deleted(visitor: Visitor, site: Site, vhost: str, name: Name) -> None:
    policy = name("firm")
    visitor.go("policies")
    visitor.panel("Add or change an operator policy")
    form = visitor.form("Add or change: operator policy")
    form.get_by_label("Virtual host").select_option(vhost)
    form.get_by_label("Name", exact=True).first.fill(policy)
    form.get_by_label("Pattern").fill(".*")
    form.get_by_role("button", name="+ Expires").click()
    form.get_by_label("Value").last.fill("3600000")
    form.get_by_role("button", name="Save").click()
    row = visitor.row("Operator policies", policy)
    expect(row).to_contain_text("expires: 3600000")
    assert site.get("operator-policies", vhost, policy)["definition"] == {"expires": 3600000}
    row.get_by_role("button", name="Delete").click()
    visitor.confirm("Delete")
    expect(row).to_have_count(0)
