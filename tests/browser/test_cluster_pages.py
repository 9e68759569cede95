"""Pages of a cluster: its nodes at a glance, and where each thing lives."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.admin.three_nodes import Trio
from tests.browser.site import Site
from tests.browser.visitor import Visitor


@pytest.fixture(scope="module")
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trio]:
    made = Trio(tmp_path_factory.mktemp("trio") / "cluster")
    with made[1].connect("client of the second") as client:
        client.channel().queue_declare("of the second", durable=True)
        yield made
    made.run("down")


@pytest.fixture
def operator(browser: Browser, trio: Trio) -> Iterator[Visitor]:
    """A visitor of the first node."""
    host, port = trio[0].addresses["http"]
    visitor = Visitor(browser, Site(f"http://{host}:{port}/", trio[0].addresses["amqp"]))
    visitor.log_in()
    visitor.set_pace(1)
    yield visitor
    visitor.close()


def test_lists_show_the_node_where_each_thing_lives(operator: Visitor, trio: Trio) -> None:
    operator.go("queues")
    expect(operator.row("Queues", "of the second")).to_contain_text(trio.names[1])
    operator.go("connections")
    expect(operator.row("Connections", "client of the second")).to_contain_text(trio.names[1])


def test_the_page_of_a_queue_is_the_same_from_another_node(operator: Visitor, trio: Trio) -> None:
    operator.go("queues", "/", "of the second")
    rules = operator.panel("Rules")
    expect(rules).to_contain_text(trio.names[1])
    expect(rules).to_contain_text("running")


def test_every_page_says_which_node_does_not_answer(operator: Visitor, trio: Trio) -> None:
    operator.go("connections")
    said = operator.page.get_by_role("status").filter(has_text=f"No response from {trio.names[1]}")
    expect(operator.row("Connections", "client of the second")).to_be_visible()
    trio.run("pause", "n2")
    try:
        expect(said).to_be_visible()
        expect(operator.row("Connections", "client of the second")).not_to_be_visible()
        operator.go("queues")
        expect(said).to_be_visible()
        expect(operator.row("Queues", "of the second")).to_contain_text("down")
    finally:
        trio.run("resume", "n2")
    expect(said).not_to_be_visible()


def test_the_overview_shows_every_node_and_the_nodes_that_are_down(operator: Visitor, trio: Trio) -> None:
    for name, kind in zip(trio.names, ("disc", "disc", "ram"), strict=True):
        row = operator.row("Nodes", name)
        expect(row).to_contain_text(kind)
        expect(row).to_contain_text("running")
        expect(row.locator("td").nth(2)).to_have_text("2")
    trio.run("kill", "n3")
    expect(operator.row("Nodes", trio.names[2])).to_contain_text("not running")
    expect(operator.page.get_by_role("alert").filter(has_text=f"{trio.names[2]} is not running.")).to_be_visible()
