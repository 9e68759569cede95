"""Logins of a node that keeps passwords as slow hashes: other clients do not wait for them."""

import json
import select
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.node.serving import COMMAND, DEADLINE_S, Serving
from tests.support.amqp_client import CAPABILITIES, Connection
from tests.support.operator import Operator

Serve = Callable[..., Serving]
FREE_PORTS = ("--amqp", "127.0.0.1:0", "--http", "127.0.0.1:0")
GUESSES = 96
"""Checking them takes a node longer than this process waits on a busy machine."""


def greeted(address: tuple[str, int]) -> Connection:
    connection = Connection(address)
    connection.start()
    return connection


def guess(connection: Connection, number: int) -> None:
    """Its password is being checked: no user has failed so often that logins are delayed."""
    connection.start_ok("PLAIN", f"\0stranger {number}\0guess {number}".encode(), CAPABILITIES)


def test_connected_clients_do_not_wait_for_the_passwords_of_others(serve: Serve) -> None:
    node = serve(configuration="handshake_timeout = 120000\n")
    worker = Connection.opened(node.address())
    guessers = [greeted(node.address()) for _ in range(GUESSES)]
    for number, guesser in enumerate(guessers):
        guess(guesser, number)
    for _ in range(3):
        worker.channel(1).close()
    answered = select.select([guesser.socket for guesser in guessers], [], [], 0)[0]
    assert len(answered) < GUESSES
    for guesser in guessers:
        assert guesser.expect(0, "connection.close", deadline_s=60).reply_code == 403
        guesser.cut()
    worker.close()
    node.wait_for(lambda: len(node.events("login.refused")) == GUESSES)
    assert "guess 3" not in node.log()
    assert node.stop() == 0


def test_a_user_is_let_in_before_the_guesses_from_the_same_address_are_judged(serve: Serve) -> None:
    node = serve(configuration="handshake_timeout = 120000\n")
    guessers = [greeted(node.address()) for _ in range(GUESSES)]
    for number, guesser in enumerate(guessers):
        guess(guesser, number)
    Connection.opened(node.address()).close()
    answered = select.select([guesser.socket for guesser in guessers], [], [], 0)[0]
    assert len(answered) < GUESSES / 2
    for guesser in guessers:
        guesser.cut()
    assert node.stop() == 0


def test_passwords_may_be_kept_as_rabbitmq_keeps_them(serve: Serve) -> None:
    tags = "default_user_tags.administrator = true\ndefault_user_tags.impersonator = true\n"
    node = serve(configuration=f"password_hashing_module = rabbit_password_hashing_sha256\n{tags}")
    operator = Operator(node.address("http"))
    operator.user("alice")
    [alice, guest] = operator.read("users")
    assert alice["hashing_algorithm"] == guest["hashing_algorithm"] == "rabbit_password_hashing_sha256"
    assert guest["tags"] == ["administrator", "impersonator"]
    Connection.opened(node.address()).close()
    assert node.stop() == 0


def test_the_configured_default_user_counts_at_the_first_start_only(serve: Serve, tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "kept"))
    node = serve(*data, configuration="default_user = alice\ndefault_pass = s3cret\ndefault_permissions.read = ^a\n")
    assert node.stop() == 0
    node = serve(*data, configuration="default_user = bob\ndefault_pass = other\n")
    opened = Connection.opened(node.address(), user="alice", password="s3cret")
    channel = opened.channel()
    channel.send("basic.get", queue="b")
    text = "ACCESS_REFUSED - access to queue 'b' in vhost '/' refused for user 'alice'"
    channel.expect_close(403, text, "basic.get")
    opened.close()
    assert node.stop() == 0
