"""Balancers before nodes that take nothing but TLS: it is passed on, and nodes are asked through it."""

import json
import ssl
import urllib.request
from pathlib import Path

from tests.ha.front import VIRTUAL, front, warren
from tests.node.certificate_files import Authority
from tests.support.ports import free_port
from warren.client import blocking


def test_tls_is_ended_by_the_node_which_sees_the_client(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    ports = {"amqps": free_port(), "https": free_port()}
    lines = (
        f"listeners.ssl.1 = 127.0.0.1:{ports['amqps']}\n"
        f"management.ssl.port = {ports['https']}\nmanagement.ssl.ip = 127.0.0.1\n"
        f"ssl_options.cacertfile = {authority.path}\n"
        f"ssl_options.certfile = {authority.server.certificate}\nssl_options.keyfile = {authority.server.key}\n"
        f"management.ssl.certfile = {authority.server.certificate}\nmanagement.ssl.keyfile = {authority.server.key}\n"
    )
    with front(tmp_path, "n1", more_lines=lines, secure=ports) as made:
        front_ports = made.deployment.ports
        trust = f"cacertfile={authority.path}&server_name_indication=localhost"
        with blocking.connect(f"amqps://guest:guest@{VIRTUAL}:{front_ports['amqps']}/?{trust}"):
            [row] = made.ask("n1", "/api/connections")
        assert row["ssl"] is True
        assert row["name"].endswith(f"-> {VIRTUAL}:{front_ports['amqps']}")
        url = f"https://{VIRTUAL}:{front_ports['https']}/api/warren/fitness"
        context = ssl.create_default_context(cafile=authority.path)
        context.check_hostname = False
        with urllib.request.urlopen(url, context=context, timeout=20) as answer:
            assert json.load(answer)["node"] == "warren@n1"
        told = warren("ha", "check", str(made.file)).stdout.splitlines()
    assert told[-1] == "nothing is wrong", told
    assert f"good     balancer lb2 forwards AMQP clients at 127.0.0.12:{front_ports['amqps']} to Warren 3.10.8" in told
