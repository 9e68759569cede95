"""Questions to a web server, on either event loop: what is an answer, what is none, and which connection is kept."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.node.certificate_files import Authority, self_signed
from tests.support.auth_web_server import Answer, AuthWebServer, Question
from tests.unit.node.shell import LOOPS, run_on
from warren.broker.model.effects import AskWebServer
from warren.broker.model.events import Event, WebServerAnswered
from warren.node.http_auth import KEPT_CONNECTIONS_MAX, RESPONSE_BYTES_MAX, HttpAuth, HttpAuthSettings
from warren.node.tls import TlsSettings

pytestmark = pytest.mark.parametrize("loop_name", LOOPS)
GOOD = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nallow"
ALICE = [("username", "alice"), ("password", "a&b=c d/é\n")]


def settings_for(port: int, scheme: str = "http", host: str = "localhost", **others: object) -> HttpAuthSettings:
    urls = {about: f"{scheme}://{host}:{port}/auth/{about}" for about in ("user", "vhost", "resource", "topic")}
    return replace(HttpAuthSettings(urls=urls), **others)  # type: ignore[arg-type]


class Asker:
    """`HttpAuth`, and its answers."""

    def __init__(self, settings: HttpAuthSettings) -> None:
        self.settings = settings
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self.http = HttpAuth(settings, asyncio.get_running_loop(), self._events.put_nowait)

    def order(self, ticket: int = 1, about: str = "user") -> None:
        self.http.orders()[AskWebServer](AskWebServer(ticket, about, ALICE))

    async def event(self) -> WebServerAnswered:
        event = await asyncio.wait_for(self._events.get(), 60)
        assert isinstance(event, WebServerAnswered)
        return event

    async def ask(self) -> tuple[str, str]:
        """The answer, and the fault."""
        self.order()
        event = await self.event()
        return event.answer, event.fault


class RawServer:
    """Answers each request of each connection with the next bytes; `b""` closes the connection first."""

    def __init__(self, replies: Sequence[bytes]) -> None:
        self._replies = list(replies)
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while self._replies:
                await reader.readuntil(b"\r\n\r\n")
                reply = self._replies.pop(0)
                writer.write(reply)
                if not reply or b"connection: close" in reply:
                    break
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()


@asynccontextmanager
async def raw_server(*replies: bytes) -> AsyncIterator[tuple[RawServer, Asker]]:
    raw = RawServer(replies)
    server = await asyncio.start_server(raw.serve, "127.0.0.1", 0)
    asker = Asker(settings_for(server.sockets[0].getsockname()[1], host="127.0.0.1"))
    try:
        yield raw, asker
    finally:
        asker.http.close()
        server.close()


def answer_of(loop_name: str, settings: HttpAuthSettings) -> tuple[str, str]:
    """The answer to one question, and the fault."""

    async def conversation() -> tuple[str, str]:
        asker = Asker(settings)
        try:
            return await asker.ask()
        finally:
            asker.http.close()

    return result_of(loop_name, conversation)


def result_of(loop_name: str, conversation: Callable[[], Awaitable[tuple[str, str]]]) -> tuple[str, str]:
    results: list[tuple[str, str]] = []

    async def keep() -> None:
        results.append(await conversation())

    run_on(loop_name, keep())
    return results[0]


# -- answers


@pytest.mark.parametrize("method", ["get", "post"])
def test_the_parameters_arrive_as_they_are(loop_name: str, method: str) -> None:
    with AuthWebServer(lambda question: Answer(" Allow Administrator ")) as server:
        assert answer_of(loop_name, settings_for(server.port, method=method)) == ("allow administrator", "")
    assert server.questions == [Question(method.upper(), "user", tuple(ALICE))]


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        (GOOD, "allow"),
        (GOOD.replace(b"200 OK", b"201 Created"), "allow"),
        (b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\ndeny", "deny"),
        (b"HTTP/1.0 200 OK\r\nconnection: close\r\n\r\ndeny", "deny"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nall\r\n2\r\now\r\n0\r\n\r\n", "allow"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", ""),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nallow\n", "allow\n"),
    ],
)
def test_the_text_of_a_good_response_is_the_answer(loop_name: str, reply: bytes, answer: str) -> None:
    async def conversation() -> tuple[str, str]:
        async with raw_server(reply) as (_server, asker):
            return await asker.ask()

    assert result_of(loop_name, conversation) == (answer, "")


@pytest.mark.parametrize(
    ("reply", "fault"),
    [
        (GOOD.replace(b"200 OK", b"403 Forbidden"), "the response has the status 403"),
        (GOOD.replace(b"200 OK", b"302 Found\r\nlocation: /other"), "the response has the status 302"),
        (GOOD.replace(b"200 OK", b"500 Oops"), "the response has the status 500"),
        (b"", "the connection was closed without a response"),
        (b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 50\r\n\r\nallow", "the response is incomplete"),
        (
            b"HTTP/1.1 200 OK\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n5\r\nallow",
            "the response is incomplete",
        ),
        (b"220 smtp.example.com ready\r\n", "the response is not HTTP"),
        (GOOD + GOOD, "there is more than one response"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n\xff\xfe", "the answer is not text"),
        (
            b"HTTP/1.1 200 OK\r\ncontent-length: 99999\r\n\r\nallow" + b" x" * RESPONSE_BYTES_MAX,
            f"the response is larger than {RESPONSE_BYTES_MAX} bytes",
        ),
        (
            b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * RESPONSE_BYTES_MAX,
            f"the response is larger than {RESPONSE_BYTES_MAX} bytes",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_anything_else_is_no_answer(loop_name: str, reply: bytes, fault: str) -> None:
    async def conversation() -> tuple[str, str]:
        async with raw_server(reply) as (_server, asker):
            return await asker.ask()

    assert result_of(loop_name, conversation) == ("", fault)


def test_a_silent_web_server_is_not_waited_for(loop_name: str) -> None:
    async def conversation() -> None:
        # the server waits for a second request
        async with raw_server(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nall", GOOD) as (server, asker):
            hurried = Asker(replace(asker.settings, request_timeout_ms=50))
            assert await hurried.ask() == ("", "no response within 0.05 s")
            assert await asker.ask() == ("allow", "")
            assert server.connections == 2
            hurried.http.close()

    run_on(loop_name, conversation())


def test_a_dead_web_server_is_a_fault_at_once(loop_name: str) -> None:
    with AuthWebServer() as server:
        port = server.port
    answer, fault = answer_of(loop_name, settings_for(port, host="127.0.0.1"))
    assert (answer, bool(fault)) == ("", True)


def test_a_host_that_has_no_address_is_a_fault(loop_name: str) -> None:
    answer, fault = answer_of(loop_name, settings_for(80, host="no-such-host.invalid"))
    assert (answer, bool(fault)) == ("", True)


def test_many_questions_are_asked_at_the_same_time(loop_name: str) -> None:
    async def conversation() -> None:
        asker = Asker(settings_for(server.port))
        for ticket in range(2 * KEPT_CONNECTIONS_MAX):
            asker.order(ticket, "vhost")
        events = [await asker.event() for _ in range(2 * KEPT_CONNECTIONS_MAX)]
        assert sorted(event.ticket for event in events) == list(range(2 * KEPT_CONNECTIONS_MAX))
        assert {(event.about, event.answer) for event in events} == {("vhost", "allow")}
        asker.http.close()

    with AuthWebServer() as server:
        run_on(loop_name, conversation())


# -- kept connections


def test_one_connection_serves_one_question_after_the_other(loop_name: str) -> None:
    async def conversation() -> None:
        async with raw_server(*[GOOD] * 5) as (server, asker):
            assert [await asker.ask() for _ in range(5)] == [("allow", "")] * 5
            assert server.connections == 1

    run_on(loop_name, conversation())


def test_a_kept_connection_that_the_web_server_closed_is_replaced(loop_name: str) -> None:
    async def conversation() -> None:
        async with raw_server(GOOD, b"", GOOD) as (server, asker):
            assert [await asker.ask() for _ in range(2)] == [("allow", "")] * 2
            assert server.connections == 2

    run_on(loop_name, conversation())


@pytest.mark.parametrize("reply", [GOOD + GOOD, GOOD.replace(b"200", b"500"), GOOD + b"more"])
def test_a_connection_in_doubt_is_not_used_again(loop_name: str, reply: bytes) -> None:
    async def conversation() -> None:
        async with raw_server(reply, GOOD) as (server, asker):
            assert (await asker.ask())[0] == ""
            assert await asker.ask() == ("allow", "")
            assert server.connections == 2

    run_on(loop_name, conversation())


# -- TLS


def test_the_certificate_of_the_web_server_is_verified(loop_name: str, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    trusted = TlsSettings(cacertfile=authority.path)
    with AuthWebServer(certificate=(authority.server.certificate, authority.server.key)) as server:
        assert answer_of(loop_name, settings_for(server.port, "https", tls=trusted)) == ("allow", "")
        answer, fault = answer_of(loop_name, settings_for(server.port, "https"))
        assert answer == ""
        assert fault.startswith("the certificate is not accepted: ")
    assert len(server.questions) == 1


def test_the_name_in_the_certificate_is_verified(loop_name: str, tmp_path: Path) -> None:
    stranger = self_signed(tmp_path, "elsewhere.example.com")
    trusted = TlsSettings(cacertfile=stranger.certificate)
    with AuthWebServer(certificate=(stranger.certificate, stranger.key)) as server:
        answer, fault = answer_of(loop_name, settings_for(server.port, "https", tls=trusted))
    assert (answer, fault.startswith("the certificate is not accepted: ")) == ("", True)
    assert server.questions == []
