"""`warren ctl` commands about federation links."""

import json
import time

from tests.ctl.conftest import Ctl
from tests.node.serving import Serving
from tests.support.amqp_client import Connection

DEADLINE_S = 30.0


def status_of(ctl: Ctl, *options: str) -> list[dict[str, str]]:
    said = ctl("-q", "--formatter", "json", "federation_status", *options)
    assert said.code == 0, said.err
    found: list[dict[str, str]] = json.loads(said.out)
    return found


def linked(ctl: Ctl) -> list[dict[str, str]]:
    """The links, when none of them is on its way."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        links = status_of(ctl)
        if links and all(link["status"] != "starting" for link in links):
            return links
        assert time.monotonic() < deadline, links
        time.sleep(0.05)


def test_links_are_listed_and_restarted(node: Serving, ctl: Ctl) -> None:
    assert status_of(ctl) == []
    connection = Connection.opened(node.address())
    connection.channel().call("exchange.declare", exchange="fx", type="topic")
    upstream = json.dumps({"uri": "amqp:///", "exchange": "source"})
    assert ctl("set_parameter", "federation-upstream", "up", upstream).code == 0
    assert ctl("set_policy", "--apply-to", "exchanges", "fed", "^fx$", '{"federation-upstream-set": "all"}').code == 0
    [link] = linked(ctl)
    shown = {
        name: link[name] for name in ("type", "exchange", "upstream_exchange", "queue", "upstream", "status", "error")
    }
    assert shown == {
        "type": "exchange",
        "exchange": "fx",
        "upstream_exchange": "source",
        "queue": "",
        "upstream": "up",
        "status": "running",
        "error": "",
    }
    assert status_of(ctl, "--only-down") == []
    said = ctl("restart_federation_link", link["id"])
    assert (said.code, said.out) == (0, f"Restarting federation link {link['id']} on node warren@here\n")
    assert [each["status"] for each in linked(ctl)] == ["running"]
    connection.close()


def test_a_link_that_is_down_is_shown_with_its_reason(ctl: Ctl) -> None:
    assert (
        ctl(
            "set_policy", "--apply-to", "exchanges", "--priority", "1", "fed2", "^fx$", '{"federation-upstream": "no"}'
        ).code
        == 0
    )
    deadline = time.monotonic() + DEADLINE_S
    while not (down := status_of(ctl, "--only-down")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert "the upstream 'no', which virtual host '/' does not have" in down[0]["error"]
    table = ctl("federation_status", "--only-down").out.splitlines()
    assert table[0] == "Listing federation links which are down on node warren@here..."
    assert table[1].split("\t")[:3] == ["id", "vhost", "type"]


def test_a_missing_link_cannot_be_restarted(ctl: Ctl) -> None:
    said = ctl("-q", "restart_federation_link", "00000000")
    assert said.code != 0
    assert "Link with the given ID was not found" in said.err
    assert ctl("restart_federation_link").code == 64
