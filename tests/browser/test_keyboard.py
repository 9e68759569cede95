"""All of it can be done without a mouse, and one always sees where one is."""

from playwright.sync_api import expect

from tests.browser.conftest import Open
from tests.browser.site import Site
from tests.browser.visitor import Visitor

STEPS_MAX = 150

_FOCUS_SHOWS = """() => {
  const here = document.activeElement;
  const look = getComputedStyle(here);
  return here === document.body || (look.outlineStyle !== "none" && parseFloat(look.outlineWidth) >= 2);
}"""


def step_to(visitor: Visitor, role: str, name: str, key: str = "Tab") -> None:
    """Tab until this has the focus; every stop on the way shows that it has it."""
    wanted = visitor.page.get_by_role(role, name=name, exact=True).first  # type: ignore[arg-type]
    for _ in range(STEPS_MAX):
        visitor.page.keyboard.press(key)
        assert visitor.page.evaluate(_FOCUS_SHOWS), visitor.page.evaluate(
            "document.activeElement.outerHTML.slice(0, 200)"
        )
        if wanted.evaluate("element => element === document.activeElement"):
            return
    raise AssertionError(f"no way to the {role} “{name}” by {key}")


def test_a_queue_is_added_and_deleted_by_keyboard_alone(open_visitor: Open, site: Site, vhost: str) -> None:
    visitor = open_visitor()
    keyboard = visitor.page.keyboard
    visitor.page.goto(site.url)
    expect(visitor.page.get_by_label("User")).to_be_focused()
    keyboard.type("guest")
    keyboard.press("Tab")
    keyboard.type("guest")
    keyboard.press("Enter")
    expect(visitor.heading).to_have_text("Overview")

    step_to(visitor, "link", "Queues")
    keyboard.press("Enter")
    expect(visitor.heading).to_have_text("Queues")
    expect(visitor.heading).to_be_focused()
    expect(visitor.page.get_by_role("region", name="Queues")).to_be_visible()
    for _ in range(STEPS_MAX):
        keyboard.press("Tab")
        if visitor.page.evaluate("document.activeElement.textContent") == "Add a queue":
            break
    keyboard.press("Enter")
    keyboard.press("Tab")
    keyboard.type(vhost)  # a select takes the name that is typed
    keyboard.press("Tab")
    keyboard.type("typed")
    step_to(visitor, "button", "+ Max length")
    keyboard.press("Enter")
    keyboard.type("12")
    keyboard.press("Enter")
    expect(visitor.form("Add a queue").get_by_role("status")).to_have_text("The queue “typed” was added.")
    assert site.get("queues", vhost, "typed")["arguments"] == {"x-max-length": 12}

    visitor.go("queues", vhost, "typed")
    expect(visitor.heading).to_be_focused()
    for _ in range(STEPS_MAX):
        keyboard.press("Tab")
        if visitor.page.evaluate("document.activeElement.textContent") == "Purge or delete":
            break
    keyboard.press("Enter")
    step_to(visitor, "button", "Delete the queue")
    keyboard.press("Enter")
    dialog = visitor.page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(visitor.page.get_by_role("button", name="Delete the queue")).to_be_focused()
    keyboard.press("Enter")
    keyboard.press("Tab")
    keyboard.press("Enter")
    expect(visitor.heading).to_have_text("Queues")
    assert not site.exists("queues", vhost, "typed")


def test_the_first_step_leads_past_the_ways_to_the_page(visitor: Visitor) -> None:
    visitor.page.reload()
    expect(visitor.heading).to_have_text("Overview")
    visitor.page.keyboard.press("Tab")
    skip = visitor.page.get_by_role("link", name="Skip to the page")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport()
    visitor.page.keyboard.press("Enter")
    expect(visitor.page.locator("main")).to_be_focused()
    visitor.page.keyboard.press("Tab")
    assert visitor.page.evaluate("document.querySelector('main').contains(document.activeElement)")


def test_a_list_is_sorted_by_keyboard_and_keeps_the_focus(visitor: Visitor, site: Site, vhost: str) -> None:
    for queue in ("one", "two"):
        site.make_queue(vhost, queue)
    visitor.go("queues")
    visitor.choose_vhost(vhost)
    expect(visitor.table("Queues").locator("tbody tr")).to_have_count(2)
    step_to(visitor, "button", "Name")
    visitor.page.keyboard.press("Enter")
    expect(visitor.table("Queues").locator("tbody th")).to_have_text(["two", "one"])
    expect(visitor.table("Queues").get_by_role("button", name="Name")).to_be_focused()
