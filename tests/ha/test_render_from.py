"""`warren ha render --from`: addresses that are not nodes, options without effect, and machines without programs."""

import os
import pwd
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.ha.front import warren
from tests.support.debian import environment
from tests.unit.cli.ha.deployments import FILE, deployment
from warren.cli.ha import bundle
from warren.cli.ha.bundle import RenderedFile, write_all
from warren.errors import ConfigError, WarrenError

DOORS = ("--virtual", "127.0.0.10/8", "--balancer", "lb1=127.0.0.11", "--balancer", "lb2=127.0.0.12")


@contextmanager
def stranger(body: bytes) -> Iterator[str]:
    """A web server that answers every question in the same way."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *words: object) -> None:
            """The answer is not read."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("body", [b"<html>", b"{}", b"[1]", b'[{"uptime": 5}]'])
def test_a_server_that_is_no_node_is_reported_as_such(tmp_path: Path, body: bytes) -> None:
    with stranger(body) as url:
        done = warren("ha", "render", "--from", url, *DOORS, "--out", str(tmp_path / "out"))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"warren: the server at {url} is not a node of Warren: it reports no nodes\n"
    assert not (tmp_path / "out").exists()


def test_options_that_a_file_would_overrule_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "ours.toml"
    file.write_text(FILE)
    done = warren("ha", "render", str(file), "--virtual", "10.0.0.99/24", "--out", str(tmp_path / "out"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "--virtual and --balancer belong to --from" in done.stderr
    assert not (tmp_path / "out").exists()


def test_files_are_the_same_wherever_they_are_rendered(tmp_path: Path) -> None:
    """A locale without the characters of a comment is no reason to end with a traceback."""
    file = tmp_path / "ours.toml"
    file.write_text(f"# Türöffner\n{FILE}", encoding="utf-8")
    words = ("ha", "render", str(file), "--unchecked", "--out", str(tmp_path / "out"))
    done = warren(*words, PYTHONUTF8="0", PYTHONCOERCECLOCALE="0", LC_ALL="POSIX", LANG="POSIX")
    assert (done.returncode, done.stderr) == (0, "")
    unit = tmp_path / "out/warren-at-n1/etc/systemd/system/warren.service"
    assert "WARREN_DEFAULT_PASS=…" in unit.read_text(encoding="utf-8")


def test_a_user_without_a_name_gets_a_warning_that_keepalived_would_check_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_such_user(number: int) -> pwd.struct_passwd:
        raise KeyError(number)

    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(pwd, "getpwuid", no_such_user)
    with pytest.raises(ConfigError, match=r"Keepalived checks nothing for a user without a name.*or give --unchecked"):
        bundle.check_configurations(deployment())


def test_a_deployment_in_the_folder_keeps_its_comments(tmp_path: Path) -> None:
    file = tmp_path / "deployment.toml"
    file.write_text(f"# mine\n{FILE}")
    done = warren("ha", "render", str(file), "--unchecked", "--out", str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert file.read_text() == f"# mine\n{FILE}"
    assert str(file) not in done.stdout
    assert (tmp_path / "lb1/etc/haproxy/haproxy.cfg").exists()


def test_a_folder_that_was_made_for_nothing_is_taken_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(source: Path, target: Path) -> None:
        raise OSError(28, "No space left on device", str(target))

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(WarrenError, match=r"nothing was written: .*: No space left on device"):
        write_all(tmp_path / "a/b", [RenderedFile("c/one", "text")])
    assert list(tmp_path.iterdir()) == []
