"""Connecting to a broker; a failure has one sentence with the reason."""

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable, Iterator

import pytest

from tests.support.deadlines import in_event_loop, run
from warren.client import CannotConnect, ClientError, ConnectionClosed, LoginRefused, UriError, connect
from warren.client.uri import parse_uri

ON_EITHER_BROKER = True


@pytest.fixture
def free_address() -> Iterator[Callable[[], str]]:
    """A port without a listener until the test is over: a socket has the port and does nothing."""
    with contextlib.ExitStack() as held:

        def address() -> str:
            taken = held.enter_context(socket.socket())
            taken.bind(("127.0.0.1", 0))
            return f"127.0.0.1:{taken.getsockname()[1]}"

        yield address


def failure(url: str, **options: float) -> ClientError:
    async def attempt() -> ClientError:
        with pytest.raises(ClientError) as refused:
            await connect(url, **options)
        return refused.value

    return run(attempt())


@in_event_loop
async def test_a_broker_says_what_it_is_and_what_was_agreed_upon(url: str) -> None:
    async with await connect(f"{url}?heartbeat=7&frame_max=8192&channel_max=3", name="tests") as connection:
        assert connection.server_properties["product"] in ("Warren", "RabbitMQ")
        assert (connection.heartbeat_s, connection.frame_max, connection.channel_max) == (7, 8192, 3)
        assert connection.is_open
        for _ in range(3):
            await connection.channel()
        with pytest.raises(ValueError, match="all 3 channels"):
            await connection.channel()
    assert not connection.is_open
    with pytest.raises(ConnectionClosed, match="was closed"):
        await connection.channel()
    await connection.close()


@in_event_loop
async def test_hosts_are_tried_in_their_order(url: str, free_address: Callable[[], str]) -> None:
    [address] = parse_uri(url).addresses
    several = url.replace(f"@{address}", f"@{free_address()},no-such-host.invalid,{address}")
    async with await connect(several) as connection:
        assert connection.address == address


def test_when_no_host_answers_each_is_named_with_its_reason(free_address: Callable[[], str]) -> None:
    first, second = free_address(), free_address()
    error = failure(f"amqp://{first},{second}")
    assert isinstance(error, CannotConnect)
    assert error.attempts == ((first, "connection refused"), (second, "connection refused"))
    assert str(error) == f"cannot connect to {first}: connection refused; {second}: connection refused"
    assert error.retriable


def test_attempts_are_repeated_after_the_delay(free_address: Callable[[], str]) -> None:
    begun_s = time.monotonic()
    error = failure(f"amqp://{free_address()}?connection_attempts=3&retry_delay=0.1")
    assert isinstance(error, CannotConnect)
    assert time.monotonic() - begun_s >= 0.2


def test_a_host_that_says_nothing_is_given_up_after_the_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        error = failure(f"amqp://127.0.0.1:{silent.getsockname()[1]}?connection_timeout=200")
    assert isinstance(error, CannotConnect)
    assert error.attempts[0][1] == "no answer within 0.2 s"


@in_event_loop
async def test_a_server_that_is_no_broker_is_recognised() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        with pytest.raises(CannotConnect, match="broke the protocol"):
            await connect(f"amqp://127.0.0.1:{port}")


def test_a_wrong_password_is_refused_at_the_first_host(url: str, free_address: Callable[[], str]) -> None:
    [address] = parse_uri(url).addresses
    error = failure(f"amqp://guest:wrong@{address},{free_address()}")
    assert isinstance(error, LoginRefused)
    assert "ACCESS_REFUSED" in str(error)
    assert "wrong" not in str(error)
    assert not error.retriable


def test_a_mechanism_that_the_broker_does_not_offer_is_a_refused_login(url: str) -> None:
    error = failure(f"{url}?auth_mechanism=external")
    assert isinstance(error, LoginRefused)
    assert "not EXTERNAL" in str(error)


def test_a_missing_virtual_host_is_refused_with_the_brokers_text(url: str) -> None:
    error = failure(url.replace("%2F", "no-such-vhost"))
    assert isinstance(error, ConnectionClosed)
    assert error.code == 530
    assert "no-such-vhost" in error.text


def test_a_url_that_makes_no_sense_connects_nowhere() -> None:
    assert isinstance(failure("amqp://host?hartbeat=3"), UriError)
    assert isinstance(failure("amqps://host?cacertfile=/no/such/file.pem"), UriError)
