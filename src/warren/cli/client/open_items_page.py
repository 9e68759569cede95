"""Open items as an HTML page, and a small read-only HTTP server for it.

The server makes the page anew for each request. It listens on the loopback unless another host is given. On the
loopback it accepts only loopback names in the `host` header, which defeats DNS rebinding.

Not here: reading the items (`client.ledgers`).
"""

import ipaddress
import signal
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from warren.cli.client.open_table import age, due, summary
from warren.client.ledgers import OpenItem, Standing
from warren.client.ledgers.open_rows import MEANINGS
from warren.errors import ConfigError, WarrenError
from warren.pipeline.html.page import FactList, HtmlPage, HtmlTable, PagePart, PageSection, Paragraph, render, table

COLUMNS = ("Business id", "Kind", "Settles", "Exchange", "Routing key", "Attempts", "Amount", "Currency", "Age", "Due")


def page(standing: Standing, where: str, refresh_s: int = 0) -> str:
    """The HTML text; a browser reloads it every `refresh_s` seconds, unless that is 0."""
    lead = f"{where}, at {standing.at.isoformat(' ', 'seconds')}"
    sections = [PageSection("Summary", _summary(standing, where))]
    for count in standing.counts:
        if count.rows:
            parts = (Paragraph(MEANINGS[count.status]), _rows(standing, count.status, count.rows))
            sections.append(PageSection(f"{count.status.capitalize()} ({count.rows:,})", parts))
    return render(HtmlPage("Open in the outbox", lead, tuple(sections), refresh_s))


def _summary(standing: Standing, where: str) -> tuple[PagePart, ...]:
    pairs = tuple((count.status.capitalize(), f"{count.rows:,}") for count in standing.counts)
    overdue = sum(count.overdue for count in standing.counts)
    failed = next(count.rows for count in standing.counts if count.status == "failed")
    tone = "good" if not standing.rows else "bad" if failed else "warn" if overdue or _is_stuck(standing) else "plain"
    first = [(count.status, age(count.first_age_s)) for count in standing.counts if count.rows]
    ages = table("Since when", ("Status", "Age of the first"), first, right=("Age of the first",))
    sentence = Paragraph(f"{summary(standing, where)}." + (f" Receipts overdue: {overdue:,}." if overdue else ""), tone)
    return (sentence, FactList(pairs, large=True), *([ages] if first else []))


def _is_stuck(standing: Standing) -> bool:
    """Whether items wait to be sent and no relay is active."""
    return bool(standing.items_of("pending")) and not standing.is_relayed


def _rows(standing: Standing, status: str, total: int) -> HtmlTable:
    items = standing.items_of(status)
    rows = [(*_cells(item), age(item.age_s), due(item, standing.at), item.last_error) for item in items]
    right = ("Age", "Due")
    return table(
        f"Rows that are {status}", (*COLUMNS, "What was said"), rows, total=total, limit=len(rows), right=right
    )


def _cells(item: OpenItem) -> tuple[object, ...]:
    return (
        item.business_id,
        item.kind,
        item.settles,
        item.exchange or "(default)",
        item.routing_key,
        item.attempt,
        item.amount,
        item.currency,
    )


LOOPBACK = "127.0.0.1"
REFRESH_S = 5
IDLE_S = 10.0


@dataclass(frozen=True)
class PageContent:
    """A response."""

    kind: str
    text: str


PageSource = Callable[[str], PageContent | None]
"""The content of a path; None if there is none. A `WarrenError` is shown, and the next request tries again."""


class PageServer(ThreadingHTTPServer):
    """Listens from its construction on; `ConfigError` if it cannot."""

    daemon_threads = True

    def __init__(self, address: str, source: PageSource) -> None:
        host, port = address_of(address)
        self.source = source
        self.one_at_a_time = threading.Lock()
        self.answers_to = {host, "localhost"} if _is_loopback(host) else None
        try:
            self.address_family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
            super().__init__((host, port), PageHandler)
        except OSError as error:
            raise ConfigError(f"cannot listen on {address}: {error.strerror}; choose another with --serve") from None

    @property
    def url(self) -> str:
        host, port = self.server_address[:2]
        name = f"[{host!s}]" if self.address_family == socket.AF_INET6 else str(host)
        return f"http://{name}:{port}/"


class PageHandler(BaseHTTPRequestHandler):
    """One connection; a silent one is closed."""

    timeout = IDLE_S
    server: PageServer

    def do_GET(self) -> None:
        status, content = self._answer()
        octets = content.text.encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{content.kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(octets)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("X-Frame-Options", "DENY")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(octets)

    def do_HEAD(self) -> None:
        self.do_GET()

    def _answer(self) -> tuple[HTTPStatus, PageContent]:
        answers_to = self.server.answers_to
        if answers_to is not None and _host_of(self.headers.get("Host", "")) not in answers_to:
            return HTTPStatus.FORBIDDEN, PageContent("text/plain", "this page is served to the local host only\n")
        try:
            # parallel requests query the database one at a time
            with self.server.one_at_a_time:
                found = self.server.source(urlsplit(self.path).path)
        except WarrenError as error:
            return HTTPStatus.SERVICE_UNAVAILABLE, PageContent("text/plain", f"{error}\n")
        if found is None:
            return HTTPStatus.NOT_FOUND, PageContent("text/plain", "there is nothing here\n")
        return HTTPStatus.OK, found

    def log_message(self, format: str, *arguments: object) -> None:
        """No line for each request."""


def serve(address: str, source: PageSource) -> None:
    """Print the address and serve until SIGTERM or Ctrl-C."""
    with PageServer(address, source) as server:
        print(server.url, flush=True)

        def stop(*_: object) -> None:
            # shutdown waits for the loop that this signal interrupts, so it needs a thread
            threading.Thread(target=server.shutdown).start()

        before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            server.serve_forever(poll_interval=0.1)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def address_of(text: str) -> tuple[str, int]:
    """`PORT` on the loopback, or `HOST:PORT`."""
    host, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ConfigError(f"--serve is PORT or HOST:PORT, with a port from 0 to 65535, not {text!r}")
    return host.removeprefix("[").removesuffix("]") or LOOPBACK, int(port)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _host_of(header: str) -> str | None:
    try:
        return urlsplit(f"//{header}").hostname
    except ValueError:
        return None
