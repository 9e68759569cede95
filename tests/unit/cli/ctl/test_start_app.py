"""`warren ctl start_app` while the node's port passes from the stopped node to the running one."""

import json
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests.unit.cli.ctl.test_api import run, serving
from warren.node.peers.cookie import COOKIE_PROOF_HEADER


def test_a_node_that_hangs_up_in_the_midst_of_starting_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cookie = tmp_path / "cookie"
    cookie.write_text("5a" * 32 + "\n")
    cookie.chmod(0o400)
    monkeypatch.setenv("WARREN_CLUSTER__COOKIE_FILE", str(cookie))
    ordered, hung_up = [], []

    def reply(request: BaseHTTPRequestHandler) -> tuple[int, bytes] | None:
        if request.command == "POST":
            request.rfile.read(int(request.headers["Content-Length"]))
            ordered.append(request.path)
            return 204, b""
        if ordered and not hung_up and COOKIE_PROOF_HEADER in request.headers:
            hung_up.append(request.path)
            return None
        app = "running" if hung_up else "stopped"
        return 200, json.dumps({"node": "hare@here", "app": app, "trouble": ""}).encode()

    with serving(reply) as port:
        assert run("--http", f"127.0.0.1:{port}", "--timeout", "30", "start_app") == 0
    assert ordered == ["/api/warren/membership/start_app"]
    assert hung_up
