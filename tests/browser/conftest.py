"""A browser, a node, and a visitor of its pages."""

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.browser.site import Site
from tests.browser.visitor import ANSWER_DEADLINE_S, Visitor
from tests.support.node_process import NodeProcess

CHROMIUM = "/usr/bin/chromium"
QUIET = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip

Open = Callable[..., Visitor]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=1000 * ANSWER_DEADLINE_S)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    node = NodeProcess(tmp_path_factory.mktemp("node"))
    host, port = node.addresses["http"]
    try:
        yield Site(f"http://{host}:{port}/", node.amqp)
    except BaseException:
        node.kill()
        raise
    node.stop()


@pytest.fixture
def opened() -> list[Visitor]:
    """Windows of this test that are open."""
    return []


@pytest.fixture
def open_visitor(browser: Browser, site: Site, opened: list[Visitor]) -> Iterator[Open]:
    """Open windows, in which nothing may go wrong; `Visitor` takes the browser's options."""

    def start(**options: Any) -> Visitor:
        opened.append(Visitor(browser, site, **options))
        return opened[-1]

    yield start
    while opened:
        opened.pop().close()


@pytest.fixture
def visitor(open_visitor: Open) -> Visitor:
    """The default user, logged in, before a wide window."""
    visitor = open_visitor()
    visitor.log_in()
    return visitor


@pytest.fixture
def name() -> Callable[[str], str]:
    """Unique names."""
    return lambda word: f"{word}-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def vhost(site: Site, name: Callable[[str], str], opened: list[Visitor]) -> Iterator[str]:
    """A virtual host for one test."""
    made = name("pages")
    site.ask("PUT", "vhosts", made, body={})
    site.ask("PUT", "permissions", made, "guest", body={"configure": ".*", "write": ".*", "read": ".*"})
    yield made
    for visitor in opened:
        # a page that polls it would get 404
        visitor.leave()
    if site.exists("vhosts", made):
        site.ask("DELETE", "vhosts", made)
