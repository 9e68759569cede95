"""TLS listeners of a real node: encryption, client certificates, EXTERNAL, and peers that misbehave."""

import re
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.node.certificate_files import Authority, CertificateFile, self_signed
from tests.node.conftest import Connect, Serve
from tests.node.serving import Serving
from tests.support.amqp_client import Connection, Received
from tests.support.operator import Operator

Secure = Callable[..., Connection]
ALICE = "CN=alice,O=Example"


def configuration(authority: Authority, *lines: str) -> str:
    return "\n".join(
        [
            "listeners.tcp = none",
            "listeners.ssl.1 = 127.0.0.1:0",
            f"ssl_options.cacertfile = {authority.path}",
            f"ssl_options.certfile = {authority.server.certificate}",
            f"ssl_options.keyfile = {authority.server.key}",
            *lines,
            "",
        ]
    )


def certified(authority: Authority, *lines: str) -> str:
    return configuration(
        authority, "ssl_options.verify = verify_peer", "ssl_options.fail_if_no_peer_cert = true", *lines
    )


@pytest.fixture
def secure(connect: Connect, authority: Authority) -> Secure:
    """A connection after its TLS handshake."""

    def secured(node: Serving, client: CertificateFile | None = None) -> Connection:
        context = ssl.create_default_context(cafile=authority.path)
        # with TLS 1.3 a client learns only later that its certificate was refused
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        if client is not None:
            context.load_cert_chain(client.certificate, client.key)
        connection = connect(node, "amqps")
        connection.socket = context.wrap_socket(connection.socket, server_hostname="localhost")
        return connection

    return secured


def password_login(connection: Connection) -> None:
    open_after(connection.authenticate(), connection)


def external_login(connection: Connection) -> None:
    start = connection.start()
    assert start.mechanisms.split() == [b"PLAIN", b"AMQPLAIN", b"EXTERNAL"]
    connection.start_ok("EXTERNAL", b"")
    open_after(connection.expect(0, "connection.tune"), connection)


def open_after(tune: Received, connection: Connection) -> None:
    connection.tune_ok(tune)
    connection.send(0, "connection.open", virtual_host="/")
    connection.expect(0, "connection.open-ok")


def test_a_password_works_over_tls_as_without_it(serve: Serve, secure: Secure, authority: Authority) -> None:
    node = serve(configuration=configuration(authority))
    assert re.search(r" amqp=- http=127\.0\.0\.1:\d+ amqps=127\.0\.0\.1:", node.ready_line)
    connection = secure(node)
    password_login(connection)
    channel = connection.channel()
    channel.call("queue.declare", queue="over-tls")
    body = bytes(range(256)) * 4096
    channel.publish("", "over-tls", body)
    delivery = channel.get("over-tls")
    assert delivery is not None
    assert delivery.body == body
    (row,) = Operator(node.address("http")).read("connections")
    assert (row["ssl"], row["ssl_protocol"], row["ssl_hash"]) == (True, "tlsv1.2", "aead")
    connection.close()
    assert node.stop() == 0


@pytest.mark.parametrize(
    ("user", "lines"),
    [
        (ALICE, []),
        ("alice", ["ssl_cert_login_from = common_name"]),
        ("alice.example", ["ssl_cert_login_from = subject_alternative_name"]),
    ],
)
def test_a_certificate_is_enough_to_log_in(
    serve: Serve, secure: Secure, authority: Authority, user: str, lines: list[str]
) -> None:
    node = serve(configuration=certified(authority, f"default_user = '{user}'", *lines))
    connection = secure(node, authority.client("alice", "Example"))
    external_login(connection)
    connection.close()
    shown = (f'user="{user}"', f"user={user}")
    node.wait_for(lambda: any(text in line for line in node.events("connection.opened") for text in shown))


def test_a_certificate_of_an_unknown_user_is_not(serve: Serve, secure: Secure, authority: Authority) -> None:
    node = serve(configuration=certified(authority, f"default_user = '{ALICE}'"))
    connection = secure(node, authority.client("mallory", "Example"))
    connection.start()
    connection.start_ok("EXTERNAL", b"")
    connection.expect_hang_up()


def test_a_connection_without_a_certificate_is_refused(serve: Serve, secure: Secure, authority: Authority) -> None:
    node = serve(configuration=certified(authority))
    with pytest.raises(OSError):
        secure(node)
    node.wait_for(lambda: len(node.events("tls_handshake.failed")) == 1)


def test_a_certificate_of_an_unknown_authority_is_refused(
    serve: Serve, secure: Secure, authority: Authority, tmp_path: Path
) -> None:
    node = serve(configuration=certified(authority))
    with pytest.raises(OSError):
        secure(node, self_signed(tmp_path, "alice"))
    node.wait_for(lambda: len(node.events("tls_handshake.failed")) == 1)
    secure(node, authority.client("bob", "Example")).start()


def test_where_certificates_are_optional_a_password_will_do(serve: Serve, secure: Secure, authority: Authority) -> None:
    node = serve(configuration=configuration(authority, "ssl_options.verify = verify_peer"))
    secure(node).authenticate()


@pytest.mark.parametrize("first_bytes", [b"", b"\x16\x03\x01\x02\x00\x01"], ids=["silent", "half a hello"])
def test_a_handshake_that_stalls_is_dropped(
    serve: Serve, secure: Secure, authority: Authority, first_bytes: bytes
) -> None:
    node = serve(configuration=configuration(authority, "handshake_timeout = 5000"))
    with socket.create_connection(node.address("amqps"), timeout=30) as stalled:
        stalled.sendall(first_bytes)
        assert _end_of(stalled)
    node.wait_for(lambda: len(node.events("tls_handshake.failed")) == 1)
    secure(node).authenticate()


def test_bytes_that_are_not_tls_are_refused_and_disturb_no_client(
    serve: Serve, secure: Secure, authority: Authority
) -> None:
    node = serve(configuration=configuration(authority))
    bystander = secure(node)
    password_login(bystander)
    with socket.create_connection(node.address("amqps"), timeout=30) as confused:
        confused.sendall(b"AMQP\x00\x00\x09\x01")
        assert _end_of(confused)
    node.wait_for(lambda: len(node.events("tls_handshake.failed")) == 1)
    bystander.channel()


def _end_of(peer: socket.socket) -> bool:
    """The other side closes or resets the connection before the deadline."""
    try:
        while peer.recv(4096):
            pass
    except ConnectionResetError:
        pass
    return True
