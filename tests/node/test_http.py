"""The HTTP listeners of a real node: TLS, ports, limits from the configuration, and the end."""

import base64
import http.client
import json
import socket
import ssl
import subprocess
from pathlib import Path
from typing import Any

from tests.node.certificate_files import Authority
from tests.node.conftest import Serve
from tests.node.serving import COMMAND, DEADLINE_S, Serving

LOGIN = {"authorization": "Basic " + base64.b64encode(b"guest:guest").decode()}


def asked(
    connection: http.client.HTTPConnection, path: str, method: str = "GET", headers: dict[str, str] | None = None
) -> tuple[int, dict[str, str], bytes]:
    connection.request(method, path, headers={**LOGIN, **(headers or {})})
    answer = connection.getresponse()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()


def plain(node: Serving) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(*node.address("http"), timeout=DEADLINE_S)


def secure_configuration(authority: Authority, *lines: str) -> str:
    certificate = authority.server
    return "\n".join(
        [
            "listeners.tcp.1 = 127.0.0.1:0",
            "management.ssl.port = 0",
            "management.ssl.ip = 127.0.0.1",
            f"management.ssl.certfile = {certificate.certificate}",
            f"management.ssl.keyfile = {certificate.key}",
            *lines,
            "",
        ]
    )


def test_the_api_is_served_over_tls(serve: Serve, authority: Authority) -> None:
    node = serve(configuration=secure_configuration(authority))
    context = ssl.create_default_context(cafile=authority.path)
    connection = http.client.HTTPSConnection("localhost", node.address("http")[1], context=context, timeout=DEADLINE_S)
    status, _, body = asked(connection, "/api/overview")
    assert status == 200
    [listener] = [row for row in json.loads(body)["listeners"] if row["protocol"] == "https"]
    assert listener["port"] == node.address("http")[1]
    connection.close()
    assert node.stop() == 0


def test_certificates_that_expire_soon_fail_the_health_check(serve: Serve, authority: Authority) -> None:
    node = serve(configuration=secure_configuration(authority))
    context = ssl.create_default_context(cafile=authority.path)
    connection = http.client.HTTPSConnection("localhost", node.address("http")[1], context=context, timeout=DEADLINE_S)
    assert asked(connection, "/api/health/checks/certificate-expiration/1/days")[0] == 200
    status, _, body = asked(connection, "/api/health/checks/certificate-expiration/9999/years")
    told: dict[str, Any] = json.loads(body)
    assert (status, told["reason"]) == (503, "Certificates expiring")
    assert told["expired"][0]["certfile"] == authority.server.certificate
    connection.close()


def test_a_tls_port_does_not_serve_plain_http(serve: Serve, authority: Authority) -> None:
    node = serve(configuration=secure_configuration(authority))
    with socket.create_connection(node.address("http"), timeout=DEADLINE_S) as client:
        client.sendall(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert not client.recv(65536).startswith(b"HTTP/1.1 200")
    node.wait_for(lambda: node.events("tls_handshake.failed"))


def test_a_port_in_use_is_named_with_a_way_out(serve: Serve, tmp_path: Path) -> None:
    host, port = serve().address("http")
    refused = subprocess.run(
        [*COMMAND, "serve", "--amqp", "127.0.0.1:0", "--http", f"{host}:{port}", "--data", str(tmp_path / "data")],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert refused.returncode == 3
    assert refused.stderr == (
        f"warren: port {port} of 127.0.0.1 is in use; choose another with --http HOST:PORT (port 0 picks a free one) "
        "or management.tcp.port\n"
    )


def test_a_node_ends_although_a_client_keeps_a_connection_open(serve: Serve) -> None:
    node = serve()
    idle = plain(node)
    assert asked(idle, "/api/whoami")[0] == 200
    with socket.create_connection(node.address("http"), timeout=DEADLINE_S) as silent:
        silent.sendall(b"GET /api/whoami HTTP/1.1\r\n")
        assert node.stop() == 0
    idle.close()


def test_configured_limits_hold(serve: Serve) -> None:
    node = serve(
        configuration="listeners.tcp.1 = 127.0.0.1:0\nmanagement.tcp.port = 0\nmanagement.tcp.ip = 127.0.0.1\n"
        "management.tcp.request_timeout = 5000\nmanagement.http.max_body_size = 10\n"
    )
    with socket.create_connection(node.address("http"), timeout=DEADLINE_S) as slow:
        assert slow.recv(65536).startswith(b"HTTP/1.1 408 ")
    connection = plain(node)
    connection.request("POST", "/api/login", body=b"x" * 11)
    assert connection.getresponse().status == 413
    connection.close()


def test_pages_of_any_origin_may_use_only_logins_of_their_own(serve: Serve) -> None:
    node = serve(
        configuration="listeners.tcp.1 = 127.0.0.1:0\nmanagement.tcp.port = 0\nmanagement.cors.allow_origins.1 = *\n"
    )
    connection = plain(node)
    elsewhere = {"origin": "https://b.example", "sec-fetch-site": "cross-site"}
    _, headers, _ = asked(connection, "/api/whoami", headers=elsewhere)
    assert headers["access-control-allow-origin"] == "*"
    assert "access-control-allow-credentials" not in headers
    assert asked(connection, "/api/vhosts/theirs", "PUT", elsewhere)[0] == 201
    # a form of any page can send these without asking, with the login that the browser remembers
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        posted = {**elsewhere, "content-type": kind}
        assert asked(connection, "/api/vhosts/theirs/start/warren@here", "POST", posted)[0] == 403
    posted = {**elsewhere, "content-type": "application/json"}
    assert asked(connection, "/api/vhosts/theirs/start/warren@here", "POST", posted)[0] != 403
    connection.close()


def test_a_client_on_this_machine_must_use_a_name_of_the_node(serve: Serve) -> None:
    node = serve(
        configuration="listeners.tcp.1 = 127.0.0.1:0\nmanagement.tcp.port = 0\nmanagement.allow_hosts.1 = mq.example\n"
    )
    connection = plain(node)
    for name in (
        "localhost",
        "LOCALHOST:15672",
        "warren.localhost:80",
        "127.0.0.1:1",
        "[::1]:15672",
        "[::1]",
        "MQ.example:80",
    ):
        assert asked(connection, "/api/whoami", headers={"host": name})[0] == 200, name
    for name in (
        "evil.example",
        "evil.example:15672",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "mq.example.evil",
    ):
        for path in ("/api/whoami", "/metrics", "/"):
            assert asked(connection, path, headers={"host": name})[0] == 421, name
    # load balancers on this machine ask by any name
    assert asked(connection, "/api/warren/fitness", headers={"host": "evil.example"})[0] == 200
    connection.close()


def test_pages_of_an_allowed_origin_may_ask_and_change(serve: Serve) -> None:
    origin = "https://a.example"
    node = serve(
        "--name",
        "hare@here",
        configuration="listeners.tcp.1 = 127.0.0.1:0\nmanagement.tcp.port = 0\n"
        f"management.cors.allow_origins.1 = {origin}\n",
    )
    connection = plain(node)
    from_there = {"origin": origin, "sec-fetch-site": "cross-site"}
    _, headers, _ = asked(connection, "/api/whoami", headers=from_there)
    assert headers["access-control-allow-origin"] == origin
    assert headers["access-control-allow-credentials"] == "true"
    status, _, _ = asked(connection, "/api/auth/attempts/hare@here", "DELETE", from_there)
    assert status == 204
    wish = {**from_there, "access-control-request-method": "PUT", "access-control-request-headers": "authorization"}
    _, headers, _ = asked(connection, "/api/whoami", "OPTIONS", wish)
    assert headers["access-control-allow-methods"] == "PUT"
    assert headers["access-control-allow-headers"] == "authorization"
    assert headers["access-control-max-age"] == "1800"
    connection.close()
