"""The nodes of a cluster in the HTTP API: the resources of each, totals over all, and nodes that are down.

The last tests stop and kill a node, which cancels consumers that the earlier tests need.
"""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pika
import pytest

from tests.admin.calling import Heard
from tests.admin.three_nodes import MESSAGES, NOBODY, OneNode, Trio, eventually, make_user
from warren.node.peers.requests import ANSWER_PATIENCE_S

pytestmark = pytest.mark.usefixtures("told")

DELAYED_S_MAX = 5 * ANSWER_PATIENCE_S
"""A node waits once for another, up to its timeout; a busy machine adds the rest. How long the answers take without a
silent node comes on top."""


def test_each_node_lists_all_nodes(trio: Trio) -> None:
    for rows in trio.read("nodes"):
        assert [(row["name"], row["type"], row["running"]) for row in rows] == [
            (trio.names[0], "disc", True),
            (trio.names[1], "disc", True),
            (trio.names[2], "ram", True),
        ]
        for row in rows:
            others = [name for name in trio.names if name != row["name"]]
            assert [link["name"] for link in row["cluster_links"]] == others
            assert all(link["stats"]["send_bytes"] > 0 for link in row["cluster_links"])
            assert row["net_ticktime"] == 3
            assert row["mem_used"] > 0
            assert row["partitions"] == []
    assert len({row["os_pid"] for row in trio[0].api.read("nodes")}) == 3


def test_links_are_shown_with_their_bytes(trio: Trio) -> None:
    def stats() -> list[dict[str, Any]]:
        (row,) = [row for row in trio[0].api.read("nodes") if row["name"] == trio.names[1]]
        return [link["stats"] for link in row["cluster_links"]]

    # heartbeats, at least
    for one in eventually(stats, lambda found: all(one["recv_bytes_details"]["rate"] > 0 for one in found)):
        assert one.keys() == {"send_bytes", "send_bytes_details", "recv_bytes", "recv_bytes_details"}
    one = trio[0].api.read(f"nodes/{trio.names[0]}?node_stats_age=60&node_stats_incr=5")["cluster_links"][0]
    assert len(one["stats"]["recv_bytes_details"]["samples"]) == 13
    assert one.keys() == {
        "name",
        "peer_addr",
        "peer_port",
        "sock_addr",
        "sock_port",
        "recv_bytes",
        "send_bytes",
        "stats",
    }


def test_limits_count_what_all_nodes_have(trio: Trio) -> None:
    make_user(trio)
    assert trio[0].api.call("PUT", "user-limits/nobody/max-connections", {"value": 2}).status == 204
    try:
        with trio[0].connect("first", NOBODY), trio[1].connect("second", NOBODY):
            for node in trio.nodes:
                refusal = eventually(lambda node=node: refusal_of(node), bool)
                assert "user connection limit (2) is reached" in refusal
        for node in trio.nodes:
            eventually(lambda node=node: refusal_of(node), lambda found: not found)
    finally:
        assert trio[0].api.call("DELETE", "user-limits/nobody/max-connections").status == 204


def refusal_of(node: OneNode) -> str:
    """The reason why the node refuses another connection of the user; empty if it accepts it."""
    try:
        node.connect("one more", NOBODY).close()
    except pika.exceptions.ProbableAccessDeniedError as refused:
        return str(refused)
    return ""


def test_a_reset_of_statistics_clears_histories_on_all_nodes_and_keeps_current_counts(trio: Trio) -> None:
    def before_last(number: int) -> int:
        totals = trio[number].api.read("overview?lengths_age=10&lengths_incr=5")["queue_totals"]
        return int(totals["messages_details"]["samples"][1]["sample"])

    total = sum(MESSAGES.values())
    for number in range(3):
        eventually(lambda number=number: before_last(number), lambda sample: sample == total)
    assert trio[0].api.call("DELETE", "reset").status == 204
    assert [before_last(number) for number in range(3)] == [0, 0, 0]
    assert [row["queue_totals"]["messages"] for row in trio.read("overview")] == [total] * 3
    # of one node alone
    for number in range(3):
        eventually(lambda number=number: before_last(number), lambda sample: sample == total)
    assert trio[0].api.call("DELETE", f"reset/{trio.names[1]}").status == 204
    assert before_last(0) == total - MESSAGES["of1"]


def test_the_other_nodes_show_one_node(trio: Trio) -> None:
    name = trio.names[2]
    rows = trio.read(f"nodes/{name}?columns=name,type,os_pid,running")
    assert rows[0] == rows[1] == rows[2]
    assert rows[0]["type"] == "ram"
    assert all(found["memory"]["total"]["rss"] > 0 for found in trio.read(f"nodes/{name}/memory"))
    assert trio.read(f"healthchecks/node/{name}") == [{"status": "ok"}] * 3
    assert trio[0].api.get("nodes/stranger@localhost").status == 404


def test_the_checks_speak_of_the_cluster(trio: Trio) -> None:
    assert trio.read("health/checks/alarms") == [{"status": "ok"}] * 3
    assert trio.read("aliveness-test/%2F") == [{"status": "ok"}] * 3
    assert trio[0].api.call("DELETE", "queues/%2F/aliveness-test").status == 204
    # of two disc nodes, both are needed for a majority
    critical = [node.api.get("health/checks/node-is-quorum-critical") for node in trio.nodes]
    assert [answer.status for answer in critical] == [503, 503, 200]
    assert critical[0].json["disc_nodes"] == trio.names[:2]


def test_an_alarm_is_shown_everywhere_with_its_node(trio: Trio) -> None:
    def demand_free_disk(value: str) -> None:
        document = {"value": value}
        assert trio[0].api.call("PUT", "warren/settings/disk_free_limit.absolute", document).status == 204

    demand_free_disk("999TB")
    try:
        for node in trio.nodes:
            check = eventually(
                lambda api=node.api: api.get("health/checks/alarms"), lambda answer: answer.status == 503
            )
            assert check.json["alarms"] == [{"node": trio.names[0], "resource": "disk"}]
        assert [node.api.get("health/checks/local-alarms").status for node in trio.nodes] == [503, 200, 200]
        assert [[row["disk_free_alarm"] for row in rows] for rows in trio.read("nodes")] == [[True, False, False]] * 3
        status = json.loads(trio[2].ctl("cluster_status", "--formatter", "json"))
        assert status["alarms"] == [f"Free disk space alarm on node {trio.names[0]}"]
    finally:
        demand_free_disk("1MB")
    for node in trio.nodes:
        eventually(lambda api=node.api: api.get("health/checks/alarms").status, lambda found: found == 200)


def test_the_command_line_shows_the_whole_cluster(trio: Trio) -> None:
    listed = trio[2].ctl("-q", "list_queues", "name", "messages", "pid").splitlines()
    assert listed[1:] == [f"of{n}\t{MESSAGES[f'of{n}']}\t<{name}.of{n}>" for n, name in enumerate(trio.names)]
    assert len(trio[1].ctl("-q", "list_connections", "name").splitlines()) == 4
    assert len(trio[1].ctl("-q", "list_consumers").splitlines()) == 4
    status = json.loads(trio[0].ctl("cluster_status", "--formatter", "json"))
    assert (status["disk_nodes"], status["ram_nodes"]) == (trio.names[:2], trio.names[2:])
    assert status["running_nodes"] == list(status["versions"]) == list(status["listeners"]) == trio.names
    assert f"Node name: {trio.names[1]}" in trio[0].ctl("status", "-n", "n2").splitlines()


def test_metrics_are_those_of_one_node_and_name_the_cluster(trio: Trio) -> None:
    for number, node in enumerate(trio.nodes):
        text = node.api.get("/metrics", user=None).body.decode()
        assert f"rabbitmq_queue_messages {MESSAGES[f'of{number}']}\n" in text
        (identity,) = [line for line in text.splitlines() if line.startswith("rabbitmq_identity_info{")]
        assert f'rabbitmq_node="{trio.names[number]}"' in identity
    clusters = {_cluster_of(node.api.get("/metrics", user=None).body.decode()) for node in trio.nodes}
    assert len(clusters) == 1


def _cluster_of(metrics: str) -> str:
    return metrics.partition('rabbitmq_cluster_permanent_id="')[2].partition('"')[0]


# -- from here on, not all nodes answer


ASKED_AT_ONCE = (
    "overview",
    "nodes",
    "queues",
    "queues?sort=messages&page=1",
    "queues/%2F/of2",
    "connections",
    "connections/nobody",
    "channels?sort=node",
    "consumers",
    "exchanges",
    "vhosts",
    "health/checks/alarms",
)


def test_a_node_that_hangs_delays_answers_only_briefly_and_every_answer_names_it(trio: Trio) -> None:
    def asked(path: str) -> tuple[Heard, float]:
        started = time.monotonic()
        heard = trio[0].api.get(path)
        return heard, time.monotonic() - started

    def all_at_once() -> dict[str, tuple[Heard, float]]:
        with ThreadPoolExecutor(len(ASKED_AT_ONCE)) as threads:
            return dict(zip(ASKED_AT_ONCE, threads.map(asked, ASKED_AT_ONCE), strict=True))

    usual = all_at_once()
    assert "x-silent-nodes" not in usual["overview"][0].headers
    slowest_s = max(took for _, took in usual.values())
    trio.run("pause", "n3")
    try:
        # before the other nodes can know that it hangs
        heard = all_at_once()
        assert {path: took for path, (_, took) in heard.items() if took > slowest_s + DELAYED_S_MAX} == {}
        for path in ASKED_AT_ONCE[:-1]:
            assert heard[path][0].headers["x-silent-nodes"] == trio.names[2], path
        row = heard["queues/%2F/of2"][0].json
        assert (row["state"], row["node"]) == ("down", trio.names[2])
        assert [row["running"] for row in heard["nodes"][0].json] == [True, True, False]
        assert {row["node"] for row in heard["connections"][0].json} == set(trio.names[:2])
        assert [row["name"] for row in heard["queues"][0].json] == list(MESSAGES)
        # and when it is known
        for path in ASKED_AT_ONCE:
            # a node that waited for the silent one would never answer sooner than its timeout
            answer, _ = eventually(lambda path=path: asked(path), lambda found: found[1] < ANSWER_PATIENCE_S / 2)
            assert answer.headers["x-silent-nodes"] == trio.names[2], path
    finally:
        trio.run("resume", "n3")
    eventually(lambda: trio[0].api.read("queues/%2F/of2")["state"], lambda state: state == "running")
    eventually(lambda: trio[0].api.get("overview").headers, lambda headers: "x-silent-nodes" not in headers)


def test_the_queues_of_a_killed_node_are_shown_without_counts_until_it_is_back(trio: Trio) -> None:
    trio.run("kill", "n3")
    for node in trio.nodes[:2]:
        rows: list[dict[str, Any]] = eventually(
            lambda api=node.api: api.read("queues"), lambda found: found[2]["state"] == "down"
        )
        assert [(row["name"], row["node"]) for row in rows] == list(zip(MESSAGES, trio.names, strict=True))
        assert (rows[2]["durable"], rows[2]["policy"], "messages" in rows[2]) == (True, None, False)
        assert node.api.read("queues?sort=messages&columns=name&page=1")["total_count"] == 3
        assert node.api.read("queues/%2F/of2")["state"] == "down"
        assert [row["running"] for row in node.api.read("nodes")] == [True, True, False]
        gone = node.api.read(f"nodes/{trio.names[2]}")
        assert (gone["type"], gone["running"]) == ("ram", False)
        assert node.api.get(f"healthchecks/node/{trio.names[2]}").status == 503
        assert {row["node"] for row in node.api.read("connections")} == set(trio.names[:2])
        assert node.api.read("overview")["object_totals"]["queues"] == 3
        assert node.api.call("DELETE", "queues/%2F/of2/contents").status == 404
    assert trio[0].ctl("-q", "list_unresponsive_queues").splitlines() == ["name", "of2"]
    status = json.loads(trio[1].ctl("cluster_status", "--formatter", "json"))
    assert (status["running_nodes"], status["ram_nodes"]) == (trio.names[:2], trio.names[2:])
    trio.run("start", "n3")
    for node in trio.nodes:
        eventually(lambda api=node.api: [row["state"] for row in api.read("queues")], lambda found: "down" not in found)
        assert [row["running"] for row in node.api.read("nodes")] == [True] * 3
