"""Three nodes that are one broker: each of them answers operators for all.

Not here: the nodes themselves, and the API while one is down (`test_cluster_nodes`).
"""

import pika
import pytest

from tests.admin.calling import in_path
from tests.admin.three_nodes import MESSAGES, NOBODY, Trio, eventually, make_user

pytestmark = pytest.mark.usefixtures("told")


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


def test_a_queue_is_shown_with_all_its_consumers(trio: Trio) -> None:
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
    # its goodbye is still on its way
    eventually(lambda: trio[1].api.get(f"connections/{in_path(name)}").status, lambda status: status == 404)


def test_a_user_s_connections_are_closed_on_all_nodes(trio: Trio) -> None:
    make_user(trio)
    users = [node.connect("theirs", NOBODY) for node in trio.nodes]
    assert trio[1].api.call("DELETE", "connections/username/nobody").status == 204
    for client in users:
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker):
            client.process_data_events(time_limit=20)
    eventually(lambda: trio[1].api.read("connections/username/nobody"), lambda rows: rows == [])


def test_a_user_without_the_monitoring_tag_sees_their_own_connections_on_every_node(trio: Trio) -> None:
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
    # move the messages back, to restore the first state
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


def test_exchanges_and_virtual_hosts_are_shown_with_the_counts_of_all_nodes(trio: Trio) -> None:
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
