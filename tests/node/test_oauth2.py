"""Access tokens at a real node, from a real issuer: over AMQP and HTTP, forged, expired, renewed, with rotated keys."""

import base64
import hashlib
import hmac
import json
import os
import secrets
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.node.conftest import Connect, Serve
from tests.support.amqp_client import Connection
from tests.support.deadlines import eventually
from tests.support.http_calls import Answer, bearer, call_api
from tests.support.issuer import Issuer
from tests.support.node_process import NodeProcess
from warren.node.signing_keys import FETCH_INTERVAL_S

ALL = "rabbitmq.configure:*/* rabbitmq.write:*/*/* rabbitmq.read:*/*/*"
MANAGEMENT = "rabbitmq.tag:management"
REFUSED = "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details see the broker logfile."
ROUNDING_S = 0.1
NEW_SECRET_REFUSED = "NOT_ALLOWED - New secret was refused by one of the backends"


def configuration(issuer: Issuer, *lines: str) -> str:
    return "\n".join(
        [
            "auth_backends.1 = rabbit_auth_backend_oauth2",
            "auth_backends.2 = internal",
            "auth_oauth2.resource_server_id = rabbitmq",
            f"auth_oauth2.jwks_url = {issuer.jwks_url}",
            "initial_frame_max = 32KB",
            *lines,
            "",
        ]
    )


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    made = Issuer()
    yield made
    made.close()


@pytest.fixture(scope="module")
def node(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    made = NodeProcess(tmp_path_factory.mktemp("node"), configuration=configuration(issuer))
    yield made
    made.stop()


@pytest.fixture
def own_issuer() -> Iterator[Issuer]:
    """For tests that change it."""
    made = Issuer()
    yield made
    made.close()


def opened(node: NodeProcess, token: str, user: str = "", vhost: str = "/") -> Connection:
    return Connection.opened(node.amqp, vhost, user=user, password=token)


def refuses(node: NodeProcess, token: str, user: str = "") -> bool:
    """Whether the node refuses this login, over AMQP and over HTTP.

    Every login is that of another user, because the node answers a user who fails again later and later.
    """
    user = user or f"user {secrets.token_hex(8)}"
    refused = _refuses_over_amqp(node, token, user)
    basic = "Basic " + base64.b64encode(f"{user}:{token}".encode()).decode()
    answer = call_api(node.addresses["http"], "GET", "/api/whoami", basic)
    assert refused == (answer.status == 401)
    assert not refused or answer.document["reason"] == "Login failed"
    return refused


def _refuses_over_amqp(node: NodeProcess, token: str, user: str = "user") -> bool:
    connection = Connection(node.amqp)
    connection.start()
    login = b"\0" + user.encode() + b"\0" + token.encode()
    connection.start_ok("PLAIN", login, {"authentication_failure_close": True})
    answer = connection.next_on(0)
    connection.cut()
    if answer.name == "connection.close":
        assert (answer.reply_code, answer.reply_text) == (403, REFUSED)
        return True
    return False


def api(node: NodeProcess, token: str, method: str, path: str, body: object = None) -> Answer:
    return call_api(node.addresses["http"], method, path, bearer(token), body)


def renew(connection: Connection, token: str) -> None:
    connection.send(0, "connection.update-secret", new_secret=token.encode(), reason="expiry")


# -- logins


def test_a_token_is_a_password_over_amqp(node: NodeProcess, issuer: Issuer) -> None:
    connection = opened(node, issuer.token("rabbitmq.configure:%2F/orders rabbitmq.read:%2F/orders"))
    channel = connection.channel()
    channel.call("queue.declare", queue="orders")
    assert channel.get("orders") is None
    channel.send("queue.declare", queue="invoices")
    channel.expect_close(
        403,
        "ACCESS_REFUSED - access to queue 'invoices' in vhost '/' refused for user 'alice'",
        "queue.declare",
    )
    channel = connection.channel()
    channel.publish("", "orders")
    channel.expect_close(
        403,
        "ACCESS_REFUSED - access to exchange 'amq.default' in vhost '/' refused for user 'alice'",
        "basic.publish",
    )
    connection.close()


def test_users_of_this_broker_log_in_beside_tokens(node: NodeProcess) -> None:
    Connection.opened(node.amqp).close()
    assert refuses(node, "guess", "guest")


def test_a_token_enters_virtual_hosts_that_its_scopes_name(node: NodeProcess, issuer: Issuer) -> None:
    connection = Connection(node.amqp)
    connection.tune_ok(connection.authenticate("", issuer.token("rabbitmq.read:staging/*")))
    connection.send(0, "connection.open", virtual_host="/")
    connection.expect_close(530, "NOT_ALLOWED - access to vhost '/' refused for user 'alice'", "connection.open")


def test_a_connection_is_listed_with_the_user_of_its_token(node: NodeProcess, issuer: Issuer) -> None:
    token = issuer.token(f"{ALL} {MANAGEMENT}", user="lister")
    connection = opened(node, token, user="whatever")
    rows = api(node, token, "GET", "/api/connections").document
    assert {row["user"] for row in rows} == {"lister"}
    connection.close()


def test_a_token_is_a_bearer_over_http_and_the_password_of_basic(node: NodeProcess, issuer: Issuer) -> None:
    token = issuer.token(f"rabbitmq.read:%2F/* {MANAGEMENT} rabbitmq.tag:monitoring")
    expected = {"name": "alice", "tags": ["management", "monitoring"]}
    assert api(node, token, "GET", "/api/whoami").document == expected
    basic = "Basic " + base64.b64encode(f"any:{token}".encode()).decode()
    assert call_api(node.addresses["http"], "GET", "/api/whoami", basic).document == expected


def test_without_a_tag_a_token_is_of_no_use_over_http(node: NodeProcess, issuer: Issuer) -> None:
    answer = api(node, issuer.token(ALL), "GET", "/api/overview")
    assert (answer.status, answer.document["reason"]) == (401, "Not management user")


def test_over_http_a_token_grants_its_scopes_and_no_more(node: NodeProcess, issuer: Issuer) -> None:
    token = issuer.token(
        f"{MANAGEMENT} rabbitmq.configure:%2F/mine-* rabbitmq.read:%2F/mine-* rabbitmq.write:%2F/amq.default"
    )
    assert api(node, token, "PUT", "/api/queues/%2F/mine-1", {}).status == 201
    assert api(node, token, "PUT", "/api/queues/%2F/theirs", {}).document["reason"] == "Access refused."
    message = {"properties": {}, "routing_key": "mine-1", "payload": "hello", "payload_encoding": "string"}
    published = api(node, token, "POST", "/api/exchanges/%2F/amq.default/publish", message)
    assert published.document == {"routed": True}
    refused = api(node, token, "POST", "/api/exchanges/%2F/amq.fanout/publish", message)
    assert "access to exchange 'amq.fanout' in vhost '/' refused for user 'alice'" in refused.document["reason"]
    fetch = {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}
    assert api(node, token, "POST", "/api/queues/%2F/mine-1/get", fetch).document[0]["payload"] == "hello"
    assert [row["name"] for row in api(node, token, "GET", "/api/vhosts").document] == ["/"]
    assert api(node, token, "GET", "/api/users").status == 401
    assert api(node, token, "DELETE", "/api/queues/%2F/mine-1").status == 204


def test_a_tokens_administrator_leaves_nothing_in_his_name(node: NodeProcess, issuer: Issuer) -> None:
    token = issuer.token(f"{ALL} rabbitmq.tag:administrator", user="guest")
    assert api(node, token, "PUT", "/api/vhosts/made-by-token", {}).status == 201
    # the user guest of this broker is someone else
    permissions = api(node, token, "GET", "/api/vhosts/made-by-token/permissions").document
    assert permissions == []
    shovel = {"value": {"src-uri": "amqp://", "dest-uri": "amqp://", "src-queue": "a", "dest-queue": "b"}}
    answer = api(node, token, "PUT", "/api/parameters/shovel/%2F/copy", shovel)
    assert (answer.status, "must be a user of this broker" in answer.document["reason"]) == (400, True)
    assert api(node, token, "DELETE", "/api/vhosts/made-by-token").status == 204


def test_a_long_token_needs_a_large_first_frame(node: NodeProcess, issuer: Issuer, serve: Serve) -> None:
    token = issuer.token(f"{ALL} {'x' * 9_000}")
    opened(node, token).close()


def test_a_token_is_the_password_of_warren_ctl(node: NodeProcess, issuer: Issuer) -> None:
    host, port = node.addresses["http"]
    token = issuer.token(f"rabbitmq.read:%2F/* {MANAGEMENT}")
    ended = subprocess.run(
        [*NodeProcess.COMMAND, "ctl", "--http", f"http://{host}:{port}", "-q", "list_vhosts"],
        env={**os.environ, "WARREN_PASSWORD": token},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ended.returncode, ended.stdout) == (0, "name\n/\n"), ended.stderr


# -- tokens that are refused


def _part(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _with_header(token: str, **fields: Any) -> str:
    """The same claims under another header, without a signature."""
    head, claims, _ = token.split(".")
    header = {**json.loads(base64.urlsafe_b64decode(head + "==")), **fields}
    return f"{_part(json.dumps(header).encode())}.{claims}."


def _signed_with_public_key(issuer: Issuer, token: str) -> str:
    unsigned = _with_header(token, alg="HS256").removesuffix(".")
    return f"{unsigned}.{_part(hmac.digest(issuer.public_pem(), unsigned.encode(), hashlib.sha256))}"


def _of_a_stranger(issuer: Issuer, **claims: Any) -> str:
    """From another issuer, whose key has the name of ours."""
    stranger = Issuer()
    try:
        return stranger.token(ALL, kid=issuer.keys[-1].kid, iss=issuer.url, **claims)
    finally:
        stranger.close()


def test_forged_tokens_are_refused(node: NodeProcess, issuer: Issuer) -> None:
    good = issuer.token(f"{ALL} {MANAGEMENT}")
    assert not refuses(node, good)
    head, claims, signature = good.split(".")
    forged = {
        "alg none": _with_header(good, alg="none"),
        "alg NONE with a signature": _with_header(good, alg="NONE") + signature,
        "HMAC with the public key": _signed_with_public_key(issuer, good),
        "another RSA algorithm": _with_header(good, alg="RS512") + signature,
        "an EC algorithm": _with_header(good, alg="ES256") + signature,
        "no alg": _with_header(good, alg=None) + signature,
        "other claims": f"{head}.{_part(json.dumps({'aud': 'rabbitmq', 'scope': ALL}).encode())}.{signature}",
        "no signature": f"{head}.{claims}.",
        "a stranger's signature": _of_a_stranger(issuer),
        "a key in the header": _with_header(good, jwk=issuer.key_set()["keys"][0]) + signature,
        "a key of another place": _with_header(good, kid="../../etc/passwd", jku="http://evil.example/") + signature,
        "a key name that is no text": _with_header(good, kid=["x"]) + signature,
        "no claims": f"{head}..{signature}",
        "not base64": "!!.!!.!!",
        "nothing": "..",
    }
    accepted = [name for name, token in forged.items() if not refuses(node, token)]
    assert accepted == []


def test_tokens_with_other_claims_are_refused(node: NodeProcess, issuer: Issuer) -> None:
    now = int(time.time())
    everything = f"{ALL} {MANAGEMENT}"
    refused = {
        "for another audience": issuer.token(everything, aud="other"),
        "for no audience": issuer.token(everything, aud=None),
        "expired": issuer.token(everything, exp=now - 1),
        "expired long ago": issuer.token(everything, exp=0),
        "not valid yet": issuer.token(everything, nbf=now + 600),
        "without a scope": issuer.token(None),
    }
    accepted = [name for name, token in refused.items() if not refuses(node, token)]
    assert accepted == []


def test_a_token_that_names_no_user_is_that_of_the_user_the_client_names(node: NodeProcess, issuer: Issuer) -> None:
    token = issuer.token(f"{ALL} {MANAGEMENT}", sub=None)
    assert not refuses(node, token, "named")
    answer = api(node, token, "GET", "/api/whoami")
    assert (answer.status, answer.document["reason"]) == (401, "Login failed")


def test_a_refused_token_is_not_logged(node: NodeProcess, issuer: Issuer) -> None:
    token = issuer.token(ALL, aud="other")
    assert refuses(node, token)
    eventually(lambda: "is not in the token's aud" in node.log(), lambda: node.log())
    assert token not in node.log()
    assert token.split(".")[2] not in node.log()


# -- keys


def test_keys_are_rotated_without_a_restart(own_issuer: Issuer, tmp_path: Path) -> None:
    issuer = own_issuer
    node = NodeProcess(tmp_path, configuration=configuration(issuer))
    try:
        old_key, old_token = issuer.keys[-1].kid, issuer.token(f"{ALL} {MANAGEMENT}")
        assert not refuses(node, old_token)
        issuer.rotate()
        assert not refuses(node, issuer.token(f"{ALL} {MANAGEMENT}"))
        assert not refuses(node, old_token)
        issuer.rotate("ES256")
        issuer.withdraw(str(old_key))
        assert not refuses(node, issuer.token(f"{ALL} {MANAGEMENT}"))
        # the fetch that brought the new key dropped the old one
        assert refuses(node, old_token)
    finally:
        node.stop()


def test_unknown_keys_do_not_make_the_node_press_its_issuer(own_issuer: Issuer, tmp_path: Path) -> None:
    issuer = own_issuer
    node = NodeProcess(tmp_path, configuration=configuration(issuer))
    try:
        good = issuer.token(f"{ALL} {MANAGEMENT}")
        assert not refuses(node, good)
        began, fetches = time.monotonic(), issuer.fetches
        flood = [Connection(node.amqp) for _ in range(30)]
        for number, connection in enumerate(flood):
            connection.start()
            token = issuer.token(ALL, kid=f"invented-{number}")
            login = f"\0user {number}\0{token}".encode()
            connection.start_ok("PLAIN", login, {"authentication_failure_close": True})
        # a login with a known key does not wait for the keys that the flood asks for
        opened(node, issuer.token(ALL, user="bob")).close()
        for connection in flood:
            assert connection.next_on(0).name == "connection.close"
            connection.cut()
        allowed = (time.monotonic() - began) / FETCH_INTERVAL_S + 1
        assert issuer.fetches - fetches <= allowed
    finally:
        node.stop()


def test_known_keys_stay_when_the_issuer_is_broken_or_gone(own_issuer: Issuer, tmp_path: Path) -> None:
    issuer = own_issuer
    node = NodeProcess(tmp_path, configuration=configuration(issuer))
    try:
        assert not refuses(node, issuer.token(f"{ALL} {MANAGEMENT}"))
        for broken in ((500, b""), (200, b"no JSON"), (200, b'{"keys": []}'), (200, b"[" * 1_000_000)):
            issuer.broken_set = broken
            fetches = issuer.fetches
            assert _refuses_over_amqp(node, issuer.token(ALL, kid="invented"))
            assert issuer.fetches > fetches
            assert not refuses(node, issuer.token(f"{ALL} {MANAGEMENT}"))
        issuer.close()
        assert _refuses_over_amqp(node, issuer.token(ALL, kid="invented too"))
        assert not refuses(node, issuer.token(f"{ALL} {MANAGEMENT}", user="bob"))
    finally:
        node.stop()
        issuer.__init__(issuer.port)  # type: ignore[misc] # the fixture closes it


def test_the_issuers_discovery_document_has_the_place_of_the_keys(own_issuer: Issuer, tmp_path: Path) -> None:
    issuer = own_issuer
    lines = configuration(issuer).replace(f"jwks_url = {issuer.jwks_url}", f"issuer = {issuer.url}")
    node = NodeProcess(tmp_path, configuration=lines)
    try:
        assert not refuses(node, issuer.token(f"{ALL} {MANAGEMENT}"))
        assert refuses(node, issuer.token(ALL, iss="https://other.example"))
    finally:
        node.stop()


def test_a_key_may_be_a_file_and_a_token_may_name_none(own_issuer: Issuer, tmp_path: Path) -> None:
    issuer = own_issuer
    file = tmp_path / "key.pem"
    file.write_bytes(issuer.public_pem())
    key = f"signing_keys.ours = {file}\nauth_oauth2.default_key = ours"
    node = NodeProcess(
        tmp_path / "node", configuration=configuration(issuer).replace(f"jwks_url = {issuer.jwks_url}", key)
    )
    try:
        assert not refuses(node, issuer.token(f"{ALL} {MANAGEMENT}", kid="ours"))
        assert not refuses(node, issuer.token(f"{ALL} {MANAGEMENT}", kid=None))
        assert refuses(node, issuer.token(ALL))
        assert issuer.fetches == 0
    finally:
        node.stop()


def test_a_token_may_authenticate_a_user_whose_permissions_are_this_brokers(own_issuer: Issuer, tmp_path: Path) -> None:
    issuer = own_issuer
    lines = configuration(issuer).replace(
        "auth_backends.1 = rabbit_auth_backend_oauth2", "auth_backends.1.authn = oauth2"
    )
    node = NodeProcess(tmp_path, configuration=f"{lines}auth_backends.1.authz = internal\n")
    try:
        connection = opened(node, issuer.token("", user="guest"))
        connection.channel().call("queue.declare", queue="by the permissions of guest")
        connection.close()
        assert refuses(node, issuer.token(ALL, user="alice"))
    finally:
        node.stop()


# -- expiry and renewal


def test_a_connection_is_closed_when_its_token_expires(node: NodeProcess, issuer: Issuer) -> None:
    expires_at = int(time.time()) + 3
    connection = opened(node, issuer.token(ALL, exp=expires_at))
    channel = connection.channel()
    channel.call("queue.declare", queue="", exclusive=True)
    close = connection.expect(0, "connection.close")
    assert time.time() > expires_at - ROUNDING_S
    assert close.reply_code == 403
    assert close.reply_text.startswith(
        f"ACCESS_REFUSED - Provided JWT token has expired at timestamp {expires_at} (validated at "
    )
    connection.cut()


def test_a_renewed_token_keeps_the_connection_open(node: NodeProcess, issuer: Issuer) -> None:
    first = int(time.time()) + 3
    connection = opened(node, issuer.token(ALL, exp=first))
    channel = connection.channel()
    renew(connection, issuer.token(ALL, exp=first + 4))
    connection.expect(0, "connection.update-secret-ok")
    eventually(lambda: time.time() > first + 0.5, lambda: "time stands still")
    channel.call("queue.declare", queue="", exclusive=True)
    close = connection.expect(0, "connection.close")
    assert time.time() > first + 4 - ROUNDING_S
    assert f"expired at timestamp {first + 4} " in close.reply_text
    connection.cut()


def test_the_scopes_of_a_renewed_token_count_at_once(node: NodeProcess, issuer: Issuer) -> None:
    connection = opened(node, issuer.token(ALL))
    channel = connection.channel()
    channel.confirm()
    channel.publish("amq.topic", "shop.1")
    channel.expect("basic.ack")
    with connection.one_write():
        channel.publish("amq.topic", "shop.1")
        renew(connection, issuer.token("rabbitmq.read:%2F/*"))
        channel.publish("amq.topic", "shop.1")
    channel.expect("basic.ack")
    connection.expect(0, "connection.update-secret-ok")
    channel.expect_close(
        403,
        "ACCESS_REFUSED - access to exchange 'amq.topic' in vhost '/' refused for user 'alice'",
        "basic.publish",
    )
    renew(connection, issuer.token(ALL))
    connection.expect(0, "connection.update-secret-ok")
    channel = connection.channel()
    channel.confirm()
    channel.publish("amq.topic", "shop.1")
    channel.expect("basic.ack")
    connection.close()


def test_a_bad_renewal_closes_the_connection(node: NodeProcess, issuer: Issuer) -> None:
    bad = {
        "of another user": issuer.token(ALL, user="mallory"),
        "expired": issuer.token(ALL, exp=int(time.time()) - 1),
        "for another audience": issuer.token(ALL, aud="other"),
        "forged": _with_header(issuer.token(ALL), alg="none"),
        "no token": "secret",
        "empty": "",
    }
    for name, token in bad.items():
        connection = opened(node, issuer.token(ALL))
        connection.channel()
        renew(connection, token)
        close = connection.expect(0, "connection.close")
        assert (name, close.reply_code, close.reply_text) == (name, 530, NEW_SECRET_REFUSED)
        connection.cut()


def test_the_password_of_a_user_of_this_broker_is_not_renewed(node: NodeProcess, connect: Connect) -> None:
    connection = Connection.opened(node.amqp)
    renew(connection, "anything")
    connection.expect(0, "connection.update-secret-ok")
    connection.close()
