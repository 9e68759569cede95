"""Lists of queues, exchanges and bindings: pages, filters, order, columns, and names of every kind."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.admin.calling import Api, connected, in_path
from tests.support.node_process import NodeProcess

ODD_NAMES = ["a/b%c", "..", ".", "with space", "\N{RABBIT} é", "x" * 255, "?#&=+;", "~"]


@pytest.fixture(scope="module")
def channel(node: NodeProcess) -> Iterator[Any]:
    connection = connected(node)
    channel = connection.channel()
    for number in range(30):
        channel.queue_declare(f"q.{number:02}", durable=number % 2 == 0)
        for _ in range(number % 7):
            channel.basic_publish("", f"q.{number:02}", b"m")
    for name in ODD_NAMES:
        channel.queue_declare(name)
        channel.queue_bind(name, "amq.topic", name[:200])
    channel.queue_declare("q.args", arguments={"x-max-length": 5, "x-message-ttl": 1000})
    channel.exchange_declare("a/b", "fanout")
    yield channel
    connection.close()


def names(answer: Any) -> list[str]:
    return [row["name"] for row in (answer["items"] if isinstance(answer, dict) else answer)]


@pytest.fixture(scope="module")
def everything(api: Api, channel: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = api.read("queues")
    assert len(rows) == 31 + len(ODD_NAMES)
    return rows


def test_the_whole_list_is_in_the_order_of_names(everything: list[dict[str, Any]]) -> None:
    assert names(everything) == sorted(names(everything))


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_queue_is_found_by_any_name(api: Api, channel: Any, name: str) -> None:
    assert api.read(f"queues/%2F/{in_path(name)}")["name"] == name
    bound = api.read(f"queues/%2F/{in_path(name)}/bindings")
    assert [row["source"] for row in bound] == ["", "amq.topic"]
    key = in_path(bound[1]["properties_key"])
    one = api.read(f"bindings/%2F/e/amq.topic/q/{in_path(name)}/{key}")
    assert one == bound[1]


@pytest.mark.parametrize(
    "query",
    [
        {"page": 1, "page_size": 10},
        {"page": 3, "page_size": 7, "name": "Q."},
        {"page": 1, "name": "^q\\.0", "use_regex": "true"},
        {"page": 2, "page_size": 5, "sort": "messages", "sort_reverse": "true"},
        {"page": 1, "page_size": 9, "sort": "durable"},
        {"page": 1, "page_size": 500, "sort": "arguments.x-max-length"},
        {"page": 2, "page_size": 4, "sort": "backing_queue_status.len", "name": "q."},
        {"page": 1, "page_size": 3, "sort_reverse": "true"},
    ],
)
def test_a_page_is_what_a_naive_reading_of_the_whole_list_says(
    api: Api, everything: list[dict[str, Any]], query: dict[str, Any]
) -> None:
    wanted = str(query.get("name", "")).lower().lstrip("^").replace("\\", "")
    passing = [row for row in everything if wanted in row["name"].lower()]
    ordered = sorted(passing, key=lambda row: naive_place(row, query.get("sort")))
    if query.get("sort_reverse") == "true":
        ordered.reverse()
    size = query.get("page_size", 100)
    start = (query["page"] - 1) * size
    page = api.read(f"queues?{urlencode(query)}")
    assert names(page) == names(ordered[start : start + size])
    assert page["total_count"] == len(everything)
    assert page["filtered_count"] == len(passing)
    assert page["page_count"] == -(-len(passing) // size)
    assert (page["page"], page["page_size"], page["item_count"]) == (query["page"], size, len(page["items"]))


def naive_place(row: Any, path: str | None) -> Any:
    for name in path.split(".") if path else []:
        row = row.get(name, 0)
    return row if path else 0


def test_columns_may_be_combined_with_pages(api: Api, channel: Any) -> None:
    page = api.read("queues?page=1&page_size=2&name=q.&columns=name,messages_details.rate")
    assert page["items"] == [
        {"name": "q.00", "messages_details": {"rate": 0.0}},
        {"name": "q.01", "messages_details": {"rate": 0.0}},
    ]


def test_a_list_without_statistics_is_short(api: Api, channel: Any) -> None:
    [row] = api.read("queues?disable_stats=true&page=1&name=q.args")["items"]
    assert row == {
        "arguments": {"x-max-length": 5, "x-message-ttl": 1000},
        "auto_delete": False,
        "durable": False,
        "exclusive": False,
        "name": "q.args",
        "node": "hare@here",
        "state": "live",
        "type": "classic",
        "vhost": "/",
    }
    [row] = api.read("queues?disable_stats=true&enable_queue_totals=true&page=1&name=q.06")["items"]
    assert (row["messages"], row["messages_ready"], row["messages_unacknowledged"]) == (6, 6, 0)
    assert api.get("channels?disable_stats=true").status == 400


def test_paging_faults_are_reported_in_rabbitmqs_words(api: Api, channel: Any) -> None:
    heard = api.get("queues?page=99&page_size=10")
    assert heard.json == {
        "error": "page_out_of_range",
        "reason": f"Page out of range, page: 99 page size: 10, len: {31 + len(ODD_NAMES)}",
    }
    assert api.get("queues?page=1&page_size=501").json["error"] == "invalid_pagination_parameters"
    assert api.get("exchanges?page=abc").reason == "Pagination parameters are invalid"
    heard = api.get("queues?page=1&name=(a)%5C1&use_regex=true")
    assert (heard.status, heard.reason) == (400, "The name filter cannot be used: back references are not supported")


def test_lists_that_have_no_pages_ignore_them(api: Api, channel: Any) -> None:
    for path in ("bindings", "users", "permissions", "policies", "consumers", "nodes", "parameters"):
        assert isinstance(api.read(f"{path}?page=1&page_size=1"), list)


def test_lists_that_have_pages_give_envelopes(api: Api, channel: Any) -> None:
    for path in ("queues", "queues/%2F", "exchanges", "exchanges/%2F", "vhosts", "connections", "channels"):
        assert api.read(f"{path}?page=1&page_size=1")["page_size"] == 1


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("lengths_age=60&lengths_incr=5", 200),
        ("lengths_age=60", 200),
        ("lengths_age=abc&lengths_incr=5", 200),
        ("lengths_age=60&lengths_incr=0", 400),
        ("msg_rates_age=600000&msg_rates_incr=1", 400),
    ],
)
def test_ranges_of_samples_are_checked(api: Api, query: str, status: int) -> None:
    heard = api.get(f"overview?{query}")
    assert heard.status == status
    if status == 400:
        assert heard.reason.startswith("Invalid range parameters: age ")


# -- exchanges and bindings


def test_the_default_exchange_has_a_name_in_paths(api: Api, channel: Any) -> None:
    assert api.read("exchanges/%2F/amq.default")["name"] == ""
    implied = api.read("exchanges/%2F/amq.default/bindings/source")
    assert {"q.00", *ODD_NAMES} <= {row["destination"] for row in implied}
    assert api.read("exchanges/%2F/a%2Fb")["type"] == "fanout"


def test_bindings_between_two_are_found(api: Api, channel: Any) -> None:
    assert api.read("bindings/%2F/e/amq.topic/q/q.00") == []
    assert api.read("bindings/%2F/e/nosuch/q/q.00") == []
    assert api.read("bindings/%2F/e//q/q.00") == api.read("bindings/%2F/e/amq.default/q/q.00")
    assert api.get("bindings/%2F/e/amq.topic/z/q.00").status == 404
    assert api.get("bindings/%2F/e/amq.topic/q/q.00/nosuch").status == 404
    assert api.read("queues/%2F/nosuch/bindings")[0]["destination"] == "nosuch"
    assert api.read("exchanges/%2F/nosuch/bindings/source") == []


@pytest.mark.parametrize(
    "path",
    [
        "queues/nosuch",
        "queues/%2F/nosuch",
        "exchanges/nosuch",
        "exchanges/%2F/nosuch",
        "bindings/nosuch",
        "vhosts/nosuch",
        "vhosts/nosuch/permissions",
        "users/nosuch",
        "users/nosuch/permissions",
        "permissions/%2F/nosuch",
        "permissions/nosuch/guest",
        "topic-permissions/%2F/guest",
        "policies/nosuch",
        "policies/%2F/nosuch",
        "parameters/x/nosuch",
        "global-parameters/nosuch",
        "vhost-limits/nosuch",
        "user-limits/nosuch",
        "connections/nosuch",
        "channels/nosuch",
        "consumers/nosuch",
        "nodes/nosuch",
        "nodes/nosuch/memory",
        "auth/attempts/nosuch",
    ],
)
def test_a_missing_object_is_not_found(api: Api, path: str) -> None:
    heard = api.get(path)
    assert (heard.status, heard.json) == (404, {"error": "Object Not Found", "reason": "Not Found"})


def test_definitions_leave_out_what_is_there_anyway(api: Api, channel: Any) -> None:
    document = api.read("definitions")
    assert [exchange["name"] for exchange in document["exchanges"]] == ["a/b"]
    assert "q.args" in names(document["queues"])
    assert [user["name"] for user in document["users"]] == ["guest"]
    assert api.read("definitions?columns=vhosts") == {"vhosts": [{"name": "/"}]}
    of_vhost = api.read("definitions/%2F")
    assert all("vhost" not in queue for queue in of_vhost["queues"])
    assert api.get("definitions/nosuch").json == {"error": "bad_request", "reason": "vhost_not_found"}
    kept = api.get("definitions?download=a%22b%0d%0ax:y.json")
    assert kept.headers["content-disposition"] == 'attachment; filename="a_b__x_y.json"'
