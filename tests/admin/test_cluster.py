"""Three nodes that are one broker, whichever of them an operator asks.

Queue `of0` lives on the first node, `of1` on the second, `of2` on the third; each node has a client that consumes from
the next node's queue. The last tests stop and kill a node, which costs consumers: those before them want all.
"""

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pika
import pytest

from tests.admin.calling import in_path
from tests.admin.three_nodes import Trio, eventually

MESSAGES = {"of0": 1, "of1": 5, "of2": 3}
NOBODY = ("nobody", "nothing")


@pytest.fixture(scope="module")
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trio]:
    made = Trio(tmp_path_factory.mktemp("trio") / "cluster")
    yield made
    made.run("down")


@pytest.fixture(scope="module")
def clients(trio: Trio) -> Iterator[list[pika.BlockingConnection]]:
    """One of each node."""
    connections = [node.connect(f"client{number}") for number, node in enumerate(trio.nodes)]
    channels = [connection.channel() for connection in connections]
    for number, channel in enumerate(channels):
        channel.queue_declare(f"of{number}", durable=True)
        channel.confirm_delivery()
        channel.basic_qos(prefetch_count=1)
    for number, channel in enumerate(channels):
        target = f"of{(number + 1) % 3}"
        for _ in range(MESSAGES[target]):
            channel.basic_publish("", target, b"x")
    for number, channel in enumerate(channels):
        channel.basic_consume(f"of{(number + 1) % 3}", lambda *delivery: None, consumer_tag=f"tag{number}")
    yield connections
    for connection in connections:
        # those of a node that was killed do not know yet that they are lost
        with suppress(pika.exceptions.AMQPError):
            connection.close()


@pytest.fixture(scope="module", autouse=True)
def told(trio: Trio, clients: list[pika.BlockingConnection]) -> None:
    """Every consumer has its first message, and that is known everywhere."""
    for node in trio.nodes:
        eventually(
            lambda api=node.api: api.read("queues?columns=messages_unacknowledged"),
            lambda rows: [row["messages_unacknowledged"] for row in rows] == [1, 1, 1],
        )


def test_every_node_lists_all_queues_with_their_homes_and_what_is_in_them(trio: Trio) -> None:
    for rows in trio.read("queues"):
        assert [(row["name"], row["node"], row["state"], row["messages"], row["consumers"]) for row in rows] == [
            (f"of{number}", name, "running", MESSAGES[f"of{number}"], 1) for number, name in enumerate(trio.names)
        ]
        assert [row["message_stats"]["publish"] for row in rows] == list(MESSAGES.values())
        # counted where the consumers are
        assert [row["message_stats"]["deliver_get"] for row in rows] == [1, 1, 1]


def test_a_queue_has_the_same_fields_wherever_it_lives(trio: Trio) -> None:
    rows = trio[0].api.read("queues")
    assert rows[0].keys() - {"idle_since"} == rows[1].keys() - {"idle_since"} == rows[2].keys() - {"idle_since"}


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("sort=name&sort_reverse=true", ["of2", "of1", "of0"]),
        ("sort=messages", ["of0", "of2", "of1"]),
        ("sort=messages_ready&sort_reverse=true&page=1&page_size=2", ["of1", "of2"]),
        ("sort=message_stats.publish&page=2&page_size=2", ["of1"]),
        ("sort=node&page=1&page_size=100", ["of0", "of1", "of2"]),
        ("page=1&name=2", ["of2"]),
        ("page=1&name=%5Eof%5B01%5D%24&use_regex=true&sort=message_bytes_ready&sort_reverse=true", ["of1", "of0"]),
    ],
)
def test_a_list_is_sorted_filtered_and_cut_as_a_whole(query: str, names: list[str], trio: Trio) -> None:
    for found in trio.read(f"queues?columns=name,messages&{query}"):
        rows = found["items"] if "page" in query else found
        assert rows == [{"name": name, "messages": MESSAGES[name]} for name in names]


def test_a_page_says_how_many_there_are_in_the_cluster(trio: Trio) -> None:
    for found in trio.read("connections?page=1&page_size=2&name=127&columns=name"):
        assert (found["total_count"], found["filtered_count"], found["item_count"], found["page_count"]) == (3, 3, 2, 2)


def test_one_queue_is_told_with_everybody_who_takes_from_it(trio: Trio) -> None:
    for row in trio.read("queues/%2F/of1"):
        assert (row["node"], row["messages"], row["message_stats"]["deliver"]) == (trio.names[1], MESSAGES["of1"], 1)
        (consumer,) = row["consumer_details"]
        assert (consumer["consumer_tag"], consumer["channel_details"]["node"]) == ("tag0", trio.names[0])
        (taker,) = row["deliveries"]
        assert (taker["channel_details"]["node"], taker["stats"]["deliver"]) == (trio.names[0], 1)


def test_connections_channels_and_consumers_are_those_of_all_nodes(trio: Trio) -> None:
    named = [(f"client{number}", name) for number, name in enumerate(trio.names)]
    for rows in trio.read("connections?sort=user_provided_name"):
        assert [(row["user_provided_name"], row["node"]) for row in rows] == named
    for rows in trio.read("connections/username/guest"):
        assert [row["node"] for row in rows] == trio.names
    for rows in trio.read("vhosts/%2F/channels?sort=node&columns=node,consumer_count,messages_unacknowledged"):
        assert rows == [{"node": name, "consumer_count": 1, "messages_unacknowledged": 1} for name in trio.names]
    for rows in trio.read("consumers/%2F?sort=consumer_tag"):
        assert [(row["consumer_tag"], row["queue"]["name"], row["active"]) for row in rows] == [
            ("tag0", "of1", True),
            ("tag1", "of2", True),
            ("tag2", "of0", True),
        ]


def test_a_connection_and_its_channels_are_found_from_every_node(trio: Trio) -> None:
    for row in trio[0].api.read("connections"):
        name = in_path(row["name"])
        assert [found["node"] for found in trio.read(f"connections/{name}")] == [row["node"]] * 3
        assert [[one["node"] for one in found] for found in trio.read(f"connections/{name}/channels")] == [
            [row["node"]]
        ] * 3
        channel = in_path(f"{row['name']} (1)")
        assert [found["consumer_details"][0]["active"] for found in trio.read(f"channels/{channel}")] == [True] * 3
    assert trio[0].api.get("connections/nobody").status == 404


def test_of_two_consumers_of_which_one_may_be_active_the_home_knows_which(trio: Trio) -> None:
    with trio[1].connect("eldest") as eldest, trio[2].connect("heir") as heir:
        first, second = eldest.channel(), heir.channel()
        first.queue_declare("single", arguments={"x-single-active-consumer": True})
        first.basic_consume("single", lambda *delivery: None, consumer_tag="eldest")
        second.basic_consume("single", lambda *delivery: None, consumer_tag="heir")
        for row in trio.read("queues/%2F/single"):
            found = {one["consumer_tag"]: (one["active"], one["activity_status"]) for one in row["consumer_details"]}
            assert found == {"eldest": (True, "up"), "heir": (False, "waiting")}
            assert row["single_active_consumer_tag"] == "eldest"
        for rows in trio.read("consumers/%2F"):
            found = {one["consumer_tag"]: one["active"] for one in rows}
            assert (found["eldest"], found["heir"]) == (True, False)
        first.queue_delete("single")


def test_a_connection_is_closed_from_another_node(trio: Trio) -> None:
    client = trio[2].connect("guest of the third")
    (name,) = [
        row["name"] for row in trio[0].api.read("connections") if row.get("user_provided_name") == "guest of the third"
    ]
    headers = {"x-reason": "moving house"}
    assert trio[0].api.call("DELETE", f"connections/{in_path(name)}", headers=headers).status == 204
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="moving house"):
        client.process_data_events(time_limit=20)
    assert trio[1].api.get(f"connections/{in_path(name)}").status == 404


def test_a_user_s_connections_are_closed_on_all_nodes(trio: Trio) -> None:
    make_user(trio)
    users = [node.connect("theirs", NOBODY) for node in trio.nodes]
    assert trio[1].api.call("DELETE", "connections/username/nobody").status == 204
    for client in users:
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker):
            client.process_data_events(time_limit=20)


def test_whoever_may_not_monitor_sees_their_own_on_every_node(trio: Trio) -> None:
    make_user(trio)
    with trio[1].connect("theirs", NOBODY):
        for node in trio.nodes:
            rows = node.api.get("connections", user=NOBODY).json
            assert [(row["user"], row["node"]) for row in rows] == [("nobody", trio.names[1])]
            totals = node.api.get("overview", user=NOBODY).json["object_totals"]
            assert (totals["connections"], totals["queues"]) == (1, 3)
        (theirs,) = [
            row for row in trio[0].api.read("connections") if row["user"] == "guest" and row["node"] == trio.names[0]
        ]
        assert trio[2].api.get(f"connections/{in_path(theirs['name'])}", user=NOBODY).status == 401


def make_user(trio: Trio) -> None:
    assert trio[0].api.call("PUT", "users/nobody", {"password": NOBODY[1], "tags": "management"}).status in (201, 204)
    permissions = {"configure": ".*", "write": ".*", "read": ".*"}
    assert trio[0].api.call("PUT", "permissions/%2F/nobody", permissions).status in (201, 204)


def test_messages_are_published_taken_and_purged_through_any_node(trio: Trio) -> None:
    api = trio[0].api
    assert api.call("PUT", "queues/%2F/far", {"durable": True}).status == 201
    sent = {"routing_key": "far", "properties": {}, "payload": "hello", "payload_encoding": "string"}
    for node in trio.nodes:
        assert node.api.call("POST", "exchanges/%2F/amq.default/publish", sent).json == {"routed": True}
    wanted = {"ackmode": "ack_requeue_false", "count": 1, "encoding": "auto"}
    (got,) = trio[2].api.call("POST", "queues/%2F/far/get", wanted).json
    assert (got["payload"], got["message_count"]) == ("hello", 2)
    assert [row["messages"] for row in trio.read("queues/%2F/far")] == [2, 2, 2]
    assert trio[1].api.call("POST", "queues/%2F/far/move", {"destination": "of0", "count": 1}).json == {"moved": 1}
    assert trio[1].api.call("DELETE", "queues/%2F/far/contents").status == 204
    assert [row["messages"] for row in trio.read("queues/%2F/far")] == [0, 0, 0]
    assert trio[2].api.call("DELETE", "queues/%2F/far").status == 204
    assert [node.api.get("queues/%2F/far").status for node in trio.nodes] == [404, 404, 404]
    # what was moved is taken back, so that there is what there was
    with trio[0].connect() as connection:
        channel = connection.channel()
        method, _, body = channel.basic_get("of0")
        assert (method is not None, body) == (True, b"hello")
        channel.basic_ack(method.delivery_tag)


def test_a_queue_is_declared_on_the_node_that_is_named(trio: Trio) -> None:
    api, wanted = trio[0].api, {"durable": True, "node": trio.names[1]}
    assert [api.call("PUT", "queues/%2F/placed", wanted).status for _ in range(2)] == [201, 204]
    assert api.read("queues/%2F/placed")["node"] == trio.names[1]
    assert api.call("DELETE", "queues/%2F/placed").status == 204
    refused = api.call("PUT", "queues/%2F/placed", {"node": "stranger@localhost"})
    assert (refused.status, refused.reason) == (400, "Node stranger@localhost could not be contacted")
    inequivalent = trio[2].api.call("PUT", "queues/%2F/of0", {"durable": False, "node": trio.names[0]})
    assert (inequivalent.status, inequivalent.json["error"]) == (400, "bad_request")


def test_the_nodes_are_told_by_each_of_them(trio: Trio) -> None:
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
            assert row["mem_used"] > 0
            assert row["partitions"] == []
    assert len({row["os_pid"] for row in trio[0].api.read("nodes")}) == 3


def test_one_node_is_told_by_the_others(trio: Trio) -> None:
    name = trio.names[2]
    rows = trio.read(f"nodes/{name}?columns=name,type,os_pid,running")
    assert rows[0] == rows[1] == rows[2]
    assert rows[0]["type"] == "ram"
    assert all(found["memory"]["total"]["rss"] > 0 for found in trio.read(f"nodes/{name}/memory"))
    assert trio.read(f"healthchecks/node/{name}") == [{"status": "ok"}] * 3
    assert trio[0].api.get("nodes/stranger@localhost").status == 404


def test_the_overview_is_the_sum_of_all_nodes(trio: Trio) -> None:
    rows = trio.read("overview")
    for number, row in enumerate(rows):
        assert row["object_totals"] == {"channels": 3, "connections": 3, "consumers": 3, "exchanges": 7, "queues": 3}
        assert row["queue_totals"]["messages"] == sum(MESSAGES.values())
        assert row["message_stats"]["publish"] >= sum(MESSAGES.values())
        assert row["node"] == trio.names[number]
        protocols = [listener["protocol"] for listener in row["listeners"]]
        assert protocols.count("amqp") == protocols.count("http") == protocols.count("clustering") == 3
        assert {context["node"] for context in row["contexts"]} == set(trio.names)
    assert rows[0]["message_stats"]["publish"] == rows[2]["message_stats"]["publish"]
    assert [found["name"] for found in trio.read("cluster-name")] == [rows[0]["cluster_name"]] * 3


def test_samples_of_all_nodes_are_added(trio: Trio) -> None:
    def ready(number: int) -> list[int]:
        row = trio[number].api.read("overview?lengths_age=10&lengths_incr=5")
        return [one["sample"] for one in row["queue_totals"]["messages_details"]["samples"]]

    total = sum(MESSAGES.values())
    for number in range(3):
        eventually(lambda number=number: ready(number), lambda samples: samples[0] == total)


def test_exchanges_and_virtual_hosts_are_told_with_what_all_nodes_counted(trio: Trio) -> None:
    published = sum(MESSAGES.values())
    for row in trio.read("exchanges/%2F/amq.default"):
        assert row["message_stats"]["publish_in"] >= published
        assert {one["channel_details"]["node"] for one in row["incoming"]} == set(trio.names)
    for rows in trio.read("exchanges/%2F?sort=message_stats.publish_in&sort_reverse=true"):
        assert (rows[0]["name"], rows[0]["message_stats"]["publish_in"] >= published) == ("", True)
    for row in [*trio.read("vhosts/%2F"), *(rows[0] for rows in trio.read("vhosts"))]:
        assert row["cluster_state"] == dict.fromkeys(trio.names, "running")
        assert (row["messages"], row["message_stats"]["publish"] >= published) == (published, True)


def test_a_policy_is_shown_on_queues_of_all_nodes(trio: Trio) -> None:
    policy = {"pattern": "^of", "definition": {"max-length": 1000}, "apply-to": "queues"}
    assert trio[1].api.call("PUT", "policies/%2F/bound", policy).status == 201
    for rows in trio.read("queues?columns=policy,effective_policy_definition"):
        assert rows == [{"policy": "bound", "effective_policy_definition": {"max-length": 1000}}] * 3
    assert trio[2].api.call("DELETE", "policies/%2F/bound").status == 204


def test_the_checks_speak_of_the_cluster(trio: Trio) -> None:
    assert trio.read("health/checks/alarms") == [{"status": "ok"}] * 3
    assert trio.read("aliveness-test/%2F") == [{"status": "ok"}] * 3
    assert trio[0].api.call("DELETE", "queues/%2F/aliveness-test").status == 204
    # of two disc nodes, both are needed for a majority
    critical = [node.api.get("health/checks/node-is-quorum-critical") for node in trio.nodes]
    assert [answer.status for answer in critical] == [503, 503, 200]
    assert critical[0].json["disc_nodes"] == trio.names[:2]


def test_an_alarm_is_told_everywhere_and_by_whom_it_is(trio: Trio) -> None:
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


def test_the_command_line_tells_of_the_whole_cluster(trio: Trio) -> None:
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


def test_a_node_that_hangs_delays_nobody_for_long(trio: Trio) -> None:
    trio.run("pause", "n3")
    try:
        started = time.monotonic()
        row = trio[0].api.read("queues/%2F/of2")
        assert time.monotonic() - started < 4
        assert (row["state"], row["node"]) == ("down", trio.names[2])
        rows = trio[0].api.read("nodes")
        assert [row["running"] for row in rows] == [True, True, False]
    finally:
        trio.run("resume", "n3")
    eventually(lambda: trio[0].api.read("queues/%2F/of2")["state"], lambda state: state == "running")


def test_what_a_killed_node_had_is_shown_without_it_until_it_is_back(trio: Trio) -> None:
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
