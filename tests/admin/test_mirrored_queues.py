"""Mirrored queues as operators see and command them at every node.

The last test kills a node; the tests before it need all three.
"""

import json
from collections.abc import Iterator
from typing import Any

import pika
import pytest

from tests.admin.three_nodes import OneNode, Trio, eventually

LARGE = b"x" * 256 * 1024
LARGE_COUNT = 100
SYNC_PACE = "2MB"
"""A second: slow enough for the large ones to be seen, and stopped, on their way."""


@pytest.fixture(scope="module")
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trio]:
    directory = tmp_path_factory.mktemp("trio")
    (directory / "nodes.conf").write_text(f"mirroring_sync_max_throughput = {SYNC_PACE}\n")
    made = Trio(directory / "cluster", "--nodes", "3", "--config", str(directory / "nodes.conf"))
    yield made
    made.run("down")


def publish(node: OneNode, queue: str, count: int, body: bytes = b"x", arguments: dict[str, Any] | None = None) -> None:
    """Declare the queue, if it is not there, and publish; everything is confirmed."""
    with node.connect() as connection:
        channel = connection.channel()
        channel.queue_declare(queue, durable=True, arguments=arguments)
        channel.confirm_delivery()
        for _ in range(count):
            channel.basic_publish("", queue, body, pika.BasicProperties(delivery_mode=2))


def hold_on_first_nodes(trio: Trio, queue: str, count: int) -> None:
    """Let a policy place a queue of the same name on the first nodes."""
    definition = {"ha-mode": "nodes", "ha-params": trio.names[:count]}
    policy = {"pattern": f"^{queue}$", "definition": definition, "apply-to": "queues"}
    assert trio[2].api.call("PUT", f"policies/%2F/{queue}", policy).status in (201, 204)


def row(node: OneNode, queue: str) -> dict[str, Any]:
    found: dict[str, Any] = node.api.read(f"queues/%2F/{queue}")
    return found


def order(node: OneNode, queue: str, action: str) -> int:
    return node.api.call("POST", f"queues/%2F/{queue}/actions", {"action": action}).status


def synced(node: OneNode, queue: str) -> list[str]:
    found: list[str] = row(node, queue)["synchronised_slave_nodes"]
    return found


def handed_out(told: dict[str, Any]) -> bool:
    """Whether both consumers have what they may have: their nodes count it when it has come there."""
    return told["messages_unacknowledged"] == 4 and told["message_stats"].get("deliver") == 4


def test_a_mirrored_queue_is_shown_alike_by_every_node(trio: Trio) -> None:
    publish(trio[1], "work", 10, arguments={"x-ha-mode": "all"})
    with trio[0].connect() as elsewhere, trio[1].connect() as at_the_master:
        for connection, tag in ((elsewhere, "far"), (at_the_master, "near")):
            channel = connection.channel()
            channel.basic_qos(prefetch_count=2)
            channel.basic_consume("work", lambda *delivery: None, consumer_tag=tag)
        for node in trio.nodes:
            told = eventually(lambda node=node: row(node, "work"), handed_out)
            assert (told["node"], told["state"]) == (trio.names[1], "running")
            assert (told["messages"], told["messages_ready"], told["consumers"]) == (10, 6, 2)
            assert sorted(told["slave_nodes"]) == sorted(told["synchronised_slave_nodes"]) == trio.names[::2]
            assert sorted(told["recoverable_slaves"]) == trio.names[::2]
            assert {one["consumer_tag"] for one in told["consumer_details"]} == {"far", "near"}
            stats = told["message_stats"]
            assert (stats["publish"], stats["deliver"], stats["ack"]) == (10, 4, 0)
            assert told["ring"]["epoch"] == 1
            assert sorted(told["ring"]["in_sync"]) == sorted(told["ring"]["members"]) == trio.names
            (listed,) = node.api.read(
                "queues?sort=messages&columns=name,node,messages,slave_nodes,message_stats.publish"
            )
            assert listed["messages"] == 10
            assert listed["message_stats"] == {"publish": 10}
            assert sorted(listed["slave_nodes"]) == trio.names[::2]
            totals = node.api.read("overview")
            assert (totals["queue_totals"]["messages"], totals["object_totals"]["consumers"]) == (10, 2)
            assert totals["object_totals"]["queues"] == 1
            assert len(node.api.read("consumers")) == 2
            assert node.api.read("vhosts/%2F")["messages"] == 10


def test_only_the_masters_node_counts_a_mirrored_queue_in_its_metrics(trio: Trio) -> None:
    counted = [node.api.get("/metrics", user=None).body.decode() for node in trio.nodes]
    assert ["rabbitmq_queues 1\n" in text for text in counted] == [False, True, False]
    assert ["rabbitmq_queue_messages 10\n" in text for text in counted] == [False, True, False]


def test_the_command_line_lists_a_queues_mirrors(trio: Trio) -> None:
    line = trio[2].ctl("-q", "list_queues", "name", "pid", "slave_pids", "synchronised_slave_pids").splitlines()[1]
    name, process, mirrors, in_sync = line.split("\t")
    assert (name, process) == ("work", f"<{trio.names[1]}.work>")
    for cell in (mirrors, in_sync):
        assert sorted(cell.strip("[]").split(", ")) == [f"<{trio.names[0]}.work>", f"<{trio.names[2]}.work>"]


def test_only_one_consumer_of_a_mirrored_queue_is_shown_as_active(trio: Trio) -> None:
    arguments = {"x-ha-mode": "all", "x-single-active-consumer": True}
    publish(trio[0], "in_turn", 0, arguments=arguments)
    with trio[0].connect() as connection:
        for tag in ("first", "second"):
            connection.channel().basic_consume("in_turn", lambda *delivery: None, consumer_tag=tag)
        for node in trio.nodes:
            listed = {one["consumer_tag"]: one["activity_status"] for one in node.api.read("consumers")}
            assert listed == {"first": "up", "second": "waiting"}
            details = row(node, "in_turn")["consumer_details"]
            assert {one["consumer_tag"]: one["active"] for one in details} == {"first": True, "second": False}
    assert trio[1].api.call("DELETE", "queues/%2F/in_turn").status == 204


def test_a_master_whose_mirrors_lag_behind_is_critical(trio: Trio) -> None:
    hold_on_first_nodes(trio, "lonely", 1)
    publish(trio[0], "lonely", 5)
    hold_on_first_nodes(trio, "lonely", 2)
    check = "health/checks/node-is-mirror-sync-critical"
    heard = eventually(lambda: trio[0].api.get(check), lambda answer: answer.status == 503)
    assert heard.json["reason"] == "There are classic mirrored queues without online synchronised mirrors"
    assert [queue["name"] for queue in heard.json["queues"]] == ["lonely"]
    assert [node.api.get(check).status for node in trio.nodes[1:]] == [200, 200]
    refused = trio[0].try_ctl("check_if_node_is_mirror_sync_critical")
    assert refused.returncode == 69
    assert "queue 'lonely' in vhost '/' would lose its only synchronised replica (master)" in refused.stderr
    told = row(trio[2], "lonely")
    assert (told["slave_nodes"], told["synchronised_slave_nodes"]) == ([trio.names[1]], [])
    assert [one["node"] for one in told["ring"]["catching_up"]] == [trio.names[1]]
    # asked where the queue is not held at all
    assert trio[2].ctl("-q", "sync_queue", "lonely") == ""
    eventually(lambda: synced(trio[2], "lonely"), lambda found: found == [trio.names[1]])
    assert trio[0].api.get(check).status == 200
    assert "reported no classic mirrored queues" in trio[0].ctl("check_if_node_is_mirror_sync_critical")


def test_mirrors_catch_up_are_stopped_and_get_the_rest(trio: Trio) -> None:
    hold_on_first_nodes(trio, "large", 1)
    publish(trio[0], "large", LARGE_COUNT, LARGE)
    hold_on_first_nodes(trio, "large", 2)
    eventually(lambda: row(trio[2], "large")["slave_nodes"], lambda found: found == [trio.names[1]])
    eventually(lambda: row(trio[2], "large")["ring"]["catching_up"], bool)
    assert order(trio[2], "large", "sync") == 204
    told = eventually(lambda: row(trio[2], "large"), lambda found: found.get("sync_messages", 0) > 0)
    assert told["state"] == "syncing"
    assert 0 < told["sync_percent"] < 100
    assert 0 <= told["sync_seconds_left"] < 600
    assert order(trio[2], "large", "cancel_sync") == 204
    (stopped,) = row(trio[2], "large")["ring"]["catching_up"]
    assert (stopped["under_way"], stopped["wanted"]) == (False, LARGE_COUNT)
    assert 0 < stopped["sent"] < LARGE_COUNT
    assert synced(trio[1], "large") == []
    assert trio[1].ctl("-q", "cancel_sync_queue", "large") == "not_syncing\n"
    assert order(trio[1], "large", "sync") == 204
    rest = eventually(lambda: row(trio[1], "large")["ring"]["catching_up"], lambda found: not found or found[0]["sent"])
    # it keeps the messages it has got
    assert not rest or rest[0]["wanted"] <= LARGE_COUNT - stopped["sent"]
    eventually(lambda: synced(trio[0], "large"), lambda found: found == [trio.names[1]])
    assert row(trio[2], "large")["state"] == "running"


def test_nothing_is_lost_from_sight_when_a_queue_in_use_becomes_mirrored(trio: Trio) -> None:
    publish(trio[0], "in use", 6)
    with trio[0].connect() as near, trio[1].connect() as far:
        for connection, tag in ((near, "near"), (far, "far")):
            channel = connection.channel()
            channel.basic_qos(prefetch_count=2)
            channel.basic_consume("in use", lambda *delivery: None, consumer_tag=tag)
        eventually(lambda: row(trio[2], "in%20use"), handed_out)
        policy = {"pattern": "^in use$", "definition": {"ha-mode": "all"}, "apply-to": "queues"}
        assert trio[2].api.call("PUT", "policies/%2F/used", policy).status in (201, 204)
        for node in trio.nodes:
            told = eventually(
                lambda node=node: row(node, "in%20use"), lambda found: len(found.get("slave_nodes", [])) == 2
            )
            told = eventually(lambda node=node: row(node, "in%20use"), handed_out)
            assert (told["messages"], told["consumers"], told["policy"]) == (6, 2, "used")
            assert told["message_stats"]["publish"] == 6
            assert {one["consumer_tag"] for one in told["consumer_details"]} == {"near", "far"}
            assert {one["consumer_tag"] for one in node.api.read("consumers")} >= {"near", "far"}
    assert trio[1].api.call("DELETE", "queues/%2F/in%20use").status == 204


def test_a_queue_without_mirrors_has_nothing_to_synchronise(trio: Trio) -> None:
    publish(trio[0], "plain", 1)
    told = row(trio[1], "plain")
    assert told["recoverable_slaves"] is None
    assert not {"slave_nodes", "ring"} & told.keys()
    assert order(trio[1], "plain", "sync") == 204
    refused = trio[1].try_ctl("sync_queue", "plain")
    assert (refused.returncode, refused.stderr) == (69, "Error:\nnot_mirrored\n")
    refused = trio[1].try_ctl("queue_story", "plain")
    assert (refused.returncode, refused.stderr) == (69, "Error:\nnot_mirrored\n")
    assert trio[0].api.call("POST", "queues/%2F/plain/actions", {"action": "dance"}).status == 400


def test_every_remaining_node_shows_the_new_master_and_the_reason(trio: Trio) -> None:
    trio.run("kill", "n1")
    for node in trio.nodes[1:]:
        told = eventually(lambda node=node: row(node, "large"), lambda found: found.get("messages") == LARGE_COUNT)
        assert (told["node"], told["slave_nodes"], told["recoverable_slaves"]) == (trio.names[1], [], trio.names[:1])
        assert (told["ring"]["epoch"], told["ring"]["in_sync"]) == (2, [trio.names[1]])
        (promoted,) = [one for one in told["ring"]["story"] if one["event"] == "mirror.promoted"]
        assert (promoted["node"], promoted["epoch"]) == (trio.names[1], 2)
        assert promoted["reason"] in (f"{trio.names[0]} has stopped", f"{trio.names[0]} is not reached")
        kinds = [one["event"] for one in told["ring"]["story"]]
        assert kinds.index("mirror.promoted") < kinds.index("mirror.in_sync")
        (line,) = [line for line in node.ctl("-q", "queue_story", "large").splitlines() if "mirror.promoted" in line]
        assert line.split("\t")[2:4] == [trio.names[1], "2"]
        assert f"reason={promoted['reason']} pending=" in line
    with trio[2].connect() as connection:
        channel = connection.channel()
        taken = [channel.basic_get("large", auto_ack=True)[2] for _ in range(LARGE_COUNT)]
    assert taken == [LARGE] * LARGE_COUNT
    trio.run("start", "n1")
    eventually(lambda: row(trio[0], "large")["slave_nodes"], lambda found: found == trio.names[:1])
    listed = json.loads(trio[0].ctl("list_queues", "name", "recoverable_slaves", "--formatter", "json"))
    assert {one["name"]: one["recoverable_slaves"] for one in listed}["large"] == trio.names[:1]
