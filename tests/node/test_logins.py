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


def put_user(node: Serving, password: dict[str, str]) -> tuple[int, str]:
    operator = Operator(node.address("http"), "guest-with-a-long-password")
    status, answer = operator._call("PUT", ["users", "hare"], {"tags": "", **password})
    return status, "" if status < 400 else json.loads(answer)["reason"]


BACKEND = "credential_validator.validation_backend = rabbit_credential_validator"
LONG = f"default_pass = guest-with-a-long-password\n{BACKEND}"


def test_a_password_that_is_too_short_is_not_set(serve: Serve) -> None:
    node = serve(configuration=f"{LONG}_min_password_length\ncredential_validator.min_length = 10\n")
    assert put_user(node, {"password": "123456789"}) == (400, "minimum required password length is 10")
    assert put_user(node, {"password": ""}) == (400, "minimum required password length is 10")
    assert put_user(node, {"password": "1234567890"}) == (201, "")
    # a hash tells nothing about its password, and a user without a password cannot log in with one
    assert put_user(node, {"password_hash": ""}) == (204, "")
    operator = Operator(node.address("http"), "guest-with-a-long-password")
    users = {"users": [{"name": "imported", "password": "short", "tags": ""}]}
    status, answer = operator._call("POST", ["definitions"], users)
    assert (status, "minimum required password length is 10" in answer.decode()) == (400, True)


def test_a_password_that_does_not_match_is_not_set(serve: Serve) -> None:
    node = serve(configuration=f"{LONG}_password_regexp\ncredential_validator.regexp = [a-z]-[a-z]\n")
    reason = "provided password does not match the validator regular expression"
    assert put_user(node, {"password": "hello"}) == (400, reason)
    assert put_user(node, {"password": "he-llo"}) == (201, "")


def test_a_node_does_not_create_its_first_user_with_a_password_that_the_validator_refuses(tmp_path: Path) -> None:
    (tmp_path / "node.conf").write_text(f"{BACKEND}_min_password_length\ncredential_validator.min_length = 10\n")
    ended = subprocess.run(
        [*COMMAND, "serve", "--config", str(tmp_path / "node.conf"), "--data", str(tmp_path / "data"), *FREE_PORTS],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert (ended.returncode, ended.stderr) == (
        2,
        "warren: credential_validator refuses the default_pass of the first user, guest: "
        "minimum required password length is 10\n",
    )


def test_a_node_does_not_start_with_users_of_a_backend_that_it_cannot_ask(tmp_path: Path) -> None:
    config = tmp_path / "node.conf"
    for line in ("auth_backends.1 = rabbit_auth_backend_ldap", "auth_ldap.servers.1 = ldap.example.com"):
        config.write_text(f"{line}\n")
        ended = subprocess.run(
            [*COMMAND, "serve", "--config", str(config), "--data", str(tmp_path / "data"), *FREE_PORTS],
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )
        key = line.partition(" ")[0]
        assert (ended.returncode, ended.stdout) == (2, "")
        assert ended.stderr.startswith(f"warren: {config} line 1: {key} ")
        assert ended.stderr.count("\n") == 1
