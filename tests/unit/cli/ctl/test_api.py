"""The HTTP client against various servers: with a certificate, behind a path, slow, broken, or without the API."""

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import trustme

from warren.cli.main import run as run_warren

Reply = Callable[[BaseHTTPRequestHandler], tuple[int, bytes] | None]


def run(*words: str) -> int:
    return run_warren(["ctl", "-q", *words])


@contextmanager
def serving(reply: Reply, context: ssl.SSLContext | None = None) -> Iterator[int]:
    """A server on loopback that answers every request with `reply`, or closes the connection if there is none."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            answer = reply(self)
            if answer is None:
                return
            status, body = answer
            # the client may have gone meanwhile
            with suppress(ConnectionError):
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        do_GET = do_PUT = do_POST = do_DELETE = answer  # noqa: N815  the names http.server looks for

        def log_message(self, format: str, *arguments: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def users(request: BaseHTTPRequestHandler) -> tuple[int, bytes]:
    return (200, b'[{"name":"ops","tags":[]}]') if request.path.endswith("/api/users") else (404, b"{}")


def test_a_certificate_is_checked_against_the_file_that_is_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    with serving(users, context) as port:
        url = f"https://127.0.0.1:{port}"
        assert run("--http", url, "--ca-file", str(tmp_path / "ca.pem"), "list_users") == 0
        assert capsys.readouterr().out == "user\ttags\nops\t[]\n"
        assert run("--http", url, "list_users") == 69
        assert "certificate verify failed" in capsys.readouterr().err
        assert run("--http", url, "--ca-file", str(tmp_path / "nowhere.pem"), "list_users") == 69
        assert "No such file" in capsys.readouterr().err


def test_an_api_behind_a_path_is_found_there(capsys: pytest.CaptureFixture[str]) -> None:
    asked = []

    def reply(request: BaseHTTPRequestHandler) -> tuple[int, bytes]:
        asked.append(request.path)
        return users(request)

    with serving(reply) as port:
        assert run("--http", f"http://127.0.0.1:{port}/broker/", "list_users") == 0
    assert asked == ["/broker/api/users"]


def test_names_are_one_segment_of_a_path_each(capsys: pytest.CaptureFixture[str]) -> None:
    asked = []

    def reply(request: BaseHTTPRequestHandler) -> tuple[int, bytes]:
        asked.append(f"{request.command} {request.path}")
        return 204, b""

    with serving(reply) as port:
        assert run("--http", f"127.0.0.1:{port}", "-p", "/", "purge_queue", "a/b ../%é😀?#") == 0
    assert asked == ["DELETE /api/queues/%2F/a%2Fb%20..%2F%25%C3%A9%F0%9F%98%80%3F%23/contents"]


def test_a_request_has_the_user_the_password_and_the_body(capsys: pytest.CaptureFixture[str]) -> None:
    sent = []

    def reply(request: BaseHTTPRequestHandler) -> tuple[int, bytes]:
        body = request.rfile.read(int(request.headers["Content-Length"]))
        sent.append((request.headers["Authorization"], json.loads(body)))
        return 201, b""

    with serving(reply) as port:
        options = ("--http", f"127.0.0.1:{port}", "--user", "ops", "--password", "s:é")
        assert run(*options, "set_permissions", "you", "^é", "", ".*") == 0
    assert sent == [("Basic b3BzOnM6w6k=", {"configure": "^é", "write": "", "read": ".*"})]


def test_an_answer_that_comes_too_late_is_not_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    given_up = threading.Event()

    def reply(request: BaseHTTPRequestHandler) -> tuple[int, bytes]:
        given_up.wait(30)
        return 200, b"[]"

    with serving(reply) as port:
        assert run("--http", f"127.0.0.1:{port}", "--timeout", "1", "list_users") == 75
        assert capsys.readouterr().err.endswith("timed out. Timeout value used: 1\n")
        given_up.set()


@pytest.mark.parametrize(
    ("status", "body", "exit_code", "reason"),
    [
        (502, b"<html>a proxy's page</html>", 70, "Bad Gateway"),
        (400, b'{"error":"bad_request","reason":"&lt;&lt;\\"a\\"&gt;&gt; is wrong"}', 69, '<<"a">> is wrong'),
        (400, b'{"error":"bad_request","reason":["no_such_user","x"]}', 69, '{:no_such_user, "x"}'),
        (401, b'{"error":"not_authorised","reason":"Not administrator user"}', 69, "Not administrator user"),
        (404, b'{"error":"Object Not Found","reason":"Not Found"}', 69, "Not Found"),
    ],
    ids=str,
)
def test_a_refusal_is_printed_in_the_servers_words(
    status: int, body: bytes, exit_code: int, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(lambda request: (status, body)) as port:
        assert run("--http", f"127.0.0.1:{port}", "list_users") == exit_code
    assert capsys.readouterr().err == f"Error:\n{reason}\n"


def test_a_password_is_right_even_if_its_user_may_not_use_the_api(capsys: pytest.CaptureFixture[str]) -> None:
    body = b'{"error":"not_authorised","reason":"Not management user"}'
    with serving(lambda request: (401, body)) as port:
        assert run("--http", f"127.0.0.1:{port}", "authenticate_user", "ops", "right") == 0
    body = b'{"error":"not_authorized","reason":"Login failed"}'
    with serving(lambda request: (401, body)) as port:
        assert run("--http", f"127.0.0.1:{port}", "authenticate_user", "ops", "wrong") == 65
