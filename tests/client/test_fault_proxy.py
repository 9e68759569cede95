"""The fault proxy between a program and a real broker: its faults, and the client's reaction."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tests.support.deadlines import in_event_loop, run
from warren.client import ConnectionLost, Message, blocking, connect, recovering
from warren.client.testing import FaultProxy
from warren.client.transport import Layout, Outgoing, QueueLayout

PATIENCE_S = 20.0


@pytest.fixture
def proxy(url: str) -> Iterator[FaultProxy]:
    with FaultProxy(url) as made:
        yield made


@pytest.fixture
def echo() -> Iterator[str]:
    """The address, as a URL, of a server that sends back what it gets."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve_echo, args=(listening,), daemon=True)
        thread.start()
        yield f"amqp://127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(PATIENCE_S)


def serve_echo(listening: socket.socket) -> None:
    while True:
        try:
            connection, _ = listening.accept()
        except OSError:
            return
        with connection:
            try:
                while chunk := connection.recv(65_536):
                    connection.sendall(chunk)
            except OSError:
                continue


def received(connection: socket.socket, count: int) -> bytes:
    """So many bytes, or those that came before the connection was closed."""
    got = b""
    while len(got) < count and (chunk := connection.recv(count - len(got))):
        got += chunk
    return got


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_without_faults_everything_passes(proxy: FaultProxy, queue: str) -> None:
    with blocking.connect(proxy.url) as connection, connection.channel(confirms=True) as channel:
        channel.declare_queue(queue)
        channel.send_many([b"x" * 10_000] * 300, routing_key=queue)
        channel.wait_for_confirms()
        assert channel.declare_queue(queue, passive=True).messages == 300
        assert proxy.connections == 1
        assert proxy.bytes_passed("to_broker") > 3_000_000
        assert 0 < proxy.bytes_passed("to_client") < 1_000_000
    wait_for(lambda: proxy.connections == 0)


def test_a_cut_ends_connections_without_a_word(proxy: FaultProxy) -> None:
    with blocking.connect(proxy.url) as connection:
        channel = connection.channel()
        proxy.cut()
        with pytest.raises(ConnectionLost):
            channel.declare_queue(exclusive=True)
    blocking.connect(proxy.url).close()


def test_a_cut_may_last(proxy: FaultProxy) -> None:
    with blocking.connect(proxy.url):
        proxy.cut(refuse=True)
        assert refuses_connections(proxy)
        proxy.restore()
        blocking.connect(proxy.url).close()


def refuses_connections(proxy: FaultProxy) -> bool:
    try:
        with socket.create_connection(proxy.address, PATIENCE_S) as connection:
            return ended(connection)
    except ConnectionResetError:
        return True


def ended(connection: socket.socket) -> bool:
    """Whether the connection has ended, in any way."""
    connection.settimeout(PATIENCE_S)
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize(("direction", "arrives"), [("to_broker", b""), ("to_client", b"ping"), (None, b"")])
def test_a_stall_holds_back_one_direction_or_both_and_loses_nothing(
    echo: str, direction: str | None, arrives: bytes
) -> None:
    with FaultProxy(echo) as proxy, socket.create_connection(proxy.address, PATIENCE_S) as connection:
        connection.sendall(b"before")
        assert received(connection, 6) == b"before"
        proxy.stall(direction)  # type: ignore[arg-type]
        connection.sendall(b"ping")
        wait_for(lambda: proxy.bytes_passed("to_broker") == 6 + len(arrives))
        connection.settimeout(0.1)
        with pytest.raises(TimeoutError):
            connection.recv(4)
        assert proxy.bytes_passed("to_broker") == 6 + len(arrives)
        assert proxy.bytes_passed("to_client") == 6
        proxy.restore()
        connection.settimeout(PATIENCE_S)
        assert received(connection, 4) == b"ping"


def test_a_delay_costs_time_and_keeps_the_order(echo: str) -> None:
    with FaultProxy(echo) as proxy, socket.create_connection(proxy.address, PATIENCE_S) as connection:
        proxy.delay(0.1, "to_broker")
        proxy.delay(0.05, "to_client")
        began = time.monotonic()
        sent = b"".join(b"%05d" % number for number in range(20_000))
        connection.sendall(sent)
        assert received(connection, len(sent)) == sent
        assert time.monotonic() - began >= 0.15


@pytest.mark.parametrize("count", [0, 1, 1000, 100_000])
def test_a_connection_is_closed_behind_so_many_bytes(echo: str, count: int) -> None:
    sent = bytes(range(256)) * 1000
    with FaultProxy(echo) as proxy:
        proxy.close_after(count, "to_client")
        with socket.create_connection(proxy.address, PATIENCE_S) as connection:
            sender = threading.Thread(target=send_quietly, args=(connection, sent))
            sender.start()
            assert received(connection, len(sent)) == sent[:count]
            sender.join(PATIENCE_S)
        with socket.create_connection(proxy.address, PATIENCE_S) as connection:
            connection.sendall(sent)
            assert received(connection, len(sent)) == sent


def send_quietly(connection: socket.socket, sent: bytes) -> None:
    try:
        connection.sendall(sent)
    except OSError:
        return


def test_the_end_of_one_side_reaches_the_other(echo: str) -> None:
    with FaultProxy(echo) as proxy:
        with socket.create_connection(proxy.address, PATIENCE_S) as connection:
            connection.sendall(b"last")
            connection.shutdown(socket.SHUT_WR)
            assert received(connection, 100) == b"last"
        wait_for(lambda: proxy.connections == 0)


def test_nothing_of_it_is_left_when_it_is_closed(echo: str) -> None:
    with FaultProxy(echo) as proxy:
        address = proxy.address
        connection = socket.create_connection(address, PATIENCE_S)
        connection.sendall(b"x")
        assert received(connection, 1) == b"x"
    with connection:
        assert ended(connection)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, PATIENCE_S)


def test_a_proxy_without_a_broker_closes_its_connections() -> None:
    with FaultProxy("amqp://127.0.0.1:1") as proxy:
        assert refuses_connections(proxy)


def test_the_url_keeps_all_but_the_address() -> None:
    with FaultProxy("amqps://u%40:p@broker.example:5671/a%2Fb?heartbeat=5") as proxy:
        assert proxy.url == f"amqps://u%40:p@127.0.0.1:{proxy.address[1]}/a%2Fb?heartbeat=5"
    with FaultProxy("amqp://broker.example") as proxy:
        assert proxy.url == f"amqp://127.0.0.1:{proxy.address[1]}"


def test_a_transport_recovers_from_cuts_at_any_byte(url: str, queue: str) -> None:
    """Every message is confirmed once the proxy lets it, and none is missing."""
    numbered = [b"%03d" % number for number in range(60)]

    async def scenario() -> None:
        async with FaultProxy(url) as proxy:
            transport = await recovering.open(proxy.url)
            await transport.declare(Layout(queues=(QueueLayout(queue),)))
            for at, body in enumerate(numbered):
                if at % 6 == 0:
                    proxy.close_after(at * 7, "to_broker" if at % 12 else "to_client")
                assert await transport.publish([Outgoing(Message(body), routing_key=queue)], PATIENCE_S) == [None]
            await transport.close()

    run(scenario())
    with blocking.connect(url) as connection, connection.channel() as channel:
        found = []
        while (delivery := channel.get(queue, no_ack=True)) is not None:
            found.append(delivery.body)
    assert list(dict.fromkeys(found)) == numbered


@in_event_loop
async def test_a_transport_is_an_async_context_manager(url: str) -> None:
    async with FaultProxy(url) as proxy:
        async with await connect(proxy.url) as connection:
            assert connection is not None
        proxy.cut()
        await asyncio.sleep(0)
