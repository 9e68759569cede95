"""When all connections are in use, a client may still ask for the fitness: a load balancer without an answer would cut
the node's clients off.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from tests.unit.admin.http.test_server import PATIENCE, Served, serving, told
from warren.admin import fitness
from warren.admin.http import server
from warren.admin.http.quotas import OVERFLOW_ADDRESS_SHARE, OVERFLOW_CONNECTIONS_MAX
from warren.admin.http.settings import FITNESS_PATH

OF_ONE = int(OVERFLOW_CONNECTIONS_MAX * OVERFLOW_ADDRESS_SHARE)
BALANCER = "127.0.0.50"
# only overflow connections time out in these tests
LIMITS = replace(PATIENCE, request_timeout_s=60.0, idle_timeout_s=60.0)


def request(path: str = f"{FITNESS_PATH}?reluctant=404") -> bytes:
    return f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode()


@pytest.fixture
def long_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """No overflow connection times out before all have connected."""
    monkeypatch.setattr(server, "OVERFLOW_TIMEOUT_S", LIMITS.request_timeout_s)


@asynccontextmanager
async def crowded(served: Served, *in_overflow: str) -> AsyncIterator[None]:
    """As many idle connections as allowed, and some more from these addresses."""
    hosts = [*(f"127.0.0.{1 + number}" for number in range(LIMITS.connections_max)), *in_overflow]
    streams = []
    for host in hosts:
        streams.append(await served.connect(host))
        while served.http.connection_count() < len(streams):
            await asyncio.sleep(0.01)
    try:
        yield
    finally:
        for _, writer in streams:
            writer.close()


async def answer(served: Served, host: str, words: bytes) -> bytes:
    streams = await served.connect(host)
    streams[1].write(words)
    return await told(streams)


def test_the_question_is_the_one_that_nodes_answer() -> None:
    assert fitness.PATH == FITNESS_PATH


def test_how_the_node_is_can_be_asked_when_there_is_no_room() -> None:
    async def conversation(served: Served) -> None:
        async with crowded(served):
            for path in (FITNESS_PATH, f"{FITNESS_PATH}?reluctant=200"):
                said = await answer(served, "127.0.0.9", request(path))
                assert said.startswith(b"HTTP/1.1 200 ")
                assert b"connection: close" in said

    serving(conversation, LIMITS)


def test_nothing_else_can() -> None:
    async def conversation(served: Served) -> None:
        async with crowded(served):
            for words in (
                request("/api/overview"),
                request(f"{FITNESS_PATH}es"),
                b"POST " + request()[4:],
                b"x",
            ):
                assert (await answer(served, "127.0.0.9", words)).startswith(b"HTTP/1.1 503 ")
        assert served.bodies == []

    serving(conversation, LIMITS)


@pytest.mark.lengthy
def test_a_client_that_asks_nothing_is_soon_disconnected() -> None:
    async def conversation(served: Served) -> None:
        async with crowded(served):
            assert (await told(await served.connect("127.0.0.9"))).startswith(b"HTTP/1.1 503 ")

    serving(conversation, LIMITS)


@pytest.mark.usefixtures("long_stay")
def test_one_address_leaves_room_for_others_there() -> None:
    async def conversation(served: Served) -> None:
        async with crowded(served, *["127.0.0.9"] * OF_ONE):
            assert (await answer(served, "127.0.0.9", request())).startswith(b"HTTP/1.1 503 ")
            assert (await answer(served, "127.0.0.10", request())).startswith(b"HTTP/1.1 200 ")

    serving(conversation, LIMITS)


@pytest.mark.usefixtures("long_stay")
def test_balancers_have_an_overflow_quota_of_their_own() -> None:
    async def conversation(served: Served) -> None:
        async with crowded(served, *(f"127.0.1.{1 + number}" for number in range(OVERFLOW_CONNECTIONS_MAX))):
            assert (await answer(served, "127.0.0.9", request())).startswith(b"HTTP/1.1 503 ")
            assert (await answer(served, BALANCER, request())).startswith(b"HTTP/1.1 200 ")
            assert (await answer(served, BALANCER, request("/api/overview"))).startswith(b"HTTP/1.1 503 ")

    serving(conversation, LIMITS, balancer=BALANCER)
