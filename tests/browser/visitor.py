"""A visitor with a browser, which reports every error of the browser.

Invariant: a page that writes an error or a warning to the console, throws, breaks the content security policy or asks
another host fails the test it was opened in. The browser notes every refusal of the API in the console; only those a
test expects (`Visitor.refused`) are allowed.

Not here: the expected contents of pages.
"""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Dialog, Locator, Page, Request, expect

from tests.browser.site import Site

ANSWER_DEADLINE_S = 30.0
# a page that refreshes itself during a step may ask for an object just deleted; tests that want that set a pace
_CALM = """
if (location.protocol.startsWith("http") && !localStorage.getItem("warren.pace")) {
  localStorage.setItem("warren.pace", "60");
}
"""
_REFUSAL = re.compile(r"the server responded with a status of (\d+)")


class Visitor:
    """A browser window of its own, with storage of its own."""

    def __init__(self, browser: Browser, site: Site, **options: Any) -> None:
        self.site = site
        self.complaints: list[str] = []
        self._forgiven: set[int] = set()
        self._cut_off = False
        # another host that the pages may ask: where users log in
        self.issuer = ""
        self._unanswered: set[Request] = set()
        self._context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        self._context.set_default_timeout(1000 * ANSWER_DEADLINE_S)
        self._context.add_init_script(_CALM)
        self.page: Page = self._context.new_page()
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.complaints.append(f"thrown: {error}"))
        self.page.on("request", self._asked)
        self.page.on("requestfinished", self._answered)
        self.page.on("requestfailed", self._answered)
        self.page.on("dialog", self._interrupted)

    def leave(self) -> None:
        """For a page that makes no requests."""
        self.page.goto("about:blank")

    def close(self) -> None:
        self._context.close()
        assert self.complaints == [], self.complaints

    def log_in(self, user: str = "guest", password: str | None = None) -> None:
        """By the form, as people do."""
        self.page.goto(self.site.url)
        self.page.get_by_label("User").fill(user)
        self.page.get_by_label("Password").fill(user if password is None else password)
        self.page.get_by_role("button", name="Log in").click()
        expect(self.heading).to_have_text("Overview")

    def go(self, *names: str, query: str = "") -> None:
        """To a page of the pages, by its address."""
        self.page.goto(f"{self.site.url}#/" + "/".join(quote(name, safe="") for name in names) + query)

    def choose_vhost(self, vhost: str) -> None:
        """Confine the lists to a virtual host; the page is shown anew, and settled when this returns."""
        self.page.get_by_role("region", name="Choices").get_by_label("Virtual host").select_option(vhost)
        self.settle()

    def set_pace(self, seconds: int) -> None:
        """How often the page asks; 0 is by hand. It asks at once."""
        self.page.get_by_role("region", name="Choices").get_by_label("Update").select_option(str(seconds))

    def settle(self) -> None:
        """Wait until the page shows what it asked for."""
        expect(self.page.locator("main")).to_have_attribute("aria-busy", "false")

    def wait_for_answers(self) -> None:
        """Nothing that was asked is unanswered any more; a page that polls has such moments."""
        self._wait_until(lambda: not self._unanswered, "a request has no answer")

    def _wait_until(self, condition: Callable[[], bool], complaint: str) -> None:
        deadline = time.monotonic() + ANSWER_DEADLINE_S
        while not condition():
            assert time.monotonic() < deadline, (complaint, [request.url for request in self._unanswered])
            self.page.wait_for_timeout(20)

    @property
    def heading(self) -> Locator:
        return self.page.locator("main h1")

    def panel(self, title: str) -> Locator:
        """A part of the page with this heading, unfolded if it is folded."""
        found = self.page.locator("main section.panel, main details.panel").filter(
            has=self.page.get_by_role("heading", name=title, exact=True)
        )
        expect(found).to_have_count(1)
        if found.evaluate("part => part.tagName === 'DETAILS' && !part.open"):
            found.locator("summary").first.click()
        return found

    def form(self, label: str) -> Locator:
        return self.page.get_by_role("form", name=label, exact=True)

    def table(self, caption: str) -> Locator:
        return self.page.get_by_role("table", name=caption, exact=True)

    def row(self, caption: str, name: str) -> Locator:
        """The row with `name` in its first cell."""
        return self.table(caption).locator("tbody tr").filter(has=self.page.locator("th").get_by_text(name, exact=True))

    def confirm(self, action: str) -> None:
        """Say yes to the question that is asked."""
        dialog = self.page.get_by_role("dialog")
        dialog.get_by_role("button", name=action, exact=True).click()
        expect(dialog).to_have_count(0)

    @contextmanager
    def refused(self, status: int) -> Iterator[None]:
        """Within, the API may refuse something with this status, and must."""
        before = len(self.complaints)
        self._forgiven.add(status)
        self._seen_refusals = 0
        yield
        self._wait_until(lambda: self._seen_refusals > 0, f"nothing was refused with {status}")
        self.wait_for_answers()
        self._forgiven.discard(status)
        assert self.complaints[before:] == [], self.complaints[before:]

    @contextmanager
    def unreachable(self) -> Iterator[None]:
        """Within, nothing that is asked of the API reaches the node; for a page that asks again and again."""
        self._cut_off = True
        self.page.route("**/api/**", lambda route: route.abort("connectionrefused"))
        yield
        with self.page.expect_response("**/api/**"):
            self.page.unroute("**/api/**")
        self._cut_off = False

    def _heard(self, message: ConsoleMessage) -> None:
        refusal = _REFUSAL.search(message.text)
        if refusal and int(refusal[1]) in self._forgiven:
            self._seen_refusals += 1
        elif self._cut_off and "ERR_CONNECTION_REFUSED" in message.text:
            return
        elif message.type in {"error", "warning"}:
            self.complaints.append(f"{message.type}: {message.text}")

    def _answered(self, request: Request) -> None:
        self._unanswered.discard(request)

    def _asked(self, request: Request) -> None:
        self._unanswered.add(request)
        where = urlsplit(request.url)
        known = {urlsplit(self.site.url).netloc, urlsplit(self.issuer).netloc}
        if where.scheme not in {"data", "blob"} and where.netloc not in known:
            self.complaints.append(f"asked another host: {request.url}")

    def _interrupted(self, dialog: Dialog) -> None:
        self.complaints.append(f"the browser's own dialog: {dialog.message}")
        dialog.dismiss()
