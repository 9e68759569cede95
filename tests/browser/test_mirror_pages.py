"""Pages of mirrored queues: mirrors and their backfill; a button synchronises them."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.admin.three_nodes import Trio, eventually
from tests.browser.site import Site
from tests.browser.visitor import Visitor


@pytest.fixture(scope="module")
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trio]:
    """`work` is mirrored on the first node and, unsynchronised, on the third; `copied` on all."""
    made = Trio(tmp_path_factory.mktemp("trio") / "cluster", "--nodes", "3")
    place(made, [made.names[0]])
    with made[0].connect() as client:
        channel = client.channel()
        channel.queue_declare("copied", durable=True, arguments={"x-ha-mode": "all"})
        channel.queue_declare("work", durable=True)
        channel.confirm_delivery()
        for _ in range(5):
            channel.basic_publish("", "work", b"x")
    place(made, [made.names[0], made.names[2]])
    eventually(lambda: made[1].api.read("queues/%2F/work")["ring"]["catching_up"], bool)
    yield made
    made.run("down")


def place(trio: Trio, nodes: list[str]) -> None:
    policy = {"pattern": "^work$", "definition": {"ha-mode": "nodes", "ha-params": nodes}}
    assert trio[0].api.call("PUT", "policies/%2F/placed", policy).status in (201, 204)


@pytest.fixture
def operator(browser: Browser, trio: Trio) -> Iterator[Visitor]:
    """A visitor of the second node."""
    host, port = trio[1].addresses["http"]
    visitor = Visitor(browser, Site(f"http://{host}:{port}/", trio[1].addresses["amqp"]))
    visitor.log_in()
    visitor.set_pace(1)
    yield visitor
    visitor.close()


def test_the_list_shows_the_number_of_mirrors_and_marks_unsynchronised_ones(operator: Visitor, trio: Trio) -> None:
    operator.go("queues")
    good = operator.row("Queues", "copied").locator(".badge", has_text="+2")
    expect(good).to_have_class("badge good")
    assert set(trio.names[1:]) <= set(str(good.get_attribute("title")).replace(",", "").split())
    behind = operator.row("Queues", "work").locator(".badge", has_text="+1")
    expect(behind).to_have_class("badge warn")
    expect(behind).to_have_attribute("title", f"Not in sync: {trio.names[2]}")


def test_the_page_of_a_queue_synchronises_its_mirrors_and_shows_their_history(operator: Visitor, trio: Trio) -> None:
    operator.go("queues", "/", "work")
    mirrors = operator.panel("Master and mirrors")
    expect(mirrors).to_contain_text(trio.names[0])
    expect(mirrors.locator("dl")).to_contain_text("not in sync")
    expect(mirrors.get_by_role("button", name="Stop synchronising")).not_to_be_visible()
    mirrors.get_by_role("button", name="Synchronise", exact=True).click()
    expect(mirrors.locator("dl .badge")).to_have_text("in sync")
    expect(mirrors.get_by_role("button", name="Synchronise", exact=True)).not_to_be_visible()
    story = operator.table("Recent events")
    expect(story.locator("tbody tr").filter(has_text="is in sync")).to_contain_text(trio.names[2])
    expect(story.locator("tbody tr").filter(has_text="became the master")).to_contain_text("the queue was declared")


def test_the_page_of_a_queue_without_mirrors_has_no_such_part(operator: Visitor, trio: Trio) -> None:
    with trio[1].connect() as client:
        client.channel().queue_declare("plain", durable=True)
    operator.go("queues", "/", "plain")
    expect(operator.panel("Rules")).to_contain_text("running")
    expect(operator.page.get_by_role("heading", name="Master and mirrors")).not_to_be_visible()
