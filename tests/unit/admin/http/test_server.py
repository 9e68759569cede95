"""The HTTP server against clients that are slow, many, or send garbage."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
import uvloop

from tests.support.background import background_tasks
from warren.admin.http.quotas import BUFFERED_BYTES_MAX, UNCOUNTED_BYTES, BodyBudget
from warren.admin.http.server import PIPELINED_MAX, HttpServer
from warren.admin.http.settings import BODY_BYTES_MAX, HttpLimits
from warren.admin.loop_holds import LoopHolds
from warren.broker.access.backends import address_block

DEADLINE_S = 30.0
PATIENCE = HttpLimits(connections_max=4)
# each shortens only the timeout under test
HASTE_WITH_HEADS = replace(PATIENCE, request_timeout_s=0.2, look_every_s=0.02)
HASTE_WITH_BODIES = replace(PATIENCE, body_timeout_s=0.5, look_every_s=0.02)
HASTE_WITH_ANSWERS = replace(PATIENCE, unread_patience_s=0.2, look_every_s=0.02)
LARGE = b"x" * (64 * 1024 * 1024)
ROOMY = replace(PATIENCE, connections_max=16)
HALF_BYTES = BUFFERED_BYTES_MAX // 2 + UNCOUNTED_BYTES - 1
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class SilentLog:
    def warning(self, event: str, **fields: object) -> None: ...


class Served:
    """A server that echoes requests; `/large` responds with more than sockets buffer."""

    def __init__(self, limits: HttpLimits, balancer: str = "") -> None:
        self._balancer = balancer
        self.bodies: list[bytes] = []
        self.headers: list[tuple[bytes, bytes]] = []
        self._limits = limits
        self.budget = BodyBudget(BODY_BYTES_MAX)

    async def app(self, scope: dict[str, Any], receive: Callable[[], Awaitable[Any]], send: Any) -> None:
        body = b""
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message["body"]
            more = message["more_body"]
        self.bodies.append(body)
        self.headers = scope["headers"]
        answer = LARGE if scope["path"] == "/large" else body
        headers = [(b"content-length", str(len(answer)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        holds = LoopHolds("request.slow", SilentLog())
        self.http = HttpServer(self.app, loop, self._limits, self.budget, holds, lambda host: host == self._balancer)
        self.http.start(background_tasks())
        self._listener = await loop.create_server(self.http.accept, "127.0.0.1", 0)
        self.port = self._listener.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        self._listener.close()
        self.http.close()
        self.http.drop()
        async with asyncio.timeout(DEADLINE_S):
            while self.http.connection_count():
                await asyncio.sleep(0.01)

    async def connect(self, host: str = "127.0.0.1") -> Streams:
        """From an address of this machine."""
        return await asyncio.open_connection("127.0.0.1", self.port, local_addr=(host, 0))


def serving(
    conversation: Callable[[Served], Coroutine[Any, Any, None]], limits: HttpLimits = PATIENCE, balancer: str = ""
) -> None:
    async def whole() -> None:
        served = Served(limits, balancer)
        await served.start()
        try:
            async with asyncio.timeout(DEADLINE_S):
                await conversation(served)
        finally:
            await served.stop()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(whole())


async def told(streams: Streams) -> bytes:
    """Everything that the server sends until it closes the connection."""
    said = b""
    with suppress(ConnectionError):
        while piece := await streams[0].read(65536):
            said += piece
    streams[1].close()
    return said


def request(method: str = "GET", path: str = "/", headers: str = "", body: bytes = b"") -> bytes:
    length = f"content-length: {len(body)}\r\n" if body else ""
    return f"{method} {path} HTTP/1.1\r\nhost: x\r\n{length}{headers}\r\n".encode() + body


@pytest.mark.parametrize("begun", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nhost: x\r\n"])
def test_a_head_that_does_not_come_is_given_up(begun: bytes) -> None:
    async def conversation(served: Served) -> None:
        streams = await served.connect()
        streams[1].write(begun)
        assert (await told(streams)).startswith(b"HTTP/1.1 408 ")

    serving(conversation, HASTE_WITH_HEADS)


def test_a_head_that_trickles_is_given_up() -> None:
    async def conversation(served: Served) -> None:
        streams = await served.connect()
        answer = asyncio.create_task(told(streams))
        while not answer.done():
            streams[1].write(b"x")
            await asyncio.sleep(0.02)
        assert answer.result().startswith((b"HTTP/1.1 408 ", b"HTTP/1.1 400 "))

    serving(conversation, HASTE_WITH_HEADS)


def test_a_client_that_does_not_wait_for_responses_is_refused() -> None:
    async def conversation(served: Served) -> None:
        streams = await served.connect()
        streams[1].write(request() * 1000)
        assert b"HTTP/1.1 400 " in await told(streams)
        assert len(served.bodies) <= PIPELINED_MAX + 1
        patient = await served.connect()
        patient[1].write(request() * PIPELINED_MAX + request(headers="connection: close\r\n"))
        assert (await told(patient)).count(b"HTTP/1.1 200 ") == PIPELINED_MAX + 1

    serving(conversation)


def test_a_body_that_trickles_is_given_up() -> None:
    async def conversation(served: Served) -> None:
        streams = await served.connect()
        streams[1].write(request("PUT", headers="content-length: 1000\r\n"))
        answer = asyncio.create_task(told(streams))
        while not answer.done():
            streams[1].write(b"x")
            await asyncio.sleep(0.02)
        assert answer.result().startswith(b"HTTP/1.1 408 ")
        assert served.bodies == []

    serving(conversation, HASTE_WITH_BODIES)


def test_a_large_body_that_comes_steadily_has_no_more_time_than_a_small_one() -> None:
    async def conversation(served: Served) -> None:
        streams = await served.connect()
        streams[1].write(request("PUT", headers="content-length: 15000000\r\n"))
        answer = asyncio.create_task(told(streams))
        while not answer.done():
            streams[1].write(b"x" * 1000)
            await asyncio.sleep(0.01)
        assert answer.result().startswith(b"HTTP/1.1 408 ")
        assert served.bodies == []

    serving(conversation, HASTE_WITH_BODIES)


async def send_large_body(served: Served, host: str) -> Streams:
    """All but the end of it; a body of this size uses half of the budget."""
    streams = await served.connect(host)
    before = served.budget.buffered_bytes
    streams[1].write(request("PUT", headers=f"content-length: {HALF_BYTES + 1}\r\nconnection: close\r\n"))
    streams[1].write(bytes(HALF_BYTES))
    while served.budget.buffered_bytes < before + HALF_BYTES:
        await asyncio.sleep(0.01)
    return streams


def test_large_bodies_share_a_budget_and_small_ones_need_none() -> None:
    async def conversation(served: Served) -> None:
        first = await send_large_body(served, "127.0.0.1")
        greedy = await served.connect("127.0.0.1")
        greedy[1].write(request("PUT", body=bytes(3 * UNCOUNTED_BYTES)))
        assert (await told(greedy)).startswith(b"HTTP/1.1 503 ")
        second = await send_large_body(served, "127.0.0.2")
        third = await served.connect("127.0.0.3")
        third[1].write(request("PUT", body=bytes(3 * UNCOUNTED_BYTES)))
        assert (await told(third)).startswith(b"HTTP/1.1 503 ")
        small = await served.connect("127.0.0.3")
        small[1].write(request("PUT", headers="connection: close\r\n", body=bytes(UNCOUNTED_BYTES)))
        assert (await told(small)).startswith(b"HTTP/1.1 200 ")
        first[1].write(b"x")
        assert (await told(first)).startswith(b"HTTP/1.1 200 ")
        second[1].close()
        while served.budget.buffered_bytes:
            await asyncio.sleep(0.01)

    serving(conversation, ROOMY)


def test_an_answer_that_is_not_read_is_dropped() -> None:
    async def conversation(served: Served) -> None:
        _, writer = streams = await served.connect()
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(request(path="/large"))
        while not served.bodies:
            await asyncio.sleep(0.01)
        while served.http.connection_count():
            await asyncio.sleep(0.01)
        streams[1].close()

    serving(conversation, HASTE_WITH_ANSWERS)


def test_a_head_without_end_is_refused() -> None:
    async def conversation(served: Served) -> None:
        streams = await served.connect()
        streams[1].write(b"GET / HTTP/1.1\r\n" + b"x-filler: 0123456789\r\n" * 4000)
        assert (await told(streams)).startswith(b"HTTP/1.1 431 ")

    serving(conversation)


CHUNKED = "transfer-encoding: chunked\r\nconnection: close\r\n"


@pytest.mark.parametrize("endless", [b"x-filler: 0123456789\r\n", b"x", b"1;extension"])
def test_a_trailer_without_end_is_refused(endless: bytes) -> None:
    async def conversation(served: Served) -> None:
        reader, writer = await served.connect()
        start = b"" if endless[:1] == b"1" else b"0\r\n"
        writer.write(request("PUT", headers=CHUNKED) + start)
        answer = asyncio.create_task(told((reader, writer)))
        with suppress(ConnectionError):
            while not answer.done():
                writer.write(endless * 1000)
                await writer.drain()
                await asyncio.sleep(0)
        assert (await answer).startswith(b"HTTP/1.1 431 ")
        assert served.bodies == []

    serving(conversation)


def test_the_fields_of_a_trailer_are_not_those_of_the_request() -> None:
    async def conversation(served: Served) -> None:
        streams = await served.connect()
        streams[1].write(request("PUT", headers=CHUNKED) + b"2\r\nhi\r\n0\r\nauthorization: Basic eDp5\r\n\r\n")
        assert (await told(streams)).endswith(b"hi")
        assert [name for name, _ in served.headers] == [b"host", b"transfer-encoding", b"connection"]

    serving(conversation)


def test_a_body_in_many_small_chunks_is_read() -> None:
    async def conversation(served: Served) -> None:
        streams = await served.connect()
        streams[1].write(request("PUT", headers=CHUNKED) + b"1\r\nx\r\n" * 100_000 + b"0\r\n\r\n")
        assert (await told(streams)).startswith(b"HTTP/1.1 200 ")
        assert served.bodies == [b"x" * 100_000]

    serving(conversation)


def test_one_connection_too_many_is_refused_with_that_reason() -> None:
    async def conversation(served: Served) -> None:
        streams = [await served.connect(f"127.0.0.{1 + number}") for number in range(PATIENCE.connections_max)]
        while served.http.connection_count() < PATIENCE.connections_max:
            await asyncio.sleep(0.01)
        assert (await told(await served.connect("127.0.0.9"))).startswith(b"HTTP/1.1 503 ")
        streams[0][1].write(request(headers="connection: close\r\n"))
        assert (await told(streams[0])).startswith(b"HTTP/1.1 200 ")
        for _, writer in streams[1:]:
            writer.close()

    serving(conversation)


def test_one_address_leaves_room_for_others() -> None:
    async def conversation(served: Served) -> None:
        greedy = [await served.connect() for _ in range(PATIENCE.connections_max)]
        for streams in greedy[2:]:
            assert (await told(streams)).startswith(b"HTTP/1.1 503 ")
        for _ in range(2):
            other = await served.connect("127.0.0.2")
            other[1].write(request(headers="connection: close\r\n"))
            assert (await told(other)).startswith(b"HTTP/1.1 200 ")
        greedy[1][1].close()
        # a closed connection frees its place
        greedy[0][1].write(request(headers="connection: close\r\n"))
        assert (await told(greedy[0])).startswith(b"HTTP/1.1 200 ")
        again = await served.connect()
        again[1].write(request(headers="connection: close\r\n"))
        assert (await told(again)).startswith(b"HTTP/1.1 200 ")

    serving(conversation)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("10.0.0.1", "10.0.0.2", False),
        ("10.0.0.1", "::ffff:10.0.0.1", True),
        ("2001:db8::1", "2001:db8::ffff:2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2%eth1", True),
        ("", "10.0.0.1", False),
    ],
)
def test_addresses_of_one_block_count_as_one(one: str, other: str, same: bool) -> None:
    assert (address_block(one) == address_block(other)) == same


@pytest.mark.parametrize("nonsense", [b"\x16\x03\x01\x02\x00\x01\x00", b"hello\r\n\r\n", b"GET /\xff HTTP/1.1\r\n\r\n"])
def test_bytes_that_are_no_http_are_refused(nonsense: bytes) -> None:
    async def conversation(served: Served) -> None:
        streams = await served.connect()
        streams[1].write(nonsense)
        assert (await told(streams)).startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 408 "))
        assert served.bodies == []

    serving(conversation)


def test_an_offer_to_speak_another_protocol_is_passed_over_and_the_body_read() -> None:
    async def conversation(served: Served) -> None:
        streams = await served.connect()
        offer = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABk\r\n"
        streams[1].write(request("PUT", headers=offer, body=b"hello"))
        assert (await streams[0].readuntil(b"hello")).startswith(b"HTTP/1.1 200 ")
        assert served.bodies == [b"hello"]
        streams[1].close()

    serving(conversation)


def test_several_offers_are_passed_over_and_a_body_that_looks_like_one_is_left_alone() -> None:
    async def conversation(served: Served) -> None:
        streams = await served.connect()
        offer = "Connection: Upgrade\r\nUpgrade: h2c\r\nUpgrade: websocket\r\n"
        body = b"a\r\nUpgrade: h2c\r\n\r\nend"
        streams[1].write(request("PUT", headers=offer, body=body))
        assert (await streams[0].readuntil(b"end")).startswith(b"HTTP/1.1 200 ")
        assert served.bodies == [body]
        streams[1].close()

    serving(conversation)


def test_an_offer_in_a_request_sent_ahead_ends_the_connection_after_its_answer() -> None:
    async def conversation(served: Served) -> None:
        streams = await served.connect()
        offer = "Connection: Upgrade\r\nUpgrade: h2c\r\n"
        streams[1].write(request("PUT", body=b"one") + request("GET", headers=offer) + request("PUT", body=b"three"))
        assert (await told(streams)).count(b"HTTP/1.1 200 ") == 2

    serving(conversation)


def test_requests_that_come_all_at_once_are_answered_in_order() -> None:
    async def conversation(served: Served) -> None:
        streams = await served.connect()
        last = request("PUT", headers="connection: close\r\n", body=b"three")
        streams[1].write(request("PUT", body=b"one") + request("PUT", body=b"two") + last)
        said = await told(streams)
        assert served.bodies == [b"one", b"two", b"three"]
        assert said.count(b"HTTP/1.1 200 ") == 3

    serving(conversation)
