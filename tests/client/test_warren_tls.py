"""TLS by options of the URL and by contexts of the program's own; certificates that log in."""

import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.node.certificate_files import Authority, self_signed
from tests.node.serving import Serving
from tests.support.deadlines import in_event_loop, run
from warren.client import CannotConnect, ClientError, Connection, connect

Serve = Callable[[str], Serving]


def configuration(authority: Authority, *lines: str) -> str:
    settings = [
        "listeners.tcp = none",
        "listeners.ssl.1 = 127.0.0.1:0",
        f"ssl_options.cacertfile = {authority.path}",
        f"ssl_options.certfile = {authority.server.certificate}",
        f"ssl_options.keyfile = {authority.server.key}",
        *lines,
    ]
    return "\n".join(settings) + "\n"


def url_of(node: Serving, *options: str, host: str = "localhost") -> str:
    return f"amqps://guest:guest@{host}:{node.address('amqps')[1]}/%2F?{'&'.join(options)}"


async def talk_over(connection: Connection) -> None:
    async with connection, await connection.channel(confirms=True) as channel:
        await channel.declare_queue("q")
        bodies = [bytes([number % 256]) * 10_000 for number in range(300)]
        await channel.send_many(bodies, routing_key="q")
        await channel.wait_for_confirms()
        consumer = await channel.consume("q", no_ack=True)
        got: list[bytes] = []
        while len(got) < len(bodies):
            got += [delivery.body for delivery in await consumer.batch()]
        assert got == bodies


def test_a_url_with_an_authority_is_enough(serve: Serve, authority: Authority) -> None:
    node = serve(configuration(authority))

    async def talk() -> None:
        await talk_over(await connect(url_of(node, f"cacertfile={authority.path}")))

    run(talk())
    assert node.stop() == 0


@in_event_loop
async def test_a_context_of_the_programs_own_takes_the_place_of_the_options(serve: Serve, authority: Authority) -> None:
    node = serve(configuration(authority))
    context = ssl.create_default_context(cafile=authority.path)
    await talk_over(await connect(url_of(node), ssl_context=context))


def test_a_broker_that_cannot_be_trusted_does_not_get_the_password(serve: Serve, authority: Authority) -> None:
    node = serve(configuration(authority))

    async def talk() -> None:
        with pytest.raises(CannotConnect, match="certificate is not trusted"):
            await connect(url_of(node))
        trusted = f"cacertfile={authority.path}"
        with pytest.raises(CannotConnect, match="certificate is not trusted"):
            await connect(url_of(node, trusted, "server_name_indication=somebody.else"))
        await talk_over(await connect(url_of(node, trusted, "server_name_indication=localhost", host="127.0.0.1")))
        await talk_over(await connect(url_of(node, "verify=verify_none")))

    run(talk())
    assert "connection.opened" in node.log()


@in_event_loop
async def test_a_certificate_logs_in(serve: Serve, authority: Authority, tmp_path: Path) -> None:
    node = serve(
        configuration(
            authority,
            "ssl_options.verify = verify_peer",
            "ssl_options.fail_if_no_peer_cert = true",
            "ssl_cert_login_from = common_name",
            "default_user = alice",
        )
    )
    alice, stranger = authority.client("alice", "Example"), self_signed(tmp_path, "mallory")
    options = (f"cacertfile={authority.path}", "auth_mechanism=external")
    files = (f"certfile={alice.certificate}", f"keyfile={alice.key}")
    await talk_over(await connect(url_of(node, *options, *files)))
    with pytest.raises(ClientError):
        await connect(url_of(node, *options))
    files = (f"certfile={stranger.certificate}", f"keyfile={stranger.key}")
    with pytest.raises(ClientError):
        await connect(url_of(node, *options, *files))
