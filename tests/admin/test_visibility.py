"""The visibility of objects by a user's tags and permissions: the same statuses, reasons and rows as RabbitMQ."""

from typing import Any

import pika
import pytest

from tests.admin.calling import Api, connected
from tests.support.node_process import NodeProcess

TAGS = {
    "adm": "administrator",
    "mon": "monitoring",
    "pol": "policymaker",
    "mgmt": "management",
    "multi": "monitoring,policymaker",
    "noperm": "management",
    "notag": "",
    "imp": "impersonator",
}
EVERYBODY = ("adm", "mon", "pol", "mgmt", "multi", "noperm")
MONITORS = ("adm", "mon", "multi")
POLICYMAKERS = ("adm", "pol", "multi")
NOT_MONITOR = "Not monitor user"
NOT_ADMINISTRATOR = "Not administrator user"
NO_VHOST = "User not authorised to access virtual host"
NO_OBJECT = "User not authorised to access object"


@pytest.fixture(scope="module", autouse=True)
def people(api: Api, node: NodeProcess) -> None:
    """Users of every kind, with permissions in / alone, and a second virtual host that is guest's."""
    for name, tags in TAGS.items():
        heard = api.call("PUT", f"users/{name}", {"password": name, "tags": tags})
        assert heard.status in (201, 204), heard.body
        if name != "noperm":
            everything = {"configure": ".*", "write": ".*", "read": ".*"}
            assert api.call("PUT", f"permissions/%2F/{name}", everything).status in (201, 204)
    assert api.call("PUT", "vhosts/v2", {}).status in (201, 204)
    for vhost, queue in (("/", "q"), ("v2", "v2q")):
        with pika.BlockingConnection(pika.ConnectionParameters(*node.amqp, virtual_host=vhost)) as connection:
            connection.channel().queue_declare(queue, durable=True)


@pytest.mark.parametrize(
    ("path", "allowed", "reason"),
    [
        ("overview", EVERYBODY, ""),
        ("cluster-name", EVERYBODY, ""),
        ("nodes", MONITORS, NOT_MONITOR),
        ("nodes/hare@here", MONITORS, NOT_MONITOR),
        ("nodes/hare@here/memory", MONITORS, NOT_MONITOR),
        ("extensions", EVERYBODY, ""),
        ("definitions", ("adm",), NOT_ADMINISTRATOR),
        ("definitions/v2", ("adm",), NOT_ADMINISTRATOR),
        ("connections", EVERYBODY, ""),
        ("channels", EVERYBODY, ""),
        ("consumers", EVERYBODY, ""),
        ("vhosts/v2/connections", ("adm",), NO_VHOST),
        ("vhosts/%2F/channels", ("adm", "mon", "pol", "mgmt", "multi"), NO_VHOST),
        ("exchanges/%2F", ("adm", "mon", "pol", "mgmt", "multi"), NO_VHOST),
        ("exchanges/v2", ("adm",), NO_VHOST),
        ("queues/%2F/q", ("adm", "mon", "pol", "mgmt", "multi"), NO_VHOST),
        ("queues/v2/v2q", ("adm",), NO_VHOST),
        ("bindings/v2", ("adm",), NO_VHOST),
        ("vhosts", EVERYBODY, ""),
        ("vhosts/%2F", ("adm",), NOT_ADMINISTRATOR),
        ("vhosts/%2F/permissions", ("adm",), NOT_ADMINISTRATOR),
        ("users", ("adm",), NOT_ADMINISTRATOR),
        ("users/mgmt", ("adm",), NOT_ADMINISTRATOR),
        ("user-limits", EVERYBODY, ""),
        ("whoami", EVERYBODY, ""),
        ("permissions", ("adm",), NOT_ADMINISTRATOR),
        ("topic-permissions", ("adm",), NOT_ADMINISTRATOR),
        ("parameters", POLICYMAKERS, NO_OBJECT),
        ("global-parameters", POLICYMAKERS, NO_OBJECT),
        ("policies", EVERYBODY, ""),
        ("policies/v2", ("adm",), NO_VHOST),
        ("operator-policies/%2F", ("adm", "mon", "pol", "mgmt", "multi"), NO_VHOST),
        ("vhost-limits", EVERYBODY, ""),
        ("vhost-limits/v2", MONITORS, NO_VHOST),
        ("health/checks/alarms", EVERYBODY, ""),
        ("feature-flags", ("adm",), NOT_ADMINISTRATOR),
        ("auth/attempts/hare@here", MONITORS, NOT_MONITOR),
    ],
)
def test_a_path_has_the_same_permissions_as_on_rabbitmq(
    api: Api, path: str, allowed: tuple[str, ...], reason: str
) -> None:
    for name in EVERYBODY:
        heard = api.get(path, user=(name, name))
        if name in allowed:
            assert heard.status == 200, (name, heard.body)
        else:
            assert (name, heard.status, heard.json) == (name, 401, {"error": "not_authorised", "reason": reason})
            assert "www-authenticate" not in heard.headers


def test_without_a_tag_of_management_nothing_is_open(api: Api) -> None:
    for name in ("notag", "imp"):
        heard = api.get("whoami", user=(name, name))
        assert (heard.status, heard.json) == (401, {"error": "not_authorised", "reason": "Not management user"})


def test_every_user_may_ask_who_they_are(api: Api) -> None:
    assert api.get("whoami", user=("multi", "multi")).json == {"name": "multi", "tags": ["monitoring", "policymaker"]}


@pytest.mark.parametrize("path", ["queues", "exchanges", "bindings"])
def test_lists_show_the_virtual_hosts_one_may_enter(api: Api, path: str) -> None:
    def seen_by(name: str) -> set[str]:
        return {row["vhost"] for row in api.get(path, user=(name, name)).json}

    assert seen_by("guest") == {"/", "v2"}
    # even administrators and monitors, as on RabbitMQ
    for name in ("adm", "mon", "mgmt"):
        assert seen_by(name) == {"/"}
    assert seen_by("noperm") == set()


def test_monitors_see_all_virtual_hosts_and_others_their_own(api: Api) -> None:
    def seen_by(name: str) -> list[str]:
        return [row["name"] for row in api.get("vhosts", user=(name, name)).json]

    assert seen_by("mon") == seen_by("adm") == ["/", "v2"]
    assert seen_by("mgmt") == ["/"]
    assert seen_by("noperm") == []


def test_a_user_without_the_monitoring_tag_sees_their_own_connections_only(api: Api, node: NodeProcess) -> None:
    guests = connected(node, "guests")
    credentials = pika.PlainCredentials("mgmt", "mgmt")
    own = pika.BlockingConnection(pika.ConnectionParameters(*node.amqp, credentials=credentials))
    own.channel()
    guests.channel().basic_consume("q", lambda *delivery: None)

    def seen_by(name: str, path: str) -> set[str]:
        return {row["user"] for row in api.get(path, user=(name, name)).json}

    def consumers_seen_by(name: str) -> list[Any]:
        return [row["channel_details"]["user"] for row in api.get("consumers", user=(name, name)).json]

    for path in ("connections", "channels"):
        assert seen_by("mgmt", path) == {"mgmt"}
        assert seen_by("mon", path) == {"guest", "mgmt"}
    assert consumers_seen_by("mon") == ["guest"]
    assert consumers_seen_by("mgmt") == []
    [name] = [row["name"] for row in api.read("connections") if row["user"] == "guest"]
    path = "connections/" + name.replace(" ", "%20").replace(">", "%3E")
    assert api.get(path).status == 200
    heard = api.get(path, user=("mgmt", "mgmt"))
    assert (heard.status, heard.reason) == (401, NO_OBJECT)
    assert [row["user"] for row in api.read("connections/username/mgmt")] == ["mgmt"]
    own.close()
    guests.close()


def test_totals_count_only_visible_objects(api: Api) -> None:
    assert api.read("overview")["object_totals"]["queues"] == 2
    seen = api.get("overview", user=("mgmt", "mgmt")).json
    assert seen["object_totals"]["queues"] == 1
    assert "listeners" not in seen


@pytest.mark.parametrize("path", ["parameters/operator_policy/%2F/bound", "parameters/vhost-limits/%2F/limits"])
@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_policymakers_may_not_change_operator_policies_as_parameters(api: Api, method: str, path: str) -> None:
    value = {"pattern": "^never$", "definition": {"max-length": 1}, "priority": 0}
    refused = api.call(method, path, {"value": value}, user=("pol", "pol"))
    assert (refused.status, refused.reason) == (401, NOT_ADMINISTRATOR)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("parameters/operator_policy/%2F/made", {"pattern": "^never$", "definition": {"max-length": 1}, "priority": 0}),
        ("parameters/vhost-limits/%2F/limits", {"max-queues": 1000}),
    ],
)
def test_a_parameter_that_was_not_there_is_made(api: Api, path: str, value: object) -> None:
    statuses = [api.call(method, path, {"value": value}).status for method in ("PUT", "PUT", "DELETE")]
    assert statuses == [201, 204, 204]
