"""The fitness check that load balancers ask, and a real HAProxy that uses it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

from tests.admin.calling import Api, connected
from tests.admin.three_nodes import Trio, eventually
from tests.support.haproxy import HAProxy
from tests.support.node_process import NodeProcess
from warren.cli.cluster.node_processes import end_members

FITNESS = "warren/fitness"
DRAINING = "nodes/hare@here/draining"
DISK = "warren/settings/disk_free_limit.absolute"
MEMORY = "warren/settings/vm_memory_high_watermark.absolute"


def asked(api: Api, query: str = "") -> tuple[int, str, list[str]]:
    """Without a password: the status, the standing, and the codes of the reasons."""
    heard = api.get(f"{FITNESS}{query}", user=None)
    return heard.status, heard.json["status"], [reason["code"] for reason in heard.json["reasons"]]


@pytest.fixture
def short_of_disk(api: Api) -> Iterator[None]:
    assert api.call("PUT", DISK, {"value": "1000TB"}).status == 204
    yield
    assert api.call("PUT", DISK, {"value": 50_000_000}).status == 204


@pytest.fixture
def draining(api: Api) -> Iterator[None]:
    assert api.call("PUT", DRAINING).status == 204
    yield
    assert api.call("DELETE", DRAINING).status == 204


def test_the_fitness_of_a_node_needs_no_login(api: Api) -> None:
    heard = api.get(FITNESS, user=None)
    assert (heard.status, heard.json) == (200, {"status": "fit", "node": "hare@here", "reasons": []})
    assert api.call("HEAD", FITNESS, user=None).status == 200
    assert api.get(FITNESS, user=("guest", "wrong")).status == 200


def test_a_node_with_an_alarm_serves_its_clients_but_wants_no_new_ones(api: Api, short_of_disk: None) -> None:
    assert asked(api) == (503, "reluctant", ["disk_alarm"])
    [reason] = api.get(FITNESS, user=None).json["reasons"]
    assert reason["sentence"] == "It has less free disk space than it needs, so publishers wait."
    assert asked(api, "?reluctant=404")[0] == 404
    assert asked(api, "?reluctant=200") == (200, "reluctant", ["disk_alarm"])


def test_every_reason_is_reported(api: Api, short_of_disk: None, draining: None) -> None:
    assert asked(api) == (503, "reluctant", ["disk_alarm", "draining"])


def test_an_operator_may_want_a_node_to_have_no_new_clients(api: Api) -> None:
    assert api.read("nodes/hare@here")["being_drained"] is False
    assert api.call("PUT", DRAINING).status == 204
    assert asked(api) == (503, "reluctant", ["draining"])
    assert api.read("nodes/hare@here")["being_drained"] is True
    connected(api.node).close()
    assert api.call("DELETE", DRAINING).status == 204
    assert asked(api) == (200, "fit", [])
    assert api.read("nodes/hare@here")["being_drained"] is False


def test_draining_a_node_needs_a_login(api: Api) -> None:
    assert api.call("PUT", DRAINING, user=None).status == 401
    assert api.call("PUT", "nodes/other@there/draining").status == 404
    assert asked(api)[0] == 200


@pytest.mark.parametrize("wanted", ["", "204", "503 ", "yes"])
def test_an_answer_in_an_unknown_form_cannot_be_asked_for(api: Api, wanted: str) -> None:
    heard = api.get(f"{FITNESS}?reluctant={wanted.replace(' ', '%20')}", user=None)
    assert heard.status == 400
    assert heard.reason == f"reluctant must be one of 200, 404, 503, not {wanted!r}"


def test_a_node_that_is_stopped_is_unfit(tmp_path: Path) -> None:
    node = NodeProcess(tmp_path, "--name", "hare@here")
    api = Api(node)
    assert api.call("POST", "warren/membership/stop_app", {}).status == 204

    def told() -> Any:
        try:
            return api.get(f"{FITNESS}?reluctant=200", user=None)
        except OSError:
            return None

    heard = eventually(told, lambda heard: heard is not None and heard.status != 200)
    assert heard.status == 503
    sentence = "The node is stopped, and serves no clients."
    assert heard.json == {
        "status": "unfit",
        "node": "hare@here",
        "reasons": [{"code": "stopped", "sentence": sentence}],
    }
    node.kill()


def test_a_member_that_does_not_hear_from_the_store_is_behind(tmp_path: Path) -> None:
    pair = Trio(tmp_path / "pair", "--nodes", "2")
    try:
        eventually(lambda: asked(pair[0].api), lambda found: found == (200, "fit", []))
        pair.run("kill", "n2")
        end_members([pair.directory / "n2"])
        eventually(lambda: asked(pair[0].api), lambda found: found == (503, "reluctant", ["behind"]))
        assert asked(pair[0].api, "?reluctant=200")[0] == 200
        pair.run("start", "n2")
        eventually(lambda: asked(pair[0].api), lambda found: found == (200, "fit", []))
    finally:
        pair.run("down")


def test_haproxy_sends_no_new_clients_to_a_reluctant_node_and_leaves_the_others_alone(tmp_path: Path) -> None:
    node = NodeProcess(tmp_path / "node", "--name", "hare@here")
    api = Api(node)
    (host, amqp), (_, http) = node.addresses["amqp"], node.addresses["http"]
    balancer = HAProxy(
        tmp_path,
        "listen amqp",
        "    mode tcp",
        "    bind {port}",
        "    option httpchk GET /api/warren/fitness?reluctant=404",
        "    http-check disable-on-404",
        f"    server n1 {host}:{amqp} check port {http} inter 100ms fall 2 rise 1 on-marked-down shutdown-sessions",
    )
    try:
        balancer.await_state("amqp/n1", "UP")
        node.addresses["amqp"] = balancer.address
        connection = connected(node)
        channel = connection.channel()
        assert api.call("PUT", DRAINING).status == 204
        balancer.await_state("amqp/n1", "NOLB")
        with pytest.raises(pika.exceptions.AMQPError):
            connected(node)
        channel.queue_declare("still-here")
        assert api.call("DELETE", DRAINING).status == 204
        balancer.await_state("amqp/n1", "UP")
        connected(node).close()
        connection.close()
        node.stop()
        balancer.await_state("amqp/n1", "DOWN")
    finally:
        balancer.close()
        if node.alive:
            node.kill()
