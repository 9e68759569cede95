"""Hostile changes: each is refused with a reason, or made; none causes a defect, and clients notice nothing."""

import json
from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from typing import Any

import pytest

from tests.admin.calling import Api, connected, in_path
from tests.support.node_process import NodeProcess

MEMORY_GROWTH_MAX_BYTES = 60_000_000

NAMES = [
    "a/b",
    "a%2Fb",
    "100%",
    "..",
    ".",
    "\N{RABBIT FACE}",
    "with space",
    "nul\0nul",
    "\u202ebackwards",
    "é" * 127,
    "n" * 255,
    "'; DROP TABLE users; --",
    "<script>alert(1)</script>",
    "amq",
    "{name}",
]

DEEP = 900


@pytest.fixture(autouse=True)
def _no_defect(api: Api) -> Iterator[None]:
    yield
    assert "http.failed" not in api.node.log()
    assert api.get("whoami").status == 200


KINDS: dict[str, tuple[str, Any]] = {
    "queues": ("queues/%2F/{}", {"durable": True}),
    "exchanges": ("exchanges/%2F/{}", {"type": "topic"}),
    "vhosts": ("vhosts/{}", {}),
    "users": ("users/{}", {"password_hash": "", "tags": "management"}),
    "policies": ("policies/%2F/{}", {"pattern": "^never$", "definition": {"max-length": 1}}),
    "operator policies": ("operator-policies/%2F/{}", {"pattern": "^never$", "definition": {"max-length": 1}}),
    "global parameters": ("global-parameters/{}", {"value": 1}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_name_may_hold_anything_and_is_one_name(api: Api, kind: str) -> None:
    template, body = KINDS[kind]
    # what AMQP carries loses its line ends on the way
    for name in [*NAMES, *([] if kind in ("queues", "exchanges") else ["new\nline"])]:
        path = template.format(in_path(name))
        assert api.call("PUT", path, body).status == 201, name
        assert api.read(path)["name"] == name
        assert name in [row["name"] for row in api.read(template.partition("/{}")[0])]
        assert api.call("PUT", path, body).status == 204, name
        assert api.call("DELETE", path).status == 204, name
        assert api.get(path).status == 404, name


@pytest.mark.parametrize("kind", KINDS)
def test_a_name_that_is_not_utf8_names_nothing(api: Api, kind: str) -> None:
    template, body = KINDS[kind]
    for name in ("%FF", "a%C3", "%ED%A0%80"):
        refused = api.call("PUT", template.format(name), body)
        assert (refused.status, refused.reason) == (400, "a name in the path is not UTF-8")
        assert api.get(template.format(name)).status == 404
        assert api.call("DELETE", template.format(name)).status == 404


@pytest.mark.parametrize(
    ("kind", "status"), [("queues", 400), ("exchanges", 400), ("vhosts", 201), ("users", 201), ("policies", 201)]
)
def test_a_name_of_256_bytes_fits_where_amqp_does_not_carry_it(api: Api, kind: str, status: int) -> None:
    template, body = KINDS[kind]
    path = template.format("n" * 256)
    assert api.call("PUT", path, body).status == status
    assert api.call("DELETE", path).status == (204 if status == 201 else 404)


def test_a_name_that_amqp_does_not_carry_is_refused_where_a_client_would_use_it(api: Api) -> None:
    long = "n" * 256
    get = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
    message = {"routing_key": long, "properties": {}, "payload": "", "payload_encoding": "string"}
    assert api.call("POST", f"queues/%2F/{long}/get", get).status == 400
    assert api.call("POST", f"exchanges/%2F/{long}/publish", message).status == 400
    assert api.call("PUT", f"vhosts/{long}").status == 201
    assert api.call("PUT", f"queues/{long}/q", {}).status == 400
    assert api.call("DELETE", f"vhosts/{long}").status == 204


def test_a_binding_may_have_any_key(api: Api) -> None:
    api.call("PUT", "queues/%2F/bound", {})
    for name in NAMES:
        made = api.call("POST", "bindings/%2F/e/amq.topic/q/bound", {"routing_key": name, "arguments": {"k": name}})
        assert made.status == 201, name
        rows = [row for row in api.read("bindings/%2F/e/amq.topic/q/bound") if row["routing_key"] == name]
        key = rows[0]["properties_key"]
        assert api.call("DELETE", f"bindings/%2F/e/amq.topic/q/bound/{in_path(key)}").status == 204, name
    assert api.read("bindings/%2F/e/amq.topic/q/bound") == []


def test_text_that_is_half_a_surrogate_pair_is_refused(api: Api) -> None:
    for body in (rb'{"arguments": {"a": "\ud800"}}', rb'{"arguments": {"\udc80": 1}}', b'{"arguments": {"a": "\xff"}}'):
        assert api.call("PUT", "queues/%2F/half", body).status == 400
    for section, entry in (
        ("vhosts", r'{"name": "\ud800"}'),
        ("users", r'{"name": "\ud800", "tags": ""}'),
        ("users", r'{"name": "u", "tags": "", "password": "\udcff"}'),
        ("users", r'{"name": "u", "tags": ["\udcff"]}'),
        ("queues", r'{"name": "\ud800", "vhost": "/"}'),
        ("queues", r'{"name": "q", "vhost": "/", "arguments": {"a": "\ud800"}}'),
        ("queues", r'{"name": "q", "vhost": "/", "arguments": {"\ud800": 1}}'),
        ("policies", r'{"name": "p", "vhost": "/", "pattern": "\ud800", "definition": {"max-length": 1}}'),
        ("policies", r'{"name": "p", "vhost": "/", "pattern": "a", "definition": {"dead-letter-exchange": "\ud800"}}'),
        ("permissions", r'{"user": "guest", "vhost": "/", "configure": "\ud800", "write": "", "read": ""}'),
        ("topic_permissions", r'{"user": "guest", "vhost": "/", "exchange": "\udcff", "write": "", "read": ""}'),
        ("global_parameters", r'{"name": "g", "value": {"a": ["\ud800"]}}'),
        ("parameters", r'{"component": "\ud800", "vhost": "/", "name": "a", "value": 1}'),
        (
            "bindings",
            r'{"vhost": "/", "source": "amq.topic", "destination": "amq.fanout", "destination_type": "exchange",'
            r' "routing_key": "\ud800"}',
        ),
    ):
        refused = api.call("POST", "definitions", f'{{"{section}": [{entry}]}}'.encode())
        assert refused.status == 400, (section, refused.body)
        assert "line 1" in refused.reason, (section, refused.reason)


@pytest.mark.parametrize(
    "value",
    [
        "99999999999999999999999999",
        "-99999999999999999999999999",
        "18446744073709551615",
        "9223372036854775808",
        "1e400",
        "-1e400",
        "1e308",
        "NaN",
        "Infinity",
        "0.1e-400",
        "-0",
        "1" * 5000,
    ],
)
def test_a_number_of_any_size_is_taken_or_refused(api: Api, value: str) -> None:
    bodies = {
        "queues/%2F/number": '{{"arguments": {{"x": {0}, "y": [{{"z": {0}}}]}}}}',
        "policies/%2F/number": '{{"pattern": "^never$", "priority": {0}, "definition": {{"max-length": {0}}}}}',
        "global-parameters/number": '{{"value": {{"a": [{0}]}}}}',
        "vhost-limits/%2F/max-queues": '{{"value": {0}}}',
        "user-limits/guest/max-channels": '{{"value": {0}}}',
    }
    for path, body in bodies.items():
        assert api.call("PUT", path, body.format(value).encode()).status in (201, 204, 400), path
        api.call("DELETE", path)
    get = f'{{"count": {value}, "ackmode": "ack_requeue_true", "encoding": "auto"}}'.encode()
    assert api.call("POST", "queues/%2F/nosuch/get", get).status in (200, 400, 404)
    properties = f'{{"priority": {value}, "timestamp": {value}, "headers": {{"h": {value}}}}}'
    publish = f'{{"properties": {properties}, "routing_key": "", "payload": "", "payload_encoding": "string"}}'.encode()
    assert api.call("POST", "exchanges/%2F/amq.fanout/publish", publish).status in (200, 400)
    for section in (
        f'"queues": [{{"name": "number", "vhost": "/", "arguments": {{"x": {value}}}}}]',
        f'"global_parameters": [{{"name": "number", "value": {value}}}]',
        f'"policies": [{{"name": "n", "vhost": "/", "pattern": "^n$", "definition": {{"max-length": {value}}}}}]',
        f'"users": [{{"name": "number", "tags": "", "limits": {{"max-channels": {value}}}}}]',
    ):
        assert api.call("POST", "definitions", f"{{{section}}}".encode()).status in (204, 400), section
    for path in ("queues/%2F/number", "global-parameters/number", "policies/%2F/n", "users/number"):
        api.get(path)
        api.call("DELETE", path)


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_a_document_that_is_nested_too_deeply_is_refused(api: Api, opening: str, closing: str) -> None:
    inner = opening * DEEP + "1" + closing * DEEP
    for path, body in (
        ("queues/%2F/deep", f'{{"arguments": {{"x": {inner}}}}}'),
        ("global-parameters/deep", f'{{"value": {inner}}}'),
        ("policies/%2F/deep", f'{{"pattern": "^never$", "definition": {{"max-length": {inner}}}}}'),
        ("users/deep", f'{{"tags": {inner}}}'),
        ("queues/%2F/deep", inner),
    ):
        assert api.call("PUT", path, body.encode()).status == 400
    for section in ("queues", "users", "global_parameters"):
        entry = f'{{"name": "deep", "vhost": "/", "tags": "", "arguments": {inner}, "value": {inner}}}'
        refused = api.call("POST", "definitions", f'{{"{section}": [{entry}]}}'.encode())
        assert (refused.status, "nested" in refused.reason) == (400, True)
    assert api.get("queues/%2F/deep").status == 404
    assert api.call("PUT", "queues/%2F/deep", (opening * 10_000).encode()).status == 400
    assert api.call("POST", "definitions", (opening * 200_000).encode()).status == 400


def test_of_a_key_that_is_given_twice_the_last_counts(api: Api) -> None:
    assert api.call("PUT", "queues/%2F/twice", b'{"durable": false, "durable": true}').status == 201
    assert api.read("queues/%2F/twice")["durable"] is True


@pytest.mark.parametrize("value", [None, True, 5, 1.5, "x", [], [1], {}, {"a": 1}])
def test_a_value_of_any_type_in_any_field_is_taken_or_refused(api: Api, value: object) -> None:
    fields = {
        "queues/%2F/typed": ["durable", "auto_delete", "arguments", "node"],
        "exchanges/%2F/typed": ["type", "durable", "internal", "arguments"],
        "vhosts/typed": ["description", "tags", "tracing"],
        "users/typed": ["tags", "password", "password_hash", "hashing_algorithm"],
        "permissions/%2F/guest-typed": ["configure", "write", "read"],
        "policies/%2F/typed": ["pattern", "definition", "priority", "apply-to"],
        "operator-policies/%2F/typed": ["pattern", "definition", "priority", "apply-to"],
        "parameters/operator_policy/%2F/typed": ["value"],
        "global-parameters/typed": ["value"],
        "vhost-limits/%2F/max-connections": ["value"],
        "cluster-name": ["name"],
        "warren/log-levels": ["categories"],
        "warren/settings/disk_free_limit.absolute": ["value"],
    }
    good: dict[str, Any] = {
        "users/typed": {"tags": ""},
        "permissions/%2F/guest-typed": {"configure": "", "write": "", "read": ""},
        "policies/%2F/typed": {"pattern": "^never$", "definition": {"max-length": 1}},
        "operator-policies/%2F/typed": {"pattern": "^never$", "definition": {"max-length": 1}},
    }
    for path, names in fields.items():
        for name in names:
            assert api.call("PUT", path, {**good.get(path, {}), name: value}).status in (201, 204, 400), (path, name)
            if path.endswith("typed"):
                api.call("DELETE", path)
    api.call("DELETE", "vhost-limits/%2F/max-connections")
    posts = {
        "exchanges/%2F/amq.fanout/publish": {
            "properties": {},
            "routing_key": "",
            "payload": "",
            "payload_encoding": "string",
        },
        "queues/%2F/nosuch/get": {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto", "truncate": 1},
        "bindings/%2F/e/amq.topic/e/amq.fanout": {"routing_key": "", "arguments": {}},
        "users/bulk-delete": {"users": ["nosuch"]},
        "queues/%2F/nosuch/move": {"destination": "x", "count": 1},
        "queues/%2F/nosuch/actions": {"action": "sync"},
    }
    for path, body in posts.items():
        for name in body:
            heard = api.call("POST", path, {**body, name: value})
            assert heard.status in (200, 201, 204, 400, 404), (path, name, heard.status)


def test_properties_of_any_type_are_taken_or_refused(api: Api) -> None:
    names = ["delivery_mode", "priority", "timestamp", "content_type", "expiration", "user_id", "headers", "cluster_id"]
    values: list[object] = [
        None,
        True,
        5,
        -1,
        2**70,
        1.5,
        "x",
        "",
        [],
        {},
        {"a": None},
        {"a": [1, {"b": 2.5}]},
        "é" * 200,
    ]
    for name, value in product(names, values):
        body = {"properties": {name: value}, "routing_key": "", "payload": "", "payload_encoding": "string"}
        assert api.call("POST", "exchanges/%2F/amq.fanout/publish", body).status in (200, 400), (name, value)


def test_definitions_of_any_shape_are_taken_or_refused(api: Api) -> None:
    sections = ["users", "vhosts", "permissions", "topic_permissions", "parameters", "global_parameters", "policies"]
    for section in [*sections, "exchanges", "queues", "bindings", "nosuch"]:
        for value in (None, True, 5, "x", [], {}, [None], [5], [[]], ["x"], [{}], [{"name": None}], [{"name": ["x"]}]):
            heard = api.call("POST", "definitions", {section: value})
            assert heard.status in (204, 400), (section, value)
    assert api.call("POST", "definitions", b'{"users": [{"name": "a", "tags": ""}]').status == 400
    assert api.get("users/a").status == 404


def test_a_form_of_any_shape_is_taken_or_refused(api: Api) -> None:
    form = {"content-type": "multipart/form-data; boundary=b"}
    for body in (b"", b"--b", b"--b--", b"--b\r\n\r\nx\r\n--b--", b"\xff" * 100, b"--b\r\n" * 1000):
        assert api.call("POST", "definitions", body, headers=form).status in (204, 400)
    for kind in ("multipart/form-data", "multipart/form-data; boundary=", 'multipart/form-data; boundary="'):
        assert api.call("POST", "definitions", b"x", headers={"content-type": kind}).status in (204, 400)
    part = b'--b\r\ncontent-disposition: form-data; name="%s"\r\n\r\n%s\r\n'
    away = part % (b"file", b"{}") + part % (b"redirect", b"https://evil.example/") + b"--b--"
    assert api.call("POST", "definitions", away, headers=form).status == 204


def test_a_body_of_a_hundred_megabytes_is_refused_unread_and_not_kept_in_memory(node: NodeProcess, api: Api) -> None:
    before = node.resident_bytes()
    body = json.dumps({"users": [{"name": "x" * 1_000_000, "tags": ""}]}).encode() + b" " * 100_000_000
    for path in ("definitions", "users/bulk-delete", "queues/%2F/q/get", "exchanges/%2F/amq.fanout/publish"):
        unsent = api.call("POST", path, b"", headers={"content-length": str(len(body))})
        assert unsent.status == 413
        # the node may hang up while the rest is still on its way
        with suppress(ConnectionResetError, BrokenPipeError):
            assert api.call("POST", path, body).status == 413
    assert node.resident_bytes() - before < MEMORY_GROWTH_MAX_BYTES


def test_clients_notice_nothing(node: NodeProcess, api: Api) -> None:
    with connected(node) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("beside", durable=True)
        for _ in range(20):
            api.call("PUT", "queues/%2F/beside", {"durable": False})
            api.call("POST", "definitions", {"queues": [{"name": "beside", "vhost": "nosuch"}]})
            channel.basic_publish("", "beside", b"x")
        assert channel.queue_purge("beside").method.message_count == 20
